// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "bench/contenders.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "bench/workload.h"

namespace bench {

namespace {

/// The files named `prefix`... that a process has mapped.
std::set<std::string> mapped_files(pid_t pid, const std::string& prefix) {
  std::set<std::string> files;
  std::ifstream maps(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash == line.npos) continue;
    const std::filesystem::path file = line.substr(slash);
    if (file.filename().string().rfind(prefix, 0) == 0) files.insert(file.string());
  }
  return files;
}

}  // namespace

std::string version_text(int nccl_version) {
  return fmt::format("{}.{}.{}", nccl_version / 10000, nccl_version / 100 % 100,
                     nccl_version % 100);
}

Contender without_amem(const demo::Machine& machine, const std::string& name,
                       const std::string& nccl_file) {
  Contender contender{name, machine.setup};
  const std::filesystem::path amem_rank = machine.setup.rank_program;
  contender.setup.rank_program = (amem_rank.parent_path() / "amem_rank_plain").string();
  // A library that is loaded already answers for its soname, so no other libnccl.so.2 is looked
  // for (ld.so(8)), whatever this file is called.
  contender.setup.environment["LD_PRELOAD"] = nccl_file;
  contender.setup.environment["AMEM_ENABLE"] = "0";

  jobs::RankProcess probe(contender.setup, {});
  probe.ask("version");
  const auto libraries = mapped_files(probe.pid(), "libnccl.so");
  if (libraries != std::set{std::filesystem::canonical(nccl_file).string()} ||
      !mapped_files(probe.pid(), "libamem_nccl").empty())
    throw std::runtime_error("a rank that should run on " + nccl_file +
                             " alone does not: " + probe.log());
  return contender;
}

Contenders find_contenders(const demo::Machine& machine, int gpus) {
  Contenders found;
  found.amem = {"amem", machine.setup};
  found.forwarding = {"forwarding", machine.setup};
  found.forwarding.setup.environment["AMEM_ENABLE"] = "0";

  Workload warm_up(found.amem, {gpus, 1, " 17"});
  warm_up.set_up();
  found.nccl_version = std::stoi(warm_up.job()[0].ask("version"));
  const std::filesystem::path bin = std::filesystem::path(machine.setup.rank_program).parent_path();
  const std::string ours =
      std::filesystem::canonical(bin.parent_path() / "lib/libnccl.so.2").string();
  for (const std::string& file : mapped_files(warm_up.job()[0].pid(), "libnccl.so"))
    if (file != ours) found.nccl_file = file;
  if (found.nccl_file.empty())
    throw std::runtime_error("the ranks have no libnccl.so but amem's own");
  found.plain = without_amem(machine, "plain", found.nccl_file);
  return found;
}

}  // namespace bench
