// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/python_nccl.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

#include "cli/child_output.h"
#include "cli/program_search.h"

namespace amem {
namespace {

constexpr char kSoname[] = "libnccl.so.2";
constexpr long kPatienceMs = 3000;
/// The dynamic section's strings, where a program names its libraries, come early in the file.
constexpr size_t kHeadBytes = size_t{8} << 20;

// `nvidia` is a namespace package without code; nothing of NCCL, and no torch, is imported. The
// entry '' of sys.path is the current directory, which a script does not search.
constexpr char kQuestion[] = R"(
import importlib.util, os, sys
sys.path[:] = [entry for entry in sys.path if entry]
found = importlib.util.find_spec("nvidia.nccl")
for folder in (found.submodule_search_locations or []) if found else []:
    library = os.path.join(folder, "lib", "libnccl.so.2")
    if os.path.isfile(library):
        print(library)
        break
)";

bool is_python(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == name.npos;
}

std::string head_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes(kHeadBytes, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(stream.gcount()));
  return bytes;
}

/// The interpreter in the first two lines of a script: "#!/opt/venv/bin/python3", "#!/usr/bin/env
/// -S python3 -u", and what pip writes for long paths: "#!/bin/sh", "'''exec' /opt/.../python3
/// ...".
std::string interpreter_in(std::string_view script) {
  if (!script.starts_with("#!")) return "";
  const size_t first = script.find('\n');
  std::string_view rest = script.substr(2, script.find('\n', first + 1) - 2);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(" \t\n'\""), rest.size());
    if (is_python(rest.substr(0, end))) return std::string(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

bool user_chose_one(const std::string& library_path) {
  std::string_view rest = library_path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(":;"), rest.size());
    const std::string file = std::string(rest.substr(0, end)) + "/" + kSoname;
    if (end > 0 && access(file.c_str(), R_OK) == 0) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

/// The Python to ask; empty when there is none to ask.
std::string python_for(const std::vector<std::string>& command, const std::string& path) {
  if (!command.empty() && !is_python(command[0])) {
    const std::string head = head_of(find_program(command[0], path));
    if (head.starts_with("\177ELF") && head.find(kSoname) != head.npos) return "";
    if (const std::string named = interpreter_in(head); !named.empty())
      return find_program(named, path);
  }
  // Also behind a launcher: mpirun -n 8 python3 train.py.
  const auto named = std::find_if(command.begin(), command.end(), is_python);
  return find_program(named != command.end() ? *named : "python3", path);
}

}  // namespace

std::string find_python_nccl(const std::vector<std::string>& command, const Variables& variables) {
  if (user_chose_one(variables.text("LD_LIBRARY_PATH"))) return "";
  const std::string python = python_for(command, variables.text("PATH"));
  if (python.empty()) return "";
  const auto library =
      first_line_of(python, {"-c", kQuestion}, variables, Deadline::after_ms(kPatienceMs));
  return library && access(library->c_str(), R_OK) == 0 ? *library : "";
}

}  // namespace amem
