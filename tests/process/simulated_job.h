// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>

#include "jobs/job.h"
#include "tests/process/gpu_count.h"
#include "tests/slowdown.h"

/// Skips a test that needs this many GPUs, one a rank, on a machine that has fewer. Simulated GPUs
/// are as many as a test wants, and shared ones serve any number of ranks. tests/gpu/reports.py
/// knows the words.
#define AMEM_NEEDS_GPUS(wanted)                                    \
  if (const int have = JobTest::gpus_for(wanted); have < (wanted)) \
  GTEST_SKIP() << "needs " << (wanted) << " GPUs, there are " << have

/// Likewise for a test that needs this many GPUs although ranks may share them.
#define AMEM_NEEDS_OWN_GPUS(wanted)                                    \
  if (const int have = JobTest::own_gpus_for(wanted); have < (wanted)) \
  GTEST_SKIP() << "needs " << (wanted) << " GPUs, there are " << have

namespace amem {

/// Everything instead of a sample, where that takes long: AMEM_TEST_LONG.
inline bool is_long() { return getenv("AMEM_TEST_LONG") != nullptr; }

/// A job on GPUs of its own: simulated ones with minccl, or the machine's with a stock NCCL when
/// AMEM_TEST_REAL_GPU=1. Simulated GPUs live in a directory that goes with the test.
/// AMEM_TEST_SHARED_GPUS=N: on N GPUs, which ranks share when they are more. A stock NCCL lets them
/// from 2.30.3 on (init.cc:68@v2.30.7-1); it exports and imports their memory as between GPUs.
class JobTest : public testing::Test {
 protected:
  JobTest() {
    const std::filesystem::path build = AMEM_BUILD_DIR;
    const char* rank_program = getenv("AMEM_TEST_RANK_PROGRAM");
    setup_.rank_program =
        rank_program != nullptr ? rank_program : (build / "bin/amem_rank").string();
    setup_.deadline_ms = 60000 * kSlowdown;
    setup_.environment = {{"AMEM_ENABLE", "1"},
                          {"GMM_LOG", "2"},
                          {"AMEM_TIMEOUT_MS", milliseconds(20000)},
                          {"AMEM_GATE_TIMEOUT_MS", milliseconds(20000)}};
    setup_.shared_gpus = shared_gpus();
    if (setup_.shared_gpus > 0) setup_.environment["NCCL_MULTI_RANK_GPU_ENABLE"] = "1";
    if (real_gpu()) return;
    // Of a test with parameters the name has a slash, which would make a folder in a folder.
    std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(test.begin(), test.end(), '/', '-');
    gpus_ = folder_for_gpus() / ("amem-gpus-" + std::to_string(getpid()) + "-" + test);
    std::filesystem::remove_all(gpus_);
    std::filesystem::create_directories(gpus_);
    setup_.environment["LD_LIBRARY_PATH"] = (build / "sim").string();
    setup_.environment["AMEM_NCCL_PATH"] = (build / "sim/libnccl.so.2").string();
    setup_.environment["AMEM_TEST_CUDART"] =
        (build / "tests/interpose/programs/libfake_cudart.so").string();
    setup_.environment["AMEM_SIM_DIR"] = gpus_.string();
    setup_.environment["AMEM_SIM_MEMORY_MB"] = "1024";
    if (!kSanitized) return;
    // At exit(3) LeakSanitizer reads all memory; simulated addresses without memory fault.
    const char* options = getenv("ASAN_OPTIONS");
    setup_.environment["ASAN_OPTIONS"] =
        std::string(options != nullptr ? options : "") + ":detect_leaks=0";
  }
  ~JobTest() override {
    if (!gpus_.empty()) std::filesystem::remove_all(gpus_);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
  }

  /// A deadline as a variable has it.
  static std::string milliseconds(long ms) { return std::to_string(ms * kSlowdown); }

  static bool real_gpu() { return getenv("AMEM_TEST_REAL_GPU") != nullptr; }
  static int shared_gpus() {
    const char* count = getenv("AMEM_TEST_SHARED_GPUS");
    return count != nullptr ? atoi(count) : 0;
  }
  /// For how many of `wanted` ranks there are GPUs: one each, unless they share them.
  static int gpus_for(int wanted) { return shared_gpus() == 0 ? own_gpus_for(wanted) : wanted; }
  static int own_gpus_for(int wanted) {
    if (!real_gpu()) return wanted;
    const int count = shared_gpus() == 0 ? gpu_count() : std::min(shared_gpus(), gpu_count());
    return std::min(wanted, count);
  }
  /// 0, 1, ...: every rank on a GPU of its own, unless GPUs are shared.
  static std::vector<int> first_devices(int count) {
    std::vector<int> devices(static_cast<size_t>(count));
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  /// Memory rather than a disk, where there is enough of it: containers often have 64 MiB of shm.
  static std::filesystem::path folder_for_gpus() {
    constexpr uintmax_t kEnoughBytes = uintmax_t{8} << 30;
    const std::filesystem::path memory = "/dev/shm";
    std::error_code failed;
    const auto space = std::filesystem::space(memory, failed);
    return !failed && space.available >= kEnoughBytes ? memory
                                                      : std::filesystem::temp_directory_path();
  }
  /// Counts for checks: the largest goes through every slot of a FIFO several times.
  static std::string counts() { return real_gpu() ? " 17 16384 4194304" : " 17 16384 100000"; }

  /// Two ranks on GPUs of their own with one communicator, connected in every way.
  std::unique_ptr<jobs::Job> pair(const std::map<std::string, std::string>& environment = {}) {
    auto job = std::make_unique<jobs::Job>(setup_, 2, environment);
    job->use_devices({0, 1});
    job->make("world");
    job->all("check world" + counts());
    return job;
  }

  /// Device memory in use, as the driver says, seen by a rank.
  static size_t used_bytes(jobs::RankProcess& rank) {
    size_t free_bytes = 0, total_bytes = 0;
    sscanf(rank.ask("memory").c_str(), "%zu %zu", &free_bytes, &total_bytes);
    return total_bytes - free_bytes;
  }
  /// That a pause freed what the driver had for NCCL: all of it on the simulated GPU. A real driver
  /// may take a page for the pause itself (our copy stream): 2 MiB seen on H200.
  static void expect_freed(size_t used_before, size_t used_paused, size_t driver_bytes) {
    if (real_gpu())
      EXPECT_GE(used_before, used_paused + driver_bytes / 100 * 99);
    else
      EXPECT_EQ(used_before, used_paused + driver_bytes);
  }
  /// That a resume took what there was before; a page may have been added by each process of the
  /// GPU and each of its peers, see above (6 MiB seen with two processes a GPU).
  static void expect_as_before(size_t used_before, size_t used_resumed) {
    if (real_gpu())
      EXPECT_LE(used_resumed, used_before + (8 << 20));
    else
      EXPECT_EQ(used_resumed, used_before);
  }

  struct Totals {
    size_t objects, allocated, resident, released, fixed, imports, mapped;
    size_t driver_objects, driver_bytes, driver_imports;
    size_t saved;
  };
  static Totals totals(jobs::RankProcess& rank) {
    Totals t{};
    sscanf(rank.ask("totals").c_str(), "%zu %zu %zu %zu %zu %zu %zu %zu %zu %zu %zu", &t.objects,
           &t.allocated, &t.resident, &t.released, &t.fixed, &t.imports, &t.mapped,
           &t.driver_objects, &t.driver_bytes, &t.driver_imports, &t.saved);
    return t;
  }

  /// What the rank's last pause and resume copied.
  struct Copied {
    size_t pause, resume;
  };
  static Copied copied(jobs::RankProcess& rank) {
    Copied bytes{};
    sscanf(rank.ask("times").c_str(), "%*f %*f %*f %*f %*f %*f %*f %*f %*f %zu %zu", &bytes.pause,
           &bytes.resume);
    return bytes;
  }

  jobs::Setup setup_;
  std::filesystem::path gpus_;
};

}  // namespace amem
