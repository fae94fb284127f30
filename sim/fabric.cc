// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/fabric.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "sim/descriptor.h"
#include "sim/machine.h"
#include "sim/settings.h"

namespace amem::sim {
namespace {

constexpr uint64_t kFabricMagic = 0x6369726261667373;

struct FabricHandle {
  uint64_t magic;
  uint64_t domain;
  int32_t pid;
  int32_t fd;  ///< of the backing, in that process
  uint64_t offset_bytes;
  uint64_t size_bytes;
  uint64_t unused[3];
};
static_assert(sizeof(FabricHandle) == kFabricHandleBytes);

uint64_t own_domain() { return std::hash<std::string>()(fabric_domain()); }

/// A copy of another process's descriptor: what the IMEX service does between hosts.
UniqueFd descriptor_of(const FabricHandle& handle) {
  const UniqueFd owner(static_cast<int>(syscall(SYS_pidfd_open, handle.pid, 0)));
  if (!owner.valid()) return {};
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_getfd, owner.get(), handle.fd, 0)));
}

}  // namespace

bool has_imex_channel() { return !fabric_domain().empty(); }

CuResult export_fabric(const Backing& backing, void* handle) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // of Yama, for pidfd_getfd(2)
  const FabricHandle made{kFabricMagic,
                          own_domain(),
                          getpid(),
                          backing.fd(),
                          backing.file_offset_bytes(),
                          backing.size_bytes(),
                          {}};
  std::memcpy(handle, &made, sizeof made);
  return kSuccess;
}

CuResult import_fabric(const void* handle, BackingRef* backing) {
  FabricHandle given;
  std::memcpy(&given, handle, sizeof given);
  if (given.magic != kFabricMagic || given.domain != own_domain()) return kErrorInvalidValue;
  const UniqueFd fd = descriptor_of(given);
  const auto found = fd.valid() ? Machine::joined()->find(fd.get()) : std::nullopt;
  // The owner has released it, and may use the number for something else.
  if (!found || found->range.offset_bytes != given.offset_bytes ||
      found->range.size_bytes != given.size_bytes)
    return kErrorInvalidValue;
  const CuResult imported = import_backing(fd.get(), backing);
  if (imported == kSuccess) (*backing)->mark_fabric();
  return imported;
}

}  // namespace amem::sim
