// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/graph.h"

#include "sim/capture.h"

namespace amem::sim {

CuResult launch(const GraphExec& exec, const StreamRef& stream) {
  return submit(stream, {[operations = exec.operations] {
                  for (const Operation& operation : *operations) {
                    if (const CuResult result = operation.run(); result != kSuccess) return result;
                  }
                  return kSuccess;
                }});
}

}  // namespace amem::sim
