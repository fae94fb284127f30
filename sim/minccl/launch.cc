// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <set>
#include <utility>

#include "sim/minccl/communicator.h"
#include "sim/minccl/kernel_module.h"

namespace amem::minccl {
namespace {

std::unique_ptr<KernelArguments> collect(std::vector<PendingOperation>& pending) {
  auto arguments = std::make_unique<KernelArguments>();
  for (PendingOperation& operation : pending) {
    for (CollectiveWork& work : operation.collectives) arguments->collectives.push_back(work);
    for (PairWork& work : operation.pairs) arguments->pairs.push_back(work);
  }
  return arguments;
}

CuResult launch(CuFunction kernel, CuStream stream, KernelArguments* arguments) {
  CuHostFn function = run_kernel;
  void* parameters[] = {&function, &arguments};
  return driver().launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace

// Kernels of a communicator share its connections: one at a time, in the order of the calls, also
// when they are on different streams.
ncclResult_t Communicator::order_after_last_kernel(CuStream stream) {
  if (has_launched_ && stream != last_stream_)
    MINCCL_CU(stream_wait_event(stream, last_kernel_, 0));
  return ncclSuccess;
}

// A group may name several streams: its kernel runs after the work of all of them, and they go on
// after it.
ncclResult_t Communicator::join_streams(CuStream launch) {
  std::set<CuStream> others;
  for (const PendingOperation& operation : pending_) others.insert(operation.stream);
  others.erase(launch);
  for (CuStream other : others) {
    MINCCL_CU(event_record(stream_joint_, other));
    MINCCL_CU(stream_wait_event(launch, stream_joint_, 0));
  }
  return ncclSuccess;
}

ncclResult_t Communicator::release_streams(CuStream launch) {
  std::set<CuStream> others;
  for (const PendingOperation& operation : pending_) others.insert(operation.stream);
  others.erase(launch);
  if (others.empty()) return ncclSuccess;
  MINCCL_CU(event_record(stream_joint_, launch));
  for (CuStream other : others) MINCCL_CU(stream_wait_event(other, stream_joint_, 0));
  return ncclSuccess;
}

ncclResult_t Communicator::ask_about_capture(amemStream_t stream) {
  ContextScope scope(context_);
  int capture = kCaptureStatusNone;
  MINCCL_CU(stream_capture_info(stream, &capture, nullptr, nullptr, nullptr, nullptr));
  return ncclSuccess;
}

ncclResult_t Communicator::launch_pending() {
  if (pending_.empty()) return ncclSuccess;
  ContextScope scope(context_);
  CuStream stream = pending_.front().stream;
  CuFunction kernel = nullptr;
  MINCCL_TRY(kernel_in_context(context_, &kernel));
  int capture = kCaptureStatusNone;
  MINCCL_CU(stream_capture_info(stream, &capture, nullptr, nullptr, nullptr, nullptr));
  auto arguments = collect(pending_);
  arguments->communicator = device_communicator_;
  arguments->ledger = ledger_;
  for (const PendingOperation& operation : pending_)
    if (operation.all_to_all) arguments->epochs = &epochs_;
  arguments->captured = capture != kCaptureStatusNone;
  MINCCL_TRY(join_streams(stream));
  if (arguments->captured) {
    // An event of outside the capture cannot be waited for inside (CUDA: capture isolation); the
    // graph is ordered by the streams it is launched on.
    if (CuResult code = launch(kernel, stream, arguments.get()); code != kSuccess)
      return fail_driver("cuLaunchKernel", code);
    captured_arguments_.push_back(std::move(arguments));
  } else {
    MINCCL_TRY(order_after_last_kernel(stream));
    ledger_->launched();
    CuResult code = launch(kernel, stream, arguments.get());
    if (code != kSuccess) {
      ledger_->ended();
      return fail_driver("cuLaunchKernel", code);
    }
    (void)arguments.release();  // the driver has it
    MINCCL_CU(event_record(last_kernel_, stream));
    last_stream_ = stream;
    has_launched_ = true;
  }
  return release_streams(stream);
}

}  // namespace amem::minccl
