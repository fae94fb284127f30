// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/environment_listing.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/failure.h"
#include "cli/text_table.h"

namespace amem {
namespace {

/// Inside single quotes a shell interprets only the quote itself.
std::string quoted_for_shell(std::string_view value) {
  std::string out = "'";
  for (char c : value) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// The defaults of environment.def, as a user writes them.
struct Flag {
  static std::string text(long standard, std::string_view) { return std::to_string(standard); }
};
using Integer = Flag;
struct OptionalFlag {
  static std::string text(long, std::string_view) { return "unset"; }
};
struct Choice {
  static std::string text(long standard, std::string_view range) {
    for (; standard > 0; --standard) range.remove_prefix(range.find(", ") + 2);
    return std::string(range.substr(0, range.find(", ")));
  }
};
struct Text {
  static std::string text(const char* standard, std::string_view) {
    return standard != nullptr ? standard : "none";
  }
};

}  // namespace

std::string shell_exports(const Variables& variables) {
  std::string out;
  for (const auto& [name, value] : variables.rows())
    out += fmt::format("export {}={}\n", name, quoted_for_shell(value));
  return out;
}

std::string runtime_env_json(const Variables& variables) {
  nlohmann::ordered_json names = nlohmann::ordered_json::object();
  for (const auto& [name, value] : variables.rows()) names[name] = value;
  try {
    return nlohmann::ordered_json{{"env_vars", names}}.dump() + "\n";
  } catch (const nlohmann::json::exception&) {
    throw Failure(kFailed, "a value is not UTF-8, which JSON cannot carry: use amem env");
  }
}

std::string variable_table() {
  TextTable table({"variable", "default", "range", "meaning"});
#define AMEM_VARIABLE(field, name, type, standard, range, meaning) \
  table.add({#name, type::text(standard, range), range, meaning});
#include "base/environment.def"
#undef AMEM_VARIABLE
  return table.text();
}

}  // namespace amem
