// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "amem/groups.hpp"
#include "jobs/device.h"
#include "tests/process/meeting.h"
#include "tests/slowdown.h"

namespace amem::symmetric {

inline constexpr size_t kBytes = size_t{1} << 20;
inline constexpr uint64_t kTimeoutMs = 20000 * kSlowdown;

inline jobs::Address address_of(const void* pointer) {
  return reinterpret_cast<jobs::Address>(pointer);
}

/// The elements of a tensor, or of a pointer to device memory.
template <typename T>
std::vector<T> read(const T* from, size_t count) {
  std::vector<T> values(count);
  JOB_CUDA(to_host(values.data(), address_of(from), count * sizeof(T)));
  return values;
}
template <typename T, size_t kDimensions>
std::vector<T> read(const Tensor<T, kDimensions>& tensor) {
  return read(tensor.data, tensor.count());
}

/// One rank: a process with a device and a stream.
class Rank {
 public:
  Rank(std::string folder, int number, int count)
      : rank(number), world_size(count), folder_(std::move(folder)), everyone_(files("everyone")) {
    amemEnable();
    JOB_CUDA(init(0));
    JOB_CUDA(retain_primary(&context, rank));
    JOB_CUDA(set_current(context));
    JOB_CUDA(stream_create(&stream, 1));
  }

  FileGroup files(const std::string& name) const { return files(name, rank, world_size); }
  FileGroup files(const std::string& name, int as_rank, int of) const {
    return FileGroup(folder_, name, as_rank, of, static_cast<int>(kTimeoutMs));
  }
  void synchronize() const { JOB_CUDA(stream_synchronize(stream)); }
  /// All ranks have come here and their devices are idle: nothing waits for a peer on a GPU.
  void wait_for_all() {
    synchronize();
    std::vector<char> all(static_cast<size_t>(world_size));
    everyone_.all_gather("x", 1, all.data());
  }
  int next() const { return (rank + 1) % world_size; }
  int previous() const { return (rank + world_size - 1) % world_size; }

  /// The work that `body` enqueues, as a graph.
  jobs::GraphExec capture(const std::function<void()>& body) const {
    constexpr int kThreadLocal = 1;
    jobs::Graph graph = nullptr;
    jobs::GraphExec executable = nullptr;
    JOB_CUDA(begin_capture(stream, kThreadLocal));
    body();
    JOB_CUDA(end_capture(stream, &graph));
    JOB_CUDA(graph_instantiate(&executable, graph, 0));
    JOB_CUDA(graph_destroy(graph));
    return executable;
  }
  void replay(jobs::GraphExec graph) const {
    JOB_CUDA(graph_launch(graph, stream));
    synchronize();
  }

  const int rank, world_size;
  jobs::Context context = nullptr;
  jobs::Stream stream = nullptr;

 private:
  const std::string folder_;
  FileGroup everyone_;
};

class SymmetricRanks : public testing::Test {
 protected:
  using Body = std::function<void(Rank&)>;

  /// Runs the body in so many processes.
  void run(int count, const Body& body) const {
    std::vector<pid_t> children;
    for (int rank = 0; rank < count; ++rank) {
      children.push_back(fork());
      if (children.back() == 0) _exit(run_one(rank, count, body));
    }
    for (size_t rank = 0; rank < children.size(); ++rank) {
      int status = 0;
      waitpid(children[rank], &status, 0);
      EXPECT_EQ(status, 0) << "rank " << rank;
    }
  }
  static size_t allocated_bytes() {
    amemTotals_t totals{};
    EXPECT_EQ(amemGetTagTotals("symmetric", -1, -1, &totals), 0);
    return totals.allocated_bytes;
  }

 private:
  int run_one(int number, int count, const Body& body) const {
    const std::filesystem::path machine = meeting_.folder() / "machine";
    std::filesystem::create_directories(machine);
    setenv("AMEM_SIM_DIR", machine.c_str(), 1);
    setenv("AMEM_SIM_MEMORY_MB", "256", 1);
    try {
      Rank rank(meeting_.folder(), number, count);
      body(rank);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << number << ": " << error.what();
    }
    fflush(stdout);
    return HasFailure() ? 1 : 0;
  }

  const Meeting meeting_;
};

}  // namespace amem::symmetric
