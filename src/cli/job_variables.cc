// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/job_variables.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/environment.h"
#include "cli/failure.h"
#include "cli/preload.h"

namespace amem {
namespace {

/// Refuses a value that the library would complain about, before the job starts.
void check_value(const std::string& variable, const JobOption& option) {
  if (option.value->empty()) throw Failure(kWrongUse, fmt::format("{} needs a value", option.name));
  const std::string setting = variable + "=" + *option.value;
  const char* const block[] = {setting.c_str(), nullptr};
  const std::vector<std::string> complaints = read_environment(block).complaints;
  if (complaints.empty()) return;
  // Without "; using 3": the library continues with the default, this command does not.
  const std::string problem = complaints.front().substr(setting.size());
  throw Failure(kWrongUse, fmt::format("{} {}{}", option.name, *option.value,
                                       problem.substr(0, problem.find("; using "))));
}

/// Simulated GPUs and minccl take the place of the driver and NCCL.
void add_simulator(Variables& out, const std::string& count, const Variables& before) {
  if (count.find_first_not_of("0123456789") != count.npos || count.size() > 2 ||
      std::stoi(count) < 1)
    throw Failure(kWrongUse, fmt::format("--simulate {} is not a number from 1 to 99", count));
  const std::filesystem::path folder =
      std::filesystem::path(program_folder()).parent_path() / "sim";
  if (!std::filesystem::exists(folder / "libcuda.so.1"))
    throw Failure(kRefused,
                  folder.string() + " has no simulated GPU; the wheel and the build tree do");
  const std::string others = value_of(before, "LD_LIBRARY_PATH");
  out["LD_LIBRARY_PATH"] = folder.string() + (others.empty() ? "" : ":" + others);
  out["AMEM_NCCL_PATH"] = folder / "libnccl.so.2";
}

/// Other names would have to be quoted for a shell.
bool is_of_amem(const std::string& name) {
  constexpr char kUsual[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return (name.starts_with("AMEM_") || name == "GMM_LOG") &&
         name.find_first_not_of(kUsual) == name.npos;
}

}  // namespace

Variables job_variables(const JobOptions& options, const Variables& before) {
  Variables out;
  out["AMEM_ENABLE"] = "1";
  for (const auto& [variable, option] : options) {
    if (!option.value) continue;
    check_value(variable, option);
    out[variable] = *option.value;
  }
  if (out.contains(kSimulatedGpus)) add_simulator(out, out[kSimulatedGpus], before);
  // Workers of Ray inherit the environment of Ray, not that of this process.
  for (const auto& [name, value] : before)
    if (is_of_amem(name)) out.try_emplace(name, value);
  out["LD_PRELOAD"] = compose_preload(value_of(before, "LD_PRELOAD"), find_library());
  return out;
}

Variables job_environment(const JobOptions& options) {
  const Variables before = variables_of_this_process();
  Variables variables = job_variables(options, before);
  variables.insert(before.begin(), before.end());
  return variables;
}

void launch(const JobOptions& options, std::vector<std::string> command) {
  std::vector<std::string> block = block_of(job_environment(options));
  const std::string name = command.front();
  // Searches PATH. Runs a script without a first line with sh.
  execvpe(name.c_str(), pointers_to(command).data(), pointers_to(block).data());
  const int error = errno;
  throw Failure(error == ENOENT ? kNotFound : kNotExecutable,
                fmt::format("{} cannot be run: {}", name, strerror(error)));
}

}  // namespace amem
