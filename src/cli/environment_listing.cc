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

}  // namespace

std::string shell_exports(const Variables& variables) {
  std::string out;
  for (const auto& [name, value] : variables)
    out += fmt::format("export {}={}\n", name, quoted_for_shell(value));
  return out;
}

std::string runtime_env_json(const Variables& variables) {
  try {
    return nlohmann::ordered_json{{"env_vars", variables}}.dump() + "\n";
  } catch (const nlohmann::json::exception&) {
    throw Failure(kFailed, "a value is not UTF-8, which JSON cannot carry: use amem env");
  }
}

std::string variable_table() {
  enum { every_job, experts, other_name };
  constexpr const char* kTitles[] = {"For every job", "For experts", "Other names"};
  std::string out;
  for (const int wanted : {every_job, experts, other_name}) {
    TableRows rows{{"variable", "default", "range", "meaning"}};
#define AMEM_VARIABLE(audience, field, name, standard, range, meaning) \
  if (audience == wanted) rows.push_back({#name, standard, range, meaning});
#include "base/environment.def"
#undef AMEM_VARIABLE
    out += fmt::format("{}{}:\n{}", out.empty() ? "" : "\n", kTitles[wanted], text_of_table(rows));
  }
  return out;
}

}  // namespace amem
