// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/doctor/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/failure.h"
#include "cli/variables.h"

namespace amem {
namespace {

using enum Finding::Verdict;

const char* name_of(Finding::Verdict verdict) {
  return verdict == ok ? "ok" : verdict == note ? "note" : "FAIL";
}

/// The name in four columns, on a terminal in the color that compilers and test runners use for it
/// (https://no-color.org).
std::string colored(Finding::Verdict verdict) {
  const std::string name = fmt::format("{:<4}", name_of(verdict));
  if (!isatty(STDOUT_FILENO) || !value_of(variables_of_this_process(), "NO_COLOR").empty())
    return name;
  const int color = verdict == ok ? 32 : verdict == note ? 33 : 31;
  return fmt::format("\x1b[{}m{}\x1b[0m", color, name);
}

}  // namespace

int diagnose(const std::vector<std::string>& command, bool as_json) {
  Findings all = machine_findings();
  for (Findings part : {settings_findings(), program_findings(command)})
    all.insert(all.end(), part.begin(), part.end());
  const bool works = std::none_of(all.begin(), all.end(),
                                  [](const Finding& each) { return each.verdict == fail; });
  if (as_json) {
    nlohmann::ordered_json findings = nlohmann::ordered_json::array();
    for (const Finding& each : all)
      findings.push_back(
          {{"verdict", name_of(each.verdict)}, {"subject", each.subject}, {"text", each.text}});
    const nlohmann::ordered_json out = {{"works", works}, {"findings", findings}};
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    size_t width = 0;
    for (const Finding& each : all) width = std::max(width, each.subject.size());
    for (const Finding& each : all)
      fmt::print("{}  {:<{}}  {}\n", colored(each.verdict), each.subject, width, each.text);
    fmt::print("{}\n", works ? "A pause would work here." : "A pause would not work here.");
  }
  return works ? 0 : kFailed;
}

}  // namespace amem
