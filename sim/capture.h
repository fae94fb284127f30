// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "sim/stream.h"

/// Stream capture (CUDA Driver API, cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode).
/// What a capture sees becomes one chain of operations in the order of the calls, which is one of
/// the orders that the real graph allows.
namespace amem::sim {

struct Capture;

/// The point of a capture at which an event was recorded.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;
  Stream* stream = nullptr;
  uint64_t position = 0;
};

CuResult begin_capture(const StreamRef& stream, int mode);

/// Ends the capture that began in this stream; the chain on success.
CuResult end_capture(const StreamRef& stream, std::vector<Operation>* operations);

struct CaptureStatus {
  int status = kCaptureStatusNone;
  uint64_t id = 0;
};
CaptureStatus capture_status(Stream& stream);

/// Gives work to a stream: into its capture if it is capturing, else into its queue. Refused for a
/// null stream whose context captures a blocking stream: they would have to wait for each other;
/// and where the context's local memory has to grow and there is no room (kErrorOutOfMemory).
CuResult submit(const StreamRef& stream, Operation operation);

/// The point of the stream's capture, if it is capturing.
CuResult captured_point(const StreamRef& stream, std::optional<CapturedPoint>* point);

/// A capturing event was waited for: the stream becomes part of the capture.
CuResult join_capture(const StreamRef& stream, const CapturedPoint& point);

/// A wait for an event outside of any capture: refused if the stream is capturing.
CuResult forbid_outside_event(Stream& stream);

/// Waiting for, or asking about, a capturing stream is an error that spoils the capture.
CuResult forbid_synchronizing(Stream& stream);
/// The same for all streams of a context, whatever the mode of the calling thread.
CuResult forbid_synchronizing(Context& context);
/// The same for an event that was recorded in a capture.
CuResult forbid_captured_event(const CapturedPoint& point);

/// Refuses "potentially unsafe" calls as the modes of the captures and of this thread demand.
CuResult forbid_unsafe_call();

/// Sets the calling thread's mode and returns the one before. REQUIRES: a mode of the ABI.
int exchange_capture_mode(int mode);

/// Takes the stream out of its capture, which is spoilt: it was destroyed.
void forget_capture(Stream& stream);

}  // namespace amem::sim
