// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace amem {

std::string text_of_table(const TableRows& rows, CellStyle style) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string cell = fmt::format("{:<{}}", row[i], widths[i]);
      line += (style != nullptr ? style(i, cell) : cell) + "  ";
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace amem
