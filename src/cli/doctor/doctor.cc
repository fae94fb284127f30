// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/failure.h"
#include "cli/terminal.h"

namespace amem {
namespace {

using enum Finding::Verdict;

const char* name_of(Finding::Verdict verdict) {
  return verdict == ok ? "ok" : verdict == note ? "note" : "FAIL";
}

/// The name in four columns.
std::string colored_name(Finding::Verdict verdict) {
  const Color color = verdict == ok ? Color::green : verdict == note ? Color::yellow : Color::red;
  return colored(fmt::format("{:<4}", name_of(verdict)), color);
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
      fmt::print("{}  {:<{}}  {}\n", colored_name(each.verdict), each.subject, width, each.text);
    fmt::print("{}\n", works ? "A pause would work here." : "A pause would not work here.");
  }
  return works ? 0 : kFailed;
}

}  // namespace amem
