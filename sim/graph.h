// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <vector>

#include "sim/stream.h"

namespace amem::sim {

/// What a capture became: one chain of operations. Immutable.
struct Graph {
  std::vector<Operation> operations;
};

/// A graph ready for launching; independent of the graph that it was made from.
struct GraphExec {
  std::shared_ptr<const std::vector<Operation>> operations;
};

/// Runs the whole chain as one piece of work of the stream, or adds it to the stream's capture.
CuResult launch(const GraphExec& exec, const StreamRef& stream);

}  // namespace amem::sim
