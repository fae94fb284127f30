// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/job_variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/environment.h"
#include "cli/failure.h"
#include "cli/preload.h"

namespace amem {
namespace {

/// Refuses values that the library would complain about, before the job starts.
void check_values(const Variables& variables) {
  std::vector<std::string> block = block_of(variables);
  const Environment read = read_environment(pointers_to(block).data());
  if (read.complaints.empty()) return;
  // Removes "; using 3": the library continues with the default, this command does not.
  const std::string& complaint = read.complaints.front();
  throw Failure(kRefused, complaint.substr(0, complaint.find("; using ")));
}

/// Other names would have to be quoted for a shell.
bool is_of_amem(const std::string& name) {
  constexpr char kUsual[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return (name.starts_with("AMEM_") || name == "GMM_LOG") &&
         name.find_first_not_of(kUsual) == name.npos;
}

/// Numbers are for ncclGetGroupID(); a name is for people.
const char* group_variable(const std::string& group) {
  const bool is_number =
      group.find_first_not_of("0123456789", group.starts_with('-')) == group.npos;
  return is_number ? "AMEM_GROUPID" : "AMEM_GROUP";
}

}  // namespace

Variables job_variables(const JobOptions& options, const Variables& before) {
  Variables out;
  out["AMEM_ENABLE"] = "1";
  for (const auto& [name, value] : options) {
    if (value && value->empty()) throw Failure(kRefused, fmt::format("{} is empty", name));
    if (value) out[name == "AMEM_GROUP" ? group_variable(*value) : name] = *value;
  }
  check_values(out);
  // The group of this command is not that of the shell, whose name would be shown.
  if (out.contains("AMEM_GROUPID") && !value_of(before, "AMEM_GROUP").empty())
    out["AMEM_GROUP"] = "";
  // Workers of Ray inherit the environment of Ray, not that of this process.
  for (const auto& [name, value] : before)
    if (is_of_amem(name)) out.try_emplace(name, value);
  out["LD_PRELOAD"] = compose_preload(value_of(before, "LD_PRELOAD"), find_library());
  return out;
}

void launch(const JobOptions& options, std::vector<std::string> command) {
  const Variables before = variables_of_this_process();
  Variables variables = job_variables(options, before);
  variables.insert(before.begin(), before.end());
  std::vector<std::string> block = block_of(variables);
  const std::string name = command.front();
  // Searches PATH. Runs a script without a first line with sh.
  execvpe(name.c_str(), pointers_to(command).data(), pointers_to(block).data());
  const int error = errno;
  throw Failure(error == ENOENT ? kNotFound : kNotExecutable,
                fmt::format("{} cannot be run: {}", name, strerror(error)));
}

}  // namespace amem
