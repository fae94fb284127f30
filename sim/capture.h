// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "sim/graph.h"
#include "sim/stream.h"

/// Stream capture (CUDA Driver API, cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode). A
/// capture becomes one chain of operations in the order of the calls, which is one of the orders
/// that the real graph allows.
namespace amem::sim {

struct Capture;

/// The point of a capture at which an event was recorded.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  Stream* stream = nullptr;
  uint64_t position = 0;
};

CuResult begin_capture(const StreamRef& stream, int mode);

/// Ends the capture that began in this stream. Returns the graph on success.
CuResult end_capture(const StreamRef& stream, std::shared_ptr<Graph>* graph);

struct CaptureStatus {
  int status = kCaptureStatusNone;
  uint64_t id = 0;
  const Graph* graph = nullptr;  ///< the one that end_capture() returns
  CuResult result = kSuccess;    ///< an error for a null stream next to a captured blocking stream
};
CaptureStatus capture_status(Stream& stream);

/// Submits work to a stream: to its capture if it is capturing, otherwise to its queue. Fails for a
/// null stream whose context captures a blocking stream, because each would wait for the other, and
/// with kErrorOutOfMemory if the context's local memory cannot grow.
CuResult submit(const StreamRef& stream, Operation operation);

/// The point of the stream's capture, if it is capturing.
CuResult captured_point(const StreamRef& stream, std::optional<CapturedPoint>* point);

/// A capturing event was waited for: the stream joins the capture.
CuResult join_capture(const StreamRef& stream, const CapturedPoint& point);

/// A wait for an event outside of any capture: fails if the stream is capturing.
CuResult forbid_outside_event(Stream& stream);

/// Waiting for a capturing stream, or a query of it, is an error that invalidates the capture.
CuResult forbid_synchronizing(Stream& stream);
/// The same for all streams of a context, whatever the mode of the calling thread.
CuResult forbid_synchronizing(Context& context);
/// The same for an event that was recorded in a capture.
CuResult forbid_captured_event(const CapturedPoint& point);

/// Refuses "potentially unsafe" calls according to the modes of the captures and of this thread.
CuResult forbid_unsafe_call();

/// Sets the calling thread's mode and returns the previous one. REQUIRES: a mode of the ABI.
int exchange_capture_mode(int mode);

/// Removes a destroyed stream from its capture, which becomes invalid.
void forget_capture(Stream& stream);

}  // namespace amem::sim
