// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/processes_without_amem.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

#include "transport/socket_address.h"

namespace amem {
namespace {

/// The lines of a small file of proc(5), one after another.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(fopen(path.c_str(), "re"), &fclose) {}
  bool next(std::string* line) {
    char text[4352];  // an address range and a path
    if (file_ == nullptr || fgets(text, sizeof text, file_.get()) == nullptr) return false;
    *line = text;
    if (line->ends_with('\n')) line->pop_back();
    return true;
  }

 private:
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
};

std::set<pid_t> processes_with_amem() {
  std::set<pid_t> pids{getpid()};
  const Result<std::set<InstanceId>> instances = instances_of_this_user();
  if (!instances.ok()) return pids;
  for (const InstanceId& instance : instances.value()) {
    const Result<UniqueFd> socket = dial(instance);
    if (!socket.ok()) continue;
    if (const Result<pid_t> pid = pid_of_peer(socket.value().get()); pid.ok())
      pids.insert(pid.value());
  }
  return pids;
}

bool has_loaded(const std::string& process, const std::string& library) {
  Lines lines(process + "/maps");
  for (std::string line; lines.next(&line);)
    if (line.find(library) != line.npos) return true;
  return false;
}

}  // namespace

std::string processes_without_amem(const std::string& library, const std::string& proc) {
  const std::set<pid_t> with_amem = processes_with_amem();
  std::string found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(proc.c_str()), closedir);
  while (const dirent* entry = folder != nullptr ? readdir(folder.get()) : nullptr) {
    const pid_t pid = atoi(entry->d_name);
    const std::string process = proc + "/" + entry->d_name;
    struct stat owner {};
    if (pid <= 0 || with_amem.contains(pid) || stat(process.c_str(), &owner) != 0 ||
        owner.st_uid != geteuid() || !has_loaded(process, library))
      continue;
    std::string name;
    (void)Lines(process + "/comm").next(&name);
    found += (found.empty() ? "process " : ", process ") + std::to_string(pid) + " (" + name + ")";
  }
  return found.empty() ? "a process that this one cannot see" : found;
}

}  // namespace amem
