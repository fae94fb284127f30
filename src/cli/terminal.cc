// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "base/environment.h"

namespace amem {

std::string colored(const std::string& text, Color color) {
  if (!isatty(STDOUT_FILENO) || *variable_now("NO_COLOR") != '\0' ||
      strcmp(variable_now("TERM"), "dumb") == 0)
    return text;
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(color), text);
}

}  // namespace amem
