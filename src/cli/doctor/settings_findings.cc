// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/environment.h"
#include "cli/doctor/doctor.h"
#include "cli/preload.h"
#include "cli/variables.h"

namespace amem {
namespace {

using enum Finding::Verdict;

/// NCCL's variables: of the environment, then of $NCCL_CONF_FILE or .nccl.conf in the user's home,
/// then of /etc/nccl.conf. The first counts (initEnv() and setEnvFile(), misc/param.cc@v2.30.7-1).
class NcclSettings {
 public:
  explicit NcclSettings(const Variables& variables) : values_(variables) {
    const std::string own = value_of(variables, "NCCL_CONF_FILE");
    const passwd* const user = getpwuid(getuid());
    if (!own.empty())
      read(own);
    else if (user != nullptr)
      read(std::string(user->pw_dir) + "/.nccl.conf");
    read("/etc/nccl.conf");
  }
  /// "NCCL_X=1 in /etc/nccl.conf", or "" if nothing sets it to this value.
  std::string set_to(const std::string& name, const char* value) const {
    const std::string source = value_of(sources_, name);
    return value_of(values_, name) == value ? fmt::format("{}={}{}", name, value, source) : "";
  }

 private:
  void read(const std::string& path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const size_t equals = line.find('=');
      if (equals == line.npos || line.front() == '#') continue;
      const std::string name = line.substr(0, equals);
      if (values_.try_emplace(name, line.substr(equals + 1)).second) sources_[name] = " in " + path;
    }
  }
  Variables values_, sources_;  ///< sources: of those in files
};

/// amem's library, or the library beside it that loads it in the place of torch_memory_saver's.
bool is_amem(const std::string& library) {
  constexpr const char* kName = "libamem_nccl.so";
  const std::filesystem::path folder = std::filesystem::path(library).parent_path();
  return library.find(kName) != library.npos || std::filesystem::exists(folder / kName) ||
         std::filesystem::exists(folder / "lib" / kName);
}

void add_preloads(Findings& findings, const Variables& variables) {
  for (const std::string& library : preloads_in(value_of(variables, "LD_PRELOAD"))) {
    if (is_amem(library)) continue;
    if (library.find('/') != library.npos && !std::filesystem::exists(library))
      findings.push_back({note, "LD_PRELOAD", library + " does not exist; the loader ignores it"});
    else if (library.find("torch_memory_saver") != library.npos)
      findings.push_back(
          {note, "LD_PRELOAD",
           library + " pauses memory of its own, which amem does not pause: remove it; AMEM_TMS=1 "
                     "gives a job the same interface"});
    else
      findings.push_back({ok, "LD_PRELOAD", library + " is loaded before amem"});
  }
}

}  // namespace

Findings settings_findings() {
  Findings findings;
  const Variables variables = variables_of_this_process();
  const Environment& ours = environment();
  for (const std::string& complaint : ours.complaints)
    findings.push_back({note, "variables", complaint});
  if (!value_of(variables, "AMEM_ENABLE").empty() && !ours.enable)
    findings.push_back(
        {note, "AMEM_ENABLE", "is 0: `import amem` does not enable amem; amem run does"});

  const NcclSettings nccl(variables);
  if (const std::string off = nccl.set_to("NCCL_CUMEM_ENABLE", "0"); off.empty())
    findings.push_back({ok, "NCCL_CUMEM_ENABLE", "is not 0"});
  else if (ours.cumem == CumemMode::respect)
    findings.push_back({fail, "NCCL_CUMEM_ENABLE",
                        off + " with AMEM_CUMEM=respect: NCCL's memory cannot be released; unset "
                              "one of them"});
  else
    findings.push_back({note, "NCCL_CUMEM_ENABLE",
                        off + "; amem sets it to 1 before NCCL reads it, because NCCL's memory "
                              "cannot be released otherwise"});
  if (nccl.set_to("NCCL_NVLS_ENABLE", "0").empty())
    findings.push_back({note, "NCCL_NVLS_ENABLE",
                        "is not 0: on machines with NVSwitch, NCCL's NVLS memory stays on the GPU; "
                        "set it to 0 to release more"});
  else
    findings.push_back({ok, "NCCL_NVLS_ENABLE", "is 0: there is no NVLS memory"});
  findings.push_back({ok, "NCCL_GRAPH_REGISTER",
                      nccl.set_to("NCCL_GRAPH_REGISTER", "0").empty()
                          ? "is not 0: tagged memory that NCCL registers for CUDA graphs is "
                            "restored with its tag"
                          : "is 0: NCCL registers no buffers of CUDA graphs"});
  if (const std::string on = nccl.set_to("NCCL_P2P_USE_CUDA_MEMCPY", "1"); !on.empty())
    findings.push_back({fail, "NCCL_P2P_USE_CUDA_MEMCPY",
                        on + ": NCCL copies on threads of its own, which amem cannot wait for; "
                             "unset it"});
  add_preloads(findings, variables);
  return findings;
}

}  // namespace amem
