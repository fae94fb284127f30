// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "contents/host_segment.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "base/file_lock.h"
#include "base/system_call.h"

namespace amem {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int kReadOnlySeals = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
constexpr size_t kPage = 4096;

}  // namespace

HostSegment make_segment(size_t size_bytes) {
  const UniqueFd file(create_memfd("amem-host"));
  if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(size_bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0)
    return {};
  return open_segment(file.get());
}

// The seals are asked first: only files in memory have them, so that no other file is opened.
HostSegment open_segment(int fd) {
  if ((fcntl(fd, F_GET_SEALS) & (kSeals | kReadOnlySeals)) != kSeals) return {};
  UniqueFd file(open(("/proc/thread-self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
  struct stat found {};
  if (!file.valid() || fstat(file.get(), &found) != 0 || found.st_uid != geteuid()) return {};
  const auto size_bytes = static_cast<size_t>(found.st_size);
  if (size_bytes == 0 || size_bytes > kMaxSegmentBytes || size_bytes % kPage != 0) return {};
  return {std::move(file), size_bytes, found.st_ino};
}

std::shared_ptr<const void> hold_segment(const HostSegment& segment) {
  const int fd = segment.file.get();
  // The lock of a file of the application that has the number keeps nobody else out.
  if (!segment.file.is_open() || !lock_file(fd, F_OFD_SETLK, F_WRLCK)) return nullptr;
  struct stat own {};
  if (fstat(fd, &own) != 0) return nullptr;
  return {&segment, [fd, own](const void*) {
            struct stat now {};
            if (fstat(fd, &now) == 0 && now.st_dev == own.st_dev && now.st_ino == own.st_ino)
              lock_file(fd, F_OFD_SETLK, F_UNLCK);
          }};
}

bool is_used_elsewhere(const HostSegment& segment) {
  const auto found = lock_file(segment.file.get(), F_OFD_GETLK, F_WRLCK);
  return found && found->l_type == F_WRLCK;
}

}  // namespace amem
