// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/thread.h"

namespace amem {
namespace {

constexpr int kHostNumaId = 134;     // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID
constexpr int kPolicyPreferred = 1;  // MPOL_PREFERRED, set_mempolicy(2)

using File = std::unique_ptr<FILE, int (*)(FILE*)>;
File open_text(const std::string& path) { return {fopen(path.c_str(), "re"), &fclose}; }

/// The number in the line that starts with this word.
std::optional<size_t> number_after(const std::string& path, const char* word) {
  const File file = open_text(path);
  char line[256];
  const size_t length = strlen(word);
  while (file != nullptr && fgets(line, sizeof line, file.get()) != nullptr) {
    size_t number = 0;
    if (strncmp(line, word, length) == 0 && sscanf(line + length, "%zu", &number) == 1)
      return number;
  }
  return std::nullopt;
}

/// Where a version of cgroups reports memory.
struct CgroupVersion {
  const char* controllers;  ///< in /proc/self/cgroup, cgroups(7)
  const char* folder;
  const char *max, *used;
  const char *active_cache, *inactive_cache;  ///< words of memory.stat
};
// cgroup-v2.rst, "Memory Interface Files"; cgroup-v1/memory.rst. A process has a memory cgroup in
// one of them.
constexpr CgroupVersion kCgroupVersions[] = {
    {"", "/sys/fs/cgroup", "/memory.max", "/memory.current", "active_file ", "inactive_file "},
    {"memory", "/sys/fs/cgroup/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
     "total_active_file ", "total_inactive_file "},
};

/// The path of the process's cgroup, with a leading slash, or empty.
std::string cgroup_path(const std::string& root, const CgroupVersion& version) {
  const File file = open_text(root + "/proc/self/cgroup");
  const std::string wanted = std::string(":") + version.controllers + ":/";
  char line[1024];
  while (file != nullptr && fgets(line, sizeof line, file.get()) != nullptr) {
    const std::string text(line, strcspn(line, "\n"));
    if (const size_t at = text.find(wanted); at == text.find(':') && at != text.npos)
      return text.substr(at + wanted.size() - 1);
  }
  return {};
}

/// The memory that one cgroup can still use; empty if it has no limit.
std::optional<size_t> cgroup_room(const std::string& folder, const CgroupVersion& version) {
  const auto most = number_after(folder + version.max, "");
  const auto used = number_after(folder + version.used, "");
  if (!most.has_value() || !used.has_value()) return std::nullopt;
  const size_t cache = number_after(folder + "/memory.stat", version.active_cache).value_or(0) +
                       number_after(folder + "/memory.stat", version.inactive_cache).value_or(0);
  const size_t taken = *used - std::min(*used, cache);
  return *most - std::min(*most, taken);
}

}  // namespace

size_t available_host_bytes(const std::string& root) {
  constexpr size_t kKiB = 1024;
  size_t available = SIZE_MAX;
  if (const auto free_kib = number_after(root + "/proc/meminfo", "MemAvailable:"))
    available = *free_kib * kKiB;
  // The limit of a cgroup applies to all cgroups below it.
  for (const CgroupVersion& version : kCgroupVersions)
    for (std::string path = cgroup_path(root, version);; path.resize(path.rfind('/'))) {
      if (const auto room = cgroup_room(root + version.folder + path, version))
        available = std::min(available, *room);
      if (path.empty()) break;
    }
  return available;
}

int nearest_numa_node(const Driver& driver, int device) {
  int node = -1;
  if (driver.cuDeviceGetAttribute(&node, kHostNumaId, device) != driver_result::kSuccess) return -1;
  return node;
}

void prefer_numa_node(void* base, size_t size_bytes, int node) {
  constexpr int kMaxNodes = 1024;
  constexpr int kBits = 8 * sizeof(unsigned long);
  if (node < 0 || node >= kMaxNodes) return;
  std::array<unsigned long, kMaxNodes / kBits> nodes{};
  nodes[static_cast<size_t>(node / kBits)] = 1UL << (node % kBits);
  // One call without libnuma. The kernel expects one bit more than there are nodes.
  (void)syscall(SYS_mbind, base, size_bytes, kPolicyPreferred, nodes.data(), kMaxNodes + 1UL, 0U);
}

void touch_pages(unsigned char* base, size_t size_bytes, size_t threads) {
  constexpr size_t kPage = 4096;
  using Range = std::pair<unsigned char*, size_t>;
  const auto touch = [](const Range& range) {
    for (size_t at = 0; at < range.second; at += kPage) range.first[at] = 0;
  };
  const size_t each = (size_bytes / threads + kPage - 1) / kPage * kPage;
  std::vector<Range> ranges;
  for (size_t at = 0; at < size_bytes; at += each)
    ranges.emplace_back(base + at, std::min(each, size_bytes - at));
  std::vector<pthread_t> started;
  for (size_t other = 1; other < ranges.size(); ++other) {
    const Result<pthread_t> thread =
        start_thread("amem-touch", [&touch, &range = ranges[other]] { touch(range); });
    if (thread.ok())
      started.push_back(thread.value());
    else
      touch(ranges[other]);
  }
  touch(ranges.front());
  for (const pthread_t thread : started) pthread_join(thread, nullptr);
}

}  // namespace amem
