// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <sched.h>

#include <algorithm>
#include <ctime>

#include "sim/minccl/work.h"

namespace amem::minccl {
namespace {

constexpr size_t kLargestLlBytes = 64 << 10;

void check_epochs(AllToAllEpochs& epochs, LaunchLedger& ledger) {
  uint64_t expected = epochs.on_host.fetch_add(1);
  if (*epochs.on_device != expected) ledger.error = ncclInternalError;
  ++*epochs.on_device;
}

void run_all(KernelArguments& arguments) {
  DeviceCommunicator& communicator = *arguments.communicator;
  KernelWait wait(communicator.abort_flag);
  for (const CollectiveWork& work : arguments.collectives)
    if (!run_collective(communicator, work, wait)) return;
  if (!arguments.pairs.empty() && !run_pairs(communicator, arguments.pairs, wait)) return;
  if (arguments.epochs != nullptr) check_epochs(*arguments.epochs, *arguments.ledger);
  for (int channel = 0; channel < communicator.channels; ++channel)
    ++communicator.channel[channel].work_counter;
}

}  // namespace

void run_kernel(void* data) {
  auto* arguments = static_cast<KernelArguments*>(data);
  std::shared_ptr<LaunchLedger> ledger = arguments->ledger;
  if (arguments->captured) ledger->launched();
  run_all(*arguments);
  if (!arguments->captured) delete arguments;  // allow: the driver carried it as void*
  ledger->ended();
}

void KernelWait::idle() {
  // Few processors and many ranks: the peer needs this one to get on.
  if (++idle_rounds_ < 200) {
    sched_yield();
    return;
  }
  timespec pause{0, idle_rounds_ < 2000 ? 20'000 : 200'000};
  nanosleep(&pause, nullptr);
}

Part part_of_channel(size_t total, int channel, int channels, size_t smallest) {
  size_t part = std::max((total + channels - 1) / channels, smallest);
  return {std::min(total, channel * part), std::min(total, (channel + 1) * part)};
}

Protocol protocol_for(size_t bytes) {
  if (settings().protocol) return *settings().protocol;
  return bytes <= kLargestLlBytes ? Protocol::ll : Protocol::simple;
}

}  // namespace amem::minccl
