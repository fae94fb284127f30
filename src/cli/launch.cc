// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/failure.h"
#include "cli/program_search.h"

namespace amem {

void launch(const JobOptions& options, std::vector<std::string> command) {
  Variables variables = Variables::of_this_process();
  const std::string& name = command.front();
  const std::string program = find_program(name, variables.text("PATH"));
  if (program.empty()) throw Failure(kNotFound, fmt::format("there is no command {}", name));
  variables.set_all(job_variables(options, variables, command));
  std::vector<std::string> block = variables.block();
  // By the name that was given: argv[0] stays, and a script without a first line is run by sh.
  execvpe(name.c_str(), pointers_to(command).data(), pointers_to(block).data());
  throw Failure(kNotExecutable, fmt::format("{} cannot be run: {}", program, strerror(errno)));
}

}  // namespace amem
