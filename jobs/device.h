// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace jobs {

using Address = uint64_t;
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Graph = CUgraph_st*;
using GraphExec = CUgraphExec_st*;

/// The driver that the loader finds, real or simulated. Calls return CUresult.
struct DeviceCalls {
#define JOB_CALL(name, symbol, parameters) int(*name) parameters = nullptr;
#include "jobs/device_calls.def"
#undef JOB_CALL
};

/// Loads libcuda.so.1. Throws std::runtime_error if there is none.
const DeviceCalls& device_calls();

/// Throws std::runtime_error with the name of the call if `result` is not CUDA_SUCCESS.
void check_cuda(int result, const char* call);
#define JOB_CUDA(call) ::jobs::check_cuda(::jobs::device_calls().call, #call)

}  // namespace jobs
