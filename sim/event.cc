// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/event.h"

#include "sim/context.h"

namespace amem::sim {

Event::Recorded Event::recorded() {
  std::lock_guard guard(mutex_);
  return recorded_;
}

CuResult Event::record(const StreamRef& stream) {
  std::optional<CapturedPoint> point;
  if (const CuResult result = captured_point(stream, &point); result != kSuccess) return result;
  Recorded fresh;
  fresh.captured = point;
  fresh.context = &stream->context();
  if (!point) {
    auto completion = std::make_shared<Completion>();
    fresh.completion = completion;
    const Operation mark{[completion] {
                           completion->finish();
                           return kSuccess;
                         },
                         /*always=*/true};
    if (const CuResult result = submit(stream, mark); result != kSuccess) return result;
  }
  std::lock_guard guard(mutex_);
  recorded_ = std::move(fresh);
  return kSuccess;
}

CuResult Event::make_wait(const StreamRef& stream) {
  const Recorded last = recorded();
  if (last.captured) return join_capture(stream, *last.captured);
  if (last.completion == nullptr) return kSuccess;
  if (const CuResult result = forbid_outside_event(*stream); result != kSuccess) return result;
  return submit(stream, {[completion = last.completion] {
                           completion->wait();
                           return kSuccess;
                         },
                         /*always=*/true});
}

CuResult Event::query() {
  const Recorded last = recorded();
  if (last.captured) return forbid_captured_event(*last.captured);
  if (last.completion == nullptr) return kSuccess;
  if (!last.completion->done()) return kErrorNotReady;
  return last.context->failure();
}

CuResult Event::synchronize() {
  const Recorded last = recorded();
  if (last.captured) return forbid_captured_event(*last.captured);
  if (last.completion == nullptr) return kSuccess;
  last.completion->wait();
  return last.context->failure();
}

CuResult Event::elapsed(Event& start, Event& end, float* milliseconds) {
  const Recorded from = start.recorded();
  const Recorded to = end.recorded();
  if (!start.timed() || !end.timed() || from.completion == nullptr || to.completion == nullptr) {
    return kErrorInvalidHandle;
  }
  if (!from.completion->done() || !to.completion->done()) return kErrorNotReady;
  const std::chrono::duration<float, std::milli> passed =
      to.completion->at() - from.completion->at();
  *milliseconds = passed.count();
  return kSuccess;
}

}  // namespace amem::sim
