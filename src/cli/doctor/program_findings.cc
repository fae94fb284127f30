// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/environment.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/program.h"
#include "cli/job_variables.h"

namespace amem {
namespace {

using enum Finding::Verdict;
using Json = nlohmann::json;

// The NCCL versions that docs/index.md names, as ncclGetVersion() returns them.
constexpr int kOldestNccl = 21900, kNewestNccl = 23299;
constexpr int kProbeTimeoutMs = 120000;

// Imports what a job imports, without a communicator and without a CUDA context.
constexpr char kProbe[] = R"(
import ctypes, importlib.util, json, sys
seen = {'python': sys.version.split()[0], 'nccl': [],
        'saver': 'amem.torch_memory_saver' in sys.modules}
try:
    import torch
    seen['torch'] = torch.__version__
    seen['cuda'] = torch.version.cuda
    seen['torch_path'] = torch.__file__
    try:
        seen['torch_nccl'] = '.'.join(map(str, torch.cuda.nccl.version()))
    except Exception:
        pass
except Exception as error:
    seen['error'] = type(error).__name__ + ': ' + str(error)
report = getattr(ctypes.CDLL(None), 'amemGetInterposition', None)
if report is not None:
    report.restype = ctypes.c_char_p
    for copy in json.loads(report())['nccl']:
        version = ctypes.c_int()
        ctypes.CDLL(copy['path']).ncclGetVersion(ctypes.byref(version))
        seen['nccl'].append([copy['path'], copy['refusal'], version.value])
else:
    seen['error'] = 'libamem_nccl.so was not preloaded'
print()
print(json.dumps(seen))
)";

std::string text_of(const Json& seen, const char* name) {
  const auto found = seen.find(name);
  return found != seen.end() && found->is_string() ? found->get<std::string>() : "";
}

Finding nccl_finding(const std::string& path, const std::string& refusal, int version) {
  const std::string text =
      fmt::format("{}.{}.{}, {}", version / 10000, version / 100 % 100, version % 100, path);
  if (!refusal.empty()) return {fail, "NCCL", text + ": " + refusal};
  if (version < kOldestNccl) return {fail, "NCCL", text + "; amem needs 2.19 or newer"};
  if (version > kNewestNccl)
    return {note, "NCCL",
            text +
                "; newer than this amem: functions that amem does not know make it refuse later "
                "pauses: update amem if a pause is refused"};
  return {ok, "NCCL", text + "; amem intercepts its calls"};
}

void add_python(Findings& findings, const std::string& python) {
  Variables variables = job_environment({});
  variables["AMEM_LOG"] = "0";
  const Outcome outcome = run_program({python, "-c", kProbe}, variables, kProbeTimeoutMs);
  // Libraries may print too; the result is the last line.
  std::string_view last = outcome.output;
  if (last.ends_with('\n')) last.remove_suffix(1);
  const Json seen = Json::parse(last.substr(last.rfind('\n') + 1), nullptr, false);
  if (!outcome.failure.empty() || !seen.is_object())
    return findings.push_back(
        {fail, "Python",
         fmt::format("{} under amem {}", python,
                     outcome.failure.empty() ? "printed no result" : outcome.failure)});
  findings.push_back({ok, "Python", text_of(seen, "python") + ", " + python});
  if (const std::string tms = value_of(variables, "AMEM_TMS");
      !tms.empty() && flag_of(tms.c_str()).value_or(true) && !seen.value("saver", false))
    findings.push_back({note, "AMEM_TMS",
                        "has no effect in this Python: `import torch_memory_saver` imports amem's "
                        "only if the wheel is installed in it (amem_tms.pth)"});
  const std::string torch_nccl = text_of(seen, "torch_nccl");
  if (const std::string error = text_of(seen, "error"); !error.empty())
    return findings.push_back({note, "PyTorch", "cannot be imported: " + error});
  const std::string cuda = text_of(seen, "cuda");
  findings.push_back({ok, "PyTorch",
                      fmt::format("{}, CUDA {}, {}", text_of(seen, "torch"),
                                  cuda.empty() ? "none" : cuda, text_of(seen, "torch_path"))});
  for (const Json& copy : seen["nccl"]) findings.push_back(nccl_finding(copy[0], copy[1], copy[2]));
  if (!seen["nccl"].empty()) return;
  if (!torch_nccl.empty())
    findings.push_back({fail, "NCCL",
                        torch_nccl + " is linked statically into PyTorch, which amem cannot "
                                     "intercept: install a PyTorch that needs the package "
                                     "nvidia-nccl"});
  else
    findings.push_back({note, "NCCL", "is not loaded by `import torch`; amem intercepts it later"});
}

/// Loads the NCCL library that a program is linked with. It reports its version without a GPU.
Finding linked_finding(const std::string& path, const std::string& program) {
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {fail, "NCCL", fmt::format("cannot be loaded: {}", dlerror())};
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0)
    return {fail, "NCCL", path + " has no ncclGetVersion(): install NCCL 2.19 or newer"};
  return nccl_finding(path + ", linked with " + program, "", version);
}

/// Whether the file is an ELF program without an interpreter (elf(5), PT_INTERP).
bool is_static(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  Elf64_Phdr segment{};
  for (int i = 0; i < header.e_phnum; ++i)
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment) ||
        segment.p_type == PT_INTERP)
      return false;
  return true;
}

void add_program(Findings& findings, const std::string& program) {
  // Without a loader nothing is preloaded, and LD_TRACE_LOADED_OBJECTS would not keep it from
  // running.
  if (is_static(program))
    return findings.push_back(
        {fail, "program",
         program + " is linked statically: amem cannot be loaded into it; link "
                   "it with the C library and NCCL as shared libraries; if this is a "
                   "launcher, name the program that it starts"});
  Variables variables = variables_of_this_process();
  variables["LD_TRACE_LOADED_OBJECTS"] = "1";  // ld.so(8): lists the libraries, does not run it
  const Outcome outcome = run_program({program}, variables, kProbeTimeoutMs);
  if (!outcome.failure.empty())
    return findings.push_back({fail, "program", program + " " + outcome.failure});
  std::string path;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);)
    if (line.find("libnccl.so.2 => ") != line.npos) {
      std::istringstream words(line.substr(line.find("=> ") + 3));
      words >> path;
    }
  if (path.empty())
    findings.push_back({note, "NCCL",
                        program + " is not linked with libnccl.so.2: amem intercepts NCCL if it is "
                                  "loaded later, but not if it is linked statically; if this is a "
                                  "launcher, name the program that it starts"});
  else if (path == "not")
    findings.push_back({fail, "NCCL",
                        "the loader does not find libnccl.so.2 for " + program +
                            ": set LD_LIBRARY_PATH to its folder"});
  else
    findings.push_back(linked_finding(path, program));
}

bool is_python(const std::string& program) {
  return program.substr(program.rfind('/') + 1).starts_with("python");
}

/// The interpreter in the first line of a script, or "".
std::string interpreter_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("#!")) return {};
  std::istringstream words(line.substr(2));
  std::string interpreter;
  words >> interpreter;
  // env(1) may have options, such as -S, and variables before the command.
  if (interpreter.ends_with("/env"))
    while (words >> interpreter &&
           (interpreter.starts_with('-') || interpreter.find('=') != interpreter.npos)) {
    }
  return interpreter;
}

}  // namespace

Findings program_findings(const std::vector<std::string>& command) {
  Findings findings;
  const std::string name = command.empty() ? "python3" : command.front();
  const std::string program = find_program(name);
  const std::string script = program.empty() ? "" : interpreter_of(program);
  if (program.empty() && command.empty())
    findings.push_back({note, "Python",
                        "there is no python3 on PATH: amem doctor COMMAND looks at a "
                        "job's command"});
  else if (program.empty())
    findings.push_back(
        {fail, "program",
         name + (name.find('/') == name.npos ? " is not on PATH"
                                             : " does not exist, or cannot be run")});
  else if (is_python(name))
    add_python(findings, program);
  else if (is_python(script))
    add_python(findings, find_program(script));
  else
    add_program(findings, program);
  return findings;
}

}  // namespace amem
