// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/capture.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/context.h"

namespace amem::sim {

struct Capture {
  struct Member {
    uint64_t last = 0;    // position of its last operation
    uint64_t joined = 0;  // up to where others waited for it
  };
  uint64_t id = 0;
  int mode = kCaptureGlobal;
  std::thread::id thread;
  Stream* origin = nullptr;
  bool invalidated = false;
  bool ended = false;
  const std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::map<Stream*, Member> members;

  uint64_t next_position() const { return graph->operations.size() + 1; }
};

namespace {

std::mutex g_mutex;
std::map<Stream*, std::shared_ptr<Capture>> g_capturing;  // guarded by g_mutex
std::atomic<size_t> g_count{0};                           // of g_capturing, to skip the lock
uint64_t g_next_id = 1;                                   // guarded by g_mutex
thread_local int t_mode = kCaptureGlobal;

// REQUIRES: g_mutex.
std::shared_ptr<Capture> capture_of(Stream& stream) {
  const auto found = g_capturing.find(&stream);
  return found == g_capturing.end() ? nullptr : found->second;
}

// REQUIRES: g_mutex.
CuResult spoil(Capture& capture, CuResult reason) {
  if (capture.invalidated) return kErrorStreamCaptureInvalidated;
  capture.invalidated = true;
  return reason;
}

// REQUIRES: g_mutex.
void leave(Capture& capture) {
  for (const auto& [stream, member] : capture.members) g_capturing.erase(stream);
  g_count = g_capturing.size();
  capture.ended = true;
}

// REQUIRES: g_mutex.
void enter(const std::shared_ptr<Capture>& capture, Stream* stream) {
  g_capturing[stream] = capture;
  g_count = g_capturing.size();
  capture->members[stream].last = capture->next_position() - 1;
}

bool unjoined(const Capture& capture) {
  for (const auto& [stream, member] : capture.members) {
    if (stream != capture.origin && member.joined <= member.last) return true;
  }
  return false;
}

// REQUIRES: g_mutex. The null stream waits for all blocking streams of its context: a capture of
// one of them, if this is the null stream.
Capture* implicitly_waited_for(Stream& null_stream) {
  if (&null_stream != null_stream.context().null_stream().get()) return nullptr;
  for (const auto& [stream, capture] : g_capturing) {
    if (stream->blocking() && &stream->context() == &null_stream.context()) return capture.get();
  }
  return nullptr;
}

}  // namespace

CuResult begin_capture(const StreamRef& stream, int mode) {
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kErrorInvalidValue;
  if (stream == stream->context().null_stream()) return kErrorStreamCaptureUnsupported;
  std::lock_guard guard(g_mutex);
  if (capture_of(*stream) != nullptr) return kErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = g_next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  enter(capture, stream.get());
  return kSuccess;
}

CuResult end_capture(const StreamRef& stream, std::shared_ptr<Graph>* graph) {
  std::lock_guard guard(g_mutex);
  const auto capture = capture_of(*stream);
  if (capture == nullptr) return kErrorIllegalState;
  if (capture->origin != stream.get()) return kErrorStreamCaptureUnmatched;
  if (capture->mode != kCaptureRelaxed && capture->thread != std::this_thread::get_id()) {
    return kErrorStreamCaptureWrongThread;
  }
  leave(*capture);
  if (capture->invalidated) return kErrorStreamCaptureInvalidated;
  if (unjoined(*capture)) return kErrorStreamCaptureUnjoined;
  *graph = capture->graph;
  return kSuccess;
}

CaptureStatus capture_status(Stream& stream) {
  std::lock_guard guard(g_mutex);
  const auto capture = capture_of(stream);
  if (implicitly_waited_for(stream) != nullptr) return {.result = kErrorStreamCaptureImplicit};
  if (capture == nullptr) return {};
  if (capture->invalidated) return {kCaptureStatusInvalidated, capture->id};
  return {kCaptureStatusActive, capture->id, capture->graph.get()};
}

CuResult submit(const StreamRef& stream, Operation operation) {
  if (const CuResult failure = stream->context().failure(); failure != kSuccess) return failure;
  if (g_count.load() > 0) {
    std::lock_guard guard(g_mutex);
    if (const auto capture = capture_of(*stream)) {
      if (capture->invalidated) return kErrorStreamCaptureInvalidated;
      capture->graph->operations.push_back(std::move(operation));
      capture->members[stream.get()].last = capture->graph->operations.size();
      return kSuccess;
    }
    if (Capture* const waited_for = implicitly_waited_for(*stream)) {
      return spoil(*waited_for, kErrorStreamCaptureImplicit);
    }
  }
  return stream->context().enqueue(*stream, std::move(operation));
}

CuResult captured_point(const StreamRef& stream, std::optional<CapturedPoint>* point) {
  std::lock_guard guard(g_mutex);
  const auto capture = capture_of(*stream);
  if (capture == nullptr) return kSuccess;
  if (capture->invalidated) return kErrorStreamCaptureInvalidated;
  *point = CapturedPoint{capture, stream.get(), capture->next_position()};
  return kSuccess;
}

CuResult join_capture(const StreamRef& stream, const CapturedPoint& point) {
  std::lock_guard guard(g_mutex);
  if (point.capture->ended) return kErrorCapturedEvent;
  const auto own = capture_of(*stream);
  if (own != nullptr && own != point.capture) return spoil(*own, kErrorStreamCaptureMerge);
  if (point.capture->invalidated) return kErrorStreamCaptureInvalidated;
  if (own == nullptr) {
    if (stream == stream->context().null_stream()) {
      return spoil(*point.capture, kErrorStreamCaptureImplicit);
    }
    enter(point.capture, stream.get());
  }
  Capture::Member& source = point.capture->members[point.stream];
  source.joined = std::max(source.joined, point.position);
  return kSuccess;
}

CuResult forbid_outside_event(Stream& stream) {
  std::lock_guard guard(g_mutex);
  const auto capture = capture_of(stream);
  return capture == nullptr ? kSuccess : spoil(*capture, kErrorStreamCaptureIsolation);
}

CuResult forbid_synchronizing(Stream& stream) {
  std::lock_guard guard(g_mutex);
  const auto capture = capture_of(stream);
  return capture == nullptr ? kSuccess : spoil(*capture, kErrorStreamCaptureUnsupported);
}

CuResult forbid_synchronizing(Context& context) {
  if (g_count.load() == 0) return kSuccess;
  std::lock_guard guard(g_mutex);
  CuResult result = kSuccess;
  for (const auto& [stream, capture] : g_capturing) {
    if (&stream->context() != &context) continue;
    spoil(*capture, kErrorStreamCaptureUnsupported);
    result = kErrorStreamCaptureUnsupported;
  }
  return result;
}

CuResult forbid_captured_event(const CapturedPoint& point) {
  std::lock_guard guard(g_mutex);
  if (!point.capture->ended) spoil(*point.capture, kErrorCapturedEvent);
  return kErrorCapturedEvent;
}

CuResult forbid_unsafe_call() {
  if (g_count.load() == 0 || t_mode == kCaptureRelaxed) return kSuccess;
  const std::thread::id self = std::this_thread::get_id();
  std::lock_guard guard(g_mutex);
  CuResult result = kSuccess;
  for (const auto& [stream, capture] : g_capturing) {
    const bool own = capture->thread == self && capture->mode != kCaptureRelaxed;
    const bool global = t_mode == kCaptureGlobal && capture->mode == kCaptureGlobal;
    if (!own && !global) continue;
    spoil(*capture, kErrorStreamCaptureUnsupported);
    result = kErrorStreamCaptureUnsupported;
  }
  return result;
}

int exchange_capture_mode(int mode) { return std::exchange(t_mode, mode); }

void forget_capture(Stream& stream) {
  std::lock_guard guard(g_mutex);
  const auto capture = capture_of(stream);
  if (capture == nullptr) return;
  const Capture::Member& member = capture->members[&stream];
  const bool is_joined = capture->origin != &stream && member.joined > member.last;
  if (!is_joined) spoil(*capture, kErrorStreamCaptureInvalidated);
  if (capture->origin == &stream) {
    leave(*capture);
    return;
  }
  capture->members.erase(&stream);
  g_capturing.erase(&stream);
  g_count = g_capturing.size();
}

}  // namespace amem::sim
