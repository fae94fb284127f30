// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "clients/graphs/captured_graphs.h"

namespace amem {

/// One launch of a graph on the calling thread: the constructor enters all gates of the graph's
/// work, or none; the destructor leaves them. A launch that waits at a closed gate is inside no
/// gate, because a pause that closes another gate waits for the calls inside.
class [[nodiscard]] GraphLaunch {
 public:
  GraphLaunch(const char* call, const CapturedGraphs::Uses& uses)
      : uses_(uses), end_(uses.begin()) {
    while (!enter_all(call) && status_.error().kind == ErrorKind::timeout && wait(call)) {
    }
  }
  ~GraphLaunch() { leave_all(); }
  GraphLaunch(const GraphLaunch&) = delete;

  /// OK if the launch is inside; otherwise why a gate has refused it.
  const Status& status() const { return status_; }

 private:
  /// False at the first gate that is closed, `end_`.
  bool enter_all(const char* call) {
    for (; end_ != uses_.end(); ++end_)
      if (status_ = end_->gate->enter_launch(call, end_->object, false); !status_.ok())
        return false;
    return true;
  }
  /// Until the gate at `end_` is open. False if it refuses the launch.
  bool wait(const char* call) {
    const CapturedGraphs::Use closed = *end_;
    leave_all();
    status_ = closed.gate->enter_launch(call, closed.object, true);
    if (status_.ok()) closed.gate->leave_launch(closed.object);
    return status_.ok();
  }
  void leave_all() {
    while (end_ != uses_.begin()) {
      --end_;
      end_->gate->leave_launch(end_->object);
    }
  }

  const CapturedGraphs::Uses& uses_;
  CapturedGraphs::Uses::const_iterator end_;  ///< of those that were entered
  Status status_ = ok_status();
};

}  // namespace amem
