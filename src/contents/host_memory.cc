// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_memory.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
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

constexpr int kMaxTouchers = 8;  // more threads do not zero pages faster in the kernel (measured)

struct Touch {
  unsigned char* from;
  size_t size_bytes;
};

void* touch(void* argument) {
  const Touch& touch = *static_cast<Touch*>(argument);
  for (size_t at = 0; at < touch.size_bytes; at += 4096) touch.from[at] = 0;  // the smallest page
  return nullptr;
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

std::vector<size_t> part_ends(uintptr_t base, size_t size_bytes, size_t count, size_t huge_bytes) {
  std::vector<size_t> ends;
  size_t last = 0;
  for (size_t i = 1; i < count; ++i) {
    const uintptr_t border = (base + size_bytes / count * i) / huge_bytes * huge_bytes;
    if (border <= base + last) continue;
    ends.push_back(last = border - base);
  }
  ends.push_back(size_bytes);
  return ends;
}

void touch_pages(unsigned char* base, size_t size_bytes) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  // Each entry of a table of pages has 8 bytes, and a whole table maps as much as a huge page: 2
  // MiB with pages of 4 KiB, 512 MiB with pages of 64 KiB.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t huge_bytes = page / 8 * page;
  const size_t count = std::clamp<size_t>(size_bytes / std::max(huge_bytes, size_t{32} << 20), 1,
                                          std::clamp<size_t>(processors, 1, kMaxTouchers));
  std::vector<Touch> touches;
  size_t at = 0;
  for (const size_t end :
       part_ends(reinterpret_cast<uintptr_t>(base), size_bytes, count, huge_bytes)) {
    touches.push_back({base + at, end - at});
    at = end;
  }
  std::vector<pthread_t> threads;
  for (size_t i = 1; i < touches.size(); ++i) {
    const Result<pthread_t> thread = start_thread("amem-touch", touch, &touches[i]);
    if (thread.ok())
      threads.push_back(thread.value());
    else
      touch(&touches[i]);
  }
  touch(&touches[0]);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

}  // namespace amem
