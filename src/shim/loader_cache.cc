// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/loader_cache.h"

#include <cstdint>
#include <cstring>
#include <string_view>

namespace amem {
namespace {

constexpr std::string_view kOldMagic = "ld.so-1.7.0";
constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";

struct OldHead {
  char magic[11];
  char padding;
  uint32_t entries;
};
constexpr size_t kOldEntryBytes = 12;

/// glibc sysdeps/generic/dl-cache.h; string offsets count from the head.
struct Head {
  char magic[20];
  uint32_t entries;
  uint32_t strings_bytes;
  uint32_t unused[5];
};
struct Entry {
  int32_t flags;
  uint32_t name;
  uint32_t path;
  uint32_t os_version;
  uint64_t hwcap;
};
static_assert(sizeof(OldHead) == 16 && sizeof(Head) == 48 && sizeof(Entry) == 24);

bool starts_with(std::span<const char> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// The part that has the newer format.
std::span<const char> newer_part(std::span<const char> cache) {
  if (!starts_with(cache, kOldMagic) || cache.size() < sizeof(OldHead)) return cache;
  OldHead old;
  memcpy(&old, cache.data(), sizeof old);
  const size_t end = sizeof old + size_t{old.entries} * kOldEntryBytes;
  const size_t aligned = (end + alignof(uint64_t) - 1) / alignof(uint64_t) * alignof(uint64_t);
  return aligned < cache.size() ? cache.subspan(aligned) : std::span<const char>();
}

/// The string at `offset`; empty when it does not end inside the cache.
std::string_view string_at(std::span<const char> cache, uint32_t offset) {
  if (offset >= cache.size()) return {};
  const std::string_view rest(cache.data() + offset, cache.size() - offset);
  const size_t end = rest.find('\0');
  return end == rest.npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

std::vector<std::string> paths_in_loader_cache(std::span<const char> cache,
                                               const std::string& soname) {
  std::vector<std::string> paths;
  cache = newer_part(cache);
  if (!starts_with(cache, kMagic) || cache.size() < sizeof(Head)) return paths;
  Head head;
  memcpy(&head, cache.data(), sizeof head);
  for (uint32_t i = 0; i < head.entries; ++i) {
    Entry entry;
    const size_t at = sizeof head + size_t{i} * sizeof entry;
    if (at > cache.size() || cache.size() - at < sizeof entry) break;
    memcpy(&entry, cache.data() + at, sizeof entry);
    const std::string_view path = string_at(cache, entry.path);
    if (string_at(cache, entry.name) == soname && path.starts_with('/')) paths.emplace_back(path);
  }
  return paths;
}

}  // namespace amem
