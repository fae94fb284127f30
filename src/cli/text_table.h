// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// Rows of text in columns that line up, two spaces apart.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

  /// REQUIRES: as many cells as the header has.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines without spaces at their ends.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace amem
