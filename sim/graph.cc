// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/graph.h"

#include <algorithm>

#include "sim/capture.h"

namespace amem::sim {

CuResult launch(const GraphExec& exec, const StreamRef& stream) {
  Operation chain;
  for (const Operation& operation : *exec.operations)
    chain.stack_bytes = std::max(chain.stack_bytes, operation.stack_bytes);
  chain.run = [operations = exec.operations] {
    for (const Operation& operation : *operations) {
      if (const CuResult result = operation.run(); result != kSuccess) return result;
    }
    return kSuccess;
  };
  return submit(stream, std::move(chain));
}

}  // namespace amem::sim
