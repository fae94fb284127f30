// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/several_devices.h"

#include <stdexcept>

#include "jobs/collectives.h"

namespace jobs {

Orders SeveralDevices::orders() {
  return {{"devices_make", [this](Words& words) { return make(words); }},
          {"devices_check", [this](Words& words) { return check(words); }},
          {"devices_destroy", [this](Words&) { return destroy(); }}};
}

/// devices_make COUNT: a communicator over devices 0 to COUNT - 1.
std::string SeveralDevices::make(Words& words) {
  size_t count = 0;
  words >> count;
  members_.resize(count);
  std::vector<ncclComm_t> comms(count);
  JOB_CUDA(init(0));
  for (size_t i = 0; i < count; ++i) {
    constexpr unsigned kNonBlocking = 1;
    JOB_CUDA(retain_primary(&members_[i].context, static_cast<int>(i)));
    JOB_CUDA(set_current(members_[i].context));
    JOB_CUDA(stream_create(&members_[i].stream, kNonBlocking));
  }
  JOB_NCCL(ncclCommInitAll(comms.data(), static_cast<int>(count), nullptr));
  for (size_t i = 0; i < count; ++i) members_[i].comm = comms[i];
  return "";
}

/// devices_check COUNT...: all_reduces of so many floats, every sum looked at.
std::string SeveralDevices::check(Words& words) {
  for (size_t count; words >> count;) all_reduce(count);
  return "";
}

void SeveralDevices::all_reduce(size_t count) {
  const auto value = [](size_t member, size_t i) {
    return static_cast<float>((i * 7 + member * 13) % 97);
  };
  std::vector<float> floats(count);
  for (size_t m = 0; m < members_.size(); ++m) {
    JOB_CUDA(set_current(members_[m].context));
    JOB_CUDA(mem_alloc(&members_[m].buffer, count * sizeof(float)));
    for (size_t i = 0; i < count; ++i) floats[i] = value(m, i);
    JOB_CUDA(to_device(members_[m].buffer, floats.data(), count * sizeof(float)));
    // Neither need be complete when it returns, see put_inputs() of collectives.cc.
    JOB_CUDA(stream_synchronize(nullptr));
  }
  JOB_NCCL(ncclGroupStart());
  for (const Member& member : members_) {
    void* const buffer = reinterpret_cast<void*>(member.buffer);
    JOB_NCCL(
        ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, member.comm, member.stream));
  }
  JOB_NCCL(ncclGroupEnd());
  for (size_t m = 0; m < members_.size(); ++m) {
    JOB_CUDA(set_current(members_[m].context));
    JOB_CUDA(stream_synchronize(members_[m].stream));
    JOB_CUDA(to_host(floats.data(), members_[m].buffer, count * sizeof(float)));
    JOB_CUDA(mem_free(members_[m].buffer));
    for (size_t i = 0; i < count; ++i) {
      float wanted = 0;
      for (size_t k = 0; k < members_.size(); ++k) wanted += value(k, i);
      if (floats[i] != wanted)
        throw std::runtime_error("all_reduce on device " + std::to_string(m) + ": element " +
                                 std::to_string(i) + " is " + std::to_string(floats[i]) +
                                 " instead of " + std::to_string(wanted));
    }
  }
}

std::string SeveralDevices::destroy() {
  for (const Member& member : members_) JOB_NCCL(ncclCommDestroy(member.comm));
  members_.clear();
  return "";
}

}  // namespace jobs
