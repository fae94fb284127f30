// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/call_timing.h"

#include <dlfcn.h>

#include <array>
#include <stdexcept>

namespace jobs {

namespace {

/// The function of this name in NCCL itself, past the libnccl.so.2 that this process is linked
/// with.
template <typename Function>
Function nccls_own(void* nccl, const char* name, Function linked) {
  const auto found = reinterpret_cast<Function>(dlsym(nccl, name));
  if (found == nullptr) throw std::runtime_error(std::string(name) + " is not in NCCL");
  if (found == linked) throw std::runtime_error("calls reach NCCL without amem");
  return found;
}

NcclCalls nccls_own(const std::string& nccl_file) {
  void* const nccl = dlopen(nccl_file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (nccl == nullptr) throw std::runtime_error(nccl_file + " is not the NCCL of this process");
  NcclCalls calls;
#define NCCL_CALL(name, function) calls.name = nccls_own(nccl, #function, kLinkedCalls.name);
#include "jobs/nccl_calls.def"
#undef NCCL_CALL
  return calls;
}

}  // namespace

Orders CallTiming::orders() {
  return {{"time_calls", [this](Words& words) { return time_calls(words); }}};
}

std::string CallTiming::time_calls(Words& words) {
  std::string name, collective, nccl_file;
  size_t count = 0;
  int repeats = 0, rounds = 0;
  bool grouped = false;
  words >> name >> collective >> count >> repeats >> rounds >> grouped >> nccl_file;
  Communicator& communicator = communicators_.find(name);
  const std::array<NcclCalls, 2> ways = {nccls_own(nccl_file), kLinkedCalls};
  std::string answer;
  communicator.make_buffers(count);
  for (int round = 0; round < rounds; ++round) {
    std::array<double, 2> seconds{};
    // Each is first in every other round.
    for (int turn = 0; turn < 2; ++turn) {
      const auto way = static_cast<size_t>((round + turn) % 2);
      seconds[way] = communicator.time_calls(ways[way], collective, count, repeats, grouped);
    }
    for (const double of_way : seconds) answer += std::to_string(of_way * 1e9 / repeats) + " ";
  }
  return answer;
}

}  // namespace jobs
