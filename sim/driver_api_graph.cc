// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Stream capture and graphs.
#include <cstdio>
#include <cstdlib>

#include "sim/api.h"
#include "sim/capture.h"
#include "sim/graph.h"
#include "sim/registry.h"

using namespace amem::sim;

namespace {

struct CaptureInfoOut {
  int* status;
  uint64_t* id;
  CuGraph* graph;
  const CuGraphNode** dependencies;
  size_t* dependency_count;
};

// A chain has no dependencies worth telling: they are reported as none. A graph is registered, and
// so can be used, when its capture has ended.
CuResult capture_info(CuStream handle, const CaptureInfoOut& out) {
  StreamRef stream;
  if (out.status == nullptr) return kErrorInvalidValue;
  const CuResult known = stream_of(handle, &stream);
  // The driver may end the process then: a caller that depends on what happens is wrong.
  if (known == kErrorInvalidHandle) {
    fputs("simulated GPU: the capture state of a destroyed stream was queried\n", stderr);
    abort();
  }
  if (known != kSuccess) return known;
  const CaptureStatus status = capture_status(*stream);
  if (status.result != kSuccess) return status.result;
  *out.status = status.status;
  if (out.id != nullptr) *out.id = status.id;
  if (out.graph != nullptr)
    *out.graph = reinterpret_cast<CuGraph>(const_cast<Graph*>(status.graph));
  if (out.dependencies != nullptr) *out.dependencies = nullptr;
  if (out.dependency_count != nullptr) *out.dependency_count = 0;
  return kSuccess;
}

}  // namespace

AMEM_SIM_API CuResult cuStreamBeginCapture_v2(CuStream handle, int mode) {
  return driver_call(Function::cuStreamBeginCapture_v2, [&] {
    StreamRef stream;
    if (const CuResult known = stream_of(handle, &stream); known != kSuccess) return known;
    return begin_capture(stream, mode);
  });
}

AMEM_SIM_API CuResult cuStreamEndCapture(CuStream handle, CuGraph* graph) {
  return driver_call(Function::cuStreamEndCapture, [&] {
    StreamRef stream;
    if (graph == nullptr) return kErrorInvalidValue;
    if (const CuResult known = stream_of(handle, &stream); known != kSuccess) return known;
    std::shared_ptr<Graph> captured;
    *graph = nullptr;
    const CuResult ended = end_capture(stream, &captured);
    if (ended == kSuccess) {
      *graph = static_cast<CuGraph>(Registry<Graph>::instance().add(std::move(captured)));
    }
    return ended;
  });
}

AMEM_SIM_API CuResult cuStreamIsCapturing(CuStream handle, int* status) {
  return driver_call(Function::cuStreamIsCapturing, [&] {
    return capture_info(handle, {status, nullptr, nullptr, nullptr, nullptr});
  });
}

AMEM_SIM_API CuResult cuStreamGetCaptureInfo_v2(CuStream handle, int* status, uint64_t* id,
                                                CuGraph* graph, const CuGraphNode** dependencies,
                                                size_t* dependency_count) {
  return driver_call(Function::cuStreamGetCaptureInfo_v2, [&] {
    return capture_info(handle, {status, id, graph, dependencies, dependency_count});
  });
}

AMEM_SIM_API CuResult cuStreamGetCaptureInfo_v3(CuStream handle, int* status, uint64_t* id,
                                                CuGraph* graph, const CuGraphNode** dependencies,
                                                const void** edge_data, size_t* dependency_count) {
  return driver_call(Function::cuStreamGetCaptureInfo_v3, [&] {
    if (edge_data != nullptr) *edge_data = nullptr;
    return capture_info(handle, {status, id, graph, dependencies, dependency_count});
  });
}

AMEM_SIM_API CuResult cuThreadExchangeStreamCaptureMode(int* mode) {
  return driver_call(Function::cuThreadExchangeStreamCaptureMode, [&] {
    if (mode == nullptr || *mode < kCaptureGlobal || *mode > kCaptureRelaxed) {
      return kErrorInvalidValue;
    }
    *mode = exchange_capture_mode(*mode);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph handle,
                                                  unsigned long long) {
  return driver_call(Function::cuGraphInstantiateWithFlags, [&] {
    const std::shared_ptr<Graph> graph = Registry<Graph>::instance().find(handle);
    if (exec == nullptr || graph == nullptr) return kErrorInvalidValue;
    auto made = std::make_shared<GraphExec>();
    made->operations = std::make_shared<const std::vector<Operation>>(graph->operations);
    *exec = static_cast<CuGraphExec>(Registry<GraphExec>::instance().add(std::move(made)));
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuGraphLaunch(CuGraphExec handle, CuStream stream_handle) {
  return driver_call(Function::cuGraphLaunch, [&] {
    StreamRef stream;
    const std::shared_ptr<GraphExec> exec = Registry<GraphExec>::instance().find(handle);
    if (exec == nullptr) return kErrorInvalidValue;
    if (const CuResult known = stream_of(stream_handle, &stream); known != kSuccess) return known;
    return launch(*exec, stream);
  });
}

AMEM_SIM_API CuResult cuGraphDestroy(CuGraph handle) {
  return driver_call(Function::cuGraphDestroy, [&] {
    return Registry<Graph>::instance().remove(handle) ? kSuccess : kErrorInvalidValue;
  });
}

AMEM_SIM_API CuResult cuGraphExecDestroy(CuGraphExec handle) {
  return driver_call(Function::cuGraphExecDestroy, [&] {
    return Registry<GraphExec>::instance().remove(handle) ? kSuccess : kErrorInvalidValue;
  });
}
