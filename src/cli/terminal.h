// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// As compilers and test runners use them; the numbers of ECMA-48 (SGR).
enum class Color { red = 31, green = 32, yellow = 33 };

/// The text in this color if standard output is a terminal with colors (TERM is not "dumb") and
/// NO_COLOR is not set (https://no-color.org); otherwise the text.
std::string colored(const std::string& text, Color color);

}  // namespace amem
