// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/variables.h"

namespace amem {

std::string colored(const std::string& text, Color color) {
  const Variables variables = variables_of_this_process();
  if (!isatty(STDOUT_FILENO) || !value_of(variables, "NO_COLOR").empty() ||
      value_of(variables, "TERM") == "dumb")
    return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(color), text);
}

}  // namespace amem
