// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/process_names.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "transport/socket_address.h"

namespace amem {
namespace {

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

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

/// The processes of this user for which `is_meant(pid, folder in proc)` is true: those with the
/// nearest numbers first, because a launcher starts the ranks of a job together.
template <typename Condition>
std::string named_processes(const std::string& proc, Condition is_meant) {
  constexpr size_t kNamed = 8;
  std::multimap<pid_t, std::string> found;
  const Folder folder(opendir(proc.c_str()), closedir);
  while (const dirent* entry = folder != nullptr ? readdir(folder.get()) : nullptr) {
    const pid_t pid = atoi(entry->d_name);
    const std::string process = proc + "/" + entry->d_name;
    struct stat owner {};
    if (pid <= 0 || stat(process.c_str(), &owner) != 0 || owner.st_uid != geteuid() ||
        !is_meant(pid, process))
      continue;
    std::string name;
    (void)Lines(process + "/comm").next(&name);
    found.emplace(std::abs(pid - getpid()), std::to_string(pid) + " (" + name + ")");
  }
  if (found.empty()) return "a process that this one cannot see";
  std::string text;
  size_t named = 0;
  for (auto it = found.begin(); it != found.end() && named < kNamed; ++it, ++named)
    text += (named == 0 ? "process " : ", process ") + it->second;
  return named == found.size() ? text
                               : text + " and " + std::to_string(found.size() - named) + " more";
}

/// The inode of a Unix socket, as text; empty if there is none. The last two columns of the table
/// are the inode and the name, with an '@' for each zero byte.
std::string inode_of_socket(const std::string& name, const std::string& proc) {
  Lines lines(proc + "/net/unix");
  for (std::string line; lines.next(&line);) {
    const size_t end = line.rfind(' ');
    if (end == line.npos || end == 0 || !line.substr(end + 1).starts_with(name) ||
        line.find_first_not_of('@', end + 1 + name.size()) != line.npos)
      continue;
    const size_t begin = line.rfind(' ', end - 1) + 1;
    return line.substr(begin, end - begin);
  }
  return "";
}

bool has_open(const std::string& process, const std::string& file) {
  const Folder folder(opendir((process + "/fd").c_str()), closedir);
  while (const dirent* entry = folder != nullptr ? readdir(folder.get()) : nullptr) {
    char text[64];
    const ssize_t length = readlinkat(dirfd(folder.get()), entry->d_name, text, sizeof text);
    if (length > 0 && std::string_view(text, static_cast<size_t>(length)) == file) return true;
  }
  return false;
}

}  // namespace

std::string processes_without_amem(const std::string& library, const std::string& proc) {
  const std::set<pid_t> with_amem = processes_with_amem();
  return named_processes(proc, [&](pid_t pid, const std::string& process) {
    return !with_amem.contains(pid) && has_loaded(process, library);
  });
}

std::string process_of_socket(const std::string& name, const std::string& proc) {
  const std::string socket = "socket:[" + inode_of_socket(name, proc) + "]";
  return named_processes(
      proc, [&](pid_t, const std::string& process) { return has_open(process, socket); });
}

}  // namespace amem
