// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/sealed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_call.h"

namespace amem {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Result<UniqueFd> make_sealed_file(const char* name, std::span<const uint8_t> bytes) {
  UniqueFd fd(create_memfd(name));
  if (!fd.valid()) return os_error(errno, "memfd_create(%s)", name);

  const DiscardedSignals discarded;  // below a RLIMIT_FSIZE of that size
  const ssize_t written = pwrite(fd.get(), bytes.data(), bytes.size(), 0);
  if (written != static_cast<ssize_t>(bytes.size()))
    return os_error(written < 0 ? errno : ENOSPC, "pwrite(%s, %zu bytes)", name, bytes.size());
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return os_error(errno, "fcntl(F_ADD_SEALS)");
  return fd;
}

std::optional<std::vector<uint8_t>> read_sealed_file(int fd, size_t most) {
  // Asked first: only files in memory have seals, so that no other file system is asked.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  std::vector<uint8_t> bytes(most);
  const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace amem
