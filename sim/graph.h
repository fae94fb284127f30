// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <vector>

#include "sim/stream.h"

namespace amem::sim {

/// The result of a capture: one chain of operations. Immutable after the capture.
struct Graph {
  std::vector<Operation> operations;
};

/// A graph that can be launched; independent of the graph that it was created from.
struct GraphExec {
  std::shared_ptr<const std::vector<Operation>> operations;
};

/// Runs the whole chain as one operation of the stream, or adds it to the stream's capture.
CuResult launch(const GraphExec& exec, const StreamRef& stream);

}  // namespace amem::sim
