// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/api.h"

#include <atomic>

#include "sim/capture.h"
#include "sim/context.h"
#include "sim/registry.h"

namespace amem::sim {
namespace {

std::atomic<bool> g_initialised{false};

}  // namespace

void set_initialised() { g_initialised = true; }

CuResult enter_call(Function function) {
  if (const CuResult fault = count_call(function); fault != kSuccess) return fault;
  const FunctionKind kind = function_kind(function);
  if (kind == FunctionKind::kAnytime) return kSuccess;
  if (!g_initialised) return kErrorNotInitialized;
  const bool unsafe = kind == FunctionKind::kUnsafe || kind == FunctionKind::kUnsafeMemory;
  return unsafe ? forbid_unsafe_call() : kSuccess;
}

CuResult stream_of(CuStream handle, StreamRef* stream) {
  constexpr uintptr_t kLastNullStream = 2;
  if (reinterpret_cast<uintptr_t>(handle) <= kLastNullStream) {
    Context* context = nullptr;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    *stream = context->null_stream();
    return kSuccess;
  }
  *stream = Registry<Stream>::instance().find(handle);
  if (*stream == nullptr) return kErrorInvalidHandle;
  return (*stream)->context().alive() ? kSuccess : kErrorContextIsDestroyed;
}

}  // namespace amem::sim
