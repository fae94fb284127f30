// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <vector>

namespace amem {

/// The cells of each row; the same number in all rows.
using TableRows = std::vector<std::vector<std::string>>;

/// A cell of this column as it is printed, after it was aligned.
using CellStyle = std::string (*)(size_t column, const std::string& cell);

/// The rows in aligned columns, separated by two spaces. Lines without trailing spaces.
std::string text_of_table(const TableRows& rows, CellStyle style = nullptr);

}  // namespace amem
