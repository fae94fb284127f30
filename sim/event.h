// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "sim/capture.h"
#include "sim/stream.h"

namespace amem::sim {

/// The point of a stream or of a capture at which the event was last recorded. An event that was
/// never recorded is complete. Thread-safe.
class Event {
 public:
  explicit Event(unsigned flags) : flags_(flags) {}

  bool timed() const { return (flags_ & kEventDisableTiming) == 0; }

  CuResult record(const StreamRef& stream);

  /// Makes later work of the stream wait for the event.
  CuResult make_wait(const StreamRef& stream);

  /// kErrorNotReady until the event is complete.
  CuResult query();
  CuResult synchronize();

  /// Milliseconds from one to the other.
  static CuResult elapsed(Event& start, Event& end, float* milliseconds);

 private:
  struct Recorded {
    std::shared_ptr<Completion> completion;  ///< null before the first record
    std::optional<CapturedPoint> captured;
    Context* context = nullptr;
  };
  Recorded recorded();

  const unsigned flags_;
  std::mutex mutex_;
  Recorded recorded_;
};

}  // namespace amem::sim
