// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Hooks on the question whether a stream is being captured, and on the end of streams.
#include <array>

#include "base/log.h"
#include "clients/nccl/driver_calls/entry_points.h"
#include "clients/nccl/nccl_client.h"
#include "driver/work_contexts.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"

namespace amem {
namespace {

/// `graph`: a CUgraph*. `more`: the parameters after it, of which each form of the function has its
/// own.
template <typename Real, typename... More>
DriverResult query(NcclClient& client, Real* real, DriverStream stream, int* status, uint64_t* id,
                   void* graph, More... more) {
  uint64_t own_id = 0;
  const void* own_graph = nullptr;
  uint64_t& capture = id != nullptr ? *id : own_id;
  void* const captured = graph != nullptr ? graph : &own_graph;
  const DriverResult result = real(stream, status, &capture, captured, more...);
  if (result != driver_result::kSuccess || status == nullptr) return result;
  note_work_context(client.driver());
  const Status admitted =
      client.captures.note(stream, *status, capture, client.settings.gate_timeout_ms);
  if (admitted.ok()) {
    if (*status == kCaptureStatusActive)
      client.note_captured(*static_cast<const void* const*>(captured));
    return result;
  }
  AMEM_LOG(warn, -1, "%s", admitted.error().message.c_str());
  return driver_result::kNotPermitted;
}

constexpr std::array<const char*, 3> kStreamEnds{"cudaStreamDestroy", "cuStreamDestroy",
                                                 "cuStreamDestroy_v2"};
constexpr size_t kMaxRuntimes = 4;
constinit RealFunctions<kStreamEnds.size(), kMaxRuntimes> g_real(kStreamEnds);

template <size_t kWhich, size_t kRuntime>
int destroy_stream(DriverStream stream) {
  if (NcclClient* const client = built<NcclClient>()) client->captures.forget(stream);
  return g_real.call<kRuntime>(kWhich, stream);
}

constexpr auto kEntries = []<size_t kWhich, size_t kRuntime>() {
  return destroy_stream<kWhich, kRuntime>;
};
constinit NamedFunctions g_stream_ends{kStreamEnds, entry_of<g_real, kEntries>};

}  // namespace

void catch_stream_ends() { intercept_names(g_stream_ends); }

DriverResult hooks::cuStreamGetCaptureInfo_v2(NcclClient& client, DriverStream stream, int* status,
                                              uint64_t* id, void* graph, void* dependencies,
                                              size_t* count) {
  return query(client, client.driver().cuStreamGetCaptureInfo_v2, stream, status, id, graph,
               dependencies, count);
}

DriverResult hooks::cuStreamGetCaptureInfo_v3(NcclClient& client, DriverStream stream, int* status,
                                              uint64_t* id, void* graph, void* dependencies,
                                              void* edges, size_t* count) {
  return query(client, client.driver().cuStreamGetCaptureInfo_v3, stream, status, id, graph,
               dependencies, edges, count);
}

}  // namespace amem
