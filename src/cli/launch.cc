// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/failure.h"

namespace amem {

void launch(const JobOptions& options, std::vector<std::string> command) {
  Variables variables = Variables::of_this_process();
  variables.set_all(job_variables(options, variables));
  std::vector<std::string> block = variables.block();
  const std::string name = command.front();
  // Searches PATH. Runs a script without a first line with sh.
  execvpe(name.c_str(), pointers_to(command).data(), pointers_to(block).data());
  const int error = errno;
  throw Failure(error == ENOENT ? kNotFound : kNotExecutable,
                fmt::format("{} cannot be run: {}", name, strerror(error)));
}

}  // namespace amem
