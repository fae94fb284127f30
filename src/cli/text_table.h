// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// Rows of text in aligned columns, separated by two spaces.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

  /// REQUIRES: the number of cells is that of the header.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Lines without trailing spaces.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace amem
