// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on the question whether a stream is being captured.
#include "base/log.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/hook_context.h"
#include "driver/work_contexts.h"

namespace amem {
namespace {

DriverResult noted(DriverStream stream, const int* status, uint64_t capture, DriverResult result) {
  HookContext& context = *hook_context();
  if (result != driver_result::kSuccess || status == nullptr || context.forward_only) return result;
  note_work_context(*context.driver);
  const Status admitted = context.captures->note(stream, *status, capture, context.gate_timeout_ms);
  if (admitted.ok()) return result;
  AMEM_LOG(warn, -1, "%s", admitted.error().message.c_str());
  return driver_result::kNotPermitted;
}

}  // namespace

DriverResult hooked_cuStreamGetCaptureInfo_v2(DriverStream stream, int* status, uint64_t* id,
                                              void* graph, void* dependencies, size_t* count) {
  uint64_t own = 0;
  uint64_t& capture = id != nullptr ? *id : own;
  const DriverResult result = hook_context()->driver->cuStreamGetCaptureInfo_v2(
      stream, status, &capture, graph, dependencies, count);
  return noted(stream, status, capture, result);
}

DriverResult hooked_cuStreamGetCaptureInfo_v3(DriverStream stream, int* status, uint64_t* id,
                                              void* graph, void* dependencies, void* edges,
                                              size_t* count) {
  uint64_t own = 0;
  uint64_t& capture = id != nullptr ? *id : own;
  const DriverResult result = hook_context()->driver->cuStreamGetCaptureInfo_v3(
      stream, status, &capture, graph, dependencies, edges, count);
  return noted(stream, status, capture, result);
}

}  // namespace amem
