// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "sim/ofd_lock.h"
#include "sim/settings.h"

namespace amem::sim {
namespace {

constexpr uint64_t kMagic = 0x616d656d73696d32;  // a state file whose layout this code knows

// Bytes of the state file that are only locked, beyond what it stores.
constexpr uint64_t kPresenceByte = 1ull << 20;  // read-locked by every process on the machine
constexpr uint64_t kSetupByte = kPresenceByte + 1;

std::mutex g_join_mutex;
std::atomic<Machine*> g_machine{nullptr};

// Each handle costs a descriptor here, and the usual soft limit is 1024.
void raise_descriptor_limit() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

CuResult Machine::join() {
  std::lock_guard guard(g_join_mutex);
  if (g_machine.load() != nullptr) return kSuccess;
  raise_descriptor_limit();
  auto machine = std::make_unique<Machine>();
  if (const CuResult opened = machine->open(); opened != kSuccess) return opened;
  g_machine.store(machine.release());  // leaked on purpose: threads use it until the very end
  return kSuccess;
}

Machine* Machine::joined() { return g_machine.load(std::memory_order_acquire); }

UniqueFd Machine::open_locks() const {
  return UniqueFd(::open((folder_ + "/state").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
}

CuResult Machine::open() {
  if (!prepare_folder()) return kErrorOperatingSystem;
  state_fd_ = open_locks();
  if (!state_fd_.valid() || !map_state()) return kErrorOperatingSystem;
  LockedByte setup(state_fd_.get(), kSetupByte);
  const bool alone = try_lock(state_fd_.get(), {kPresenceByte, 1});
  if (!initialise_if_alone(alone)) return kErrorOperatingSystem;
  if (!lock_shared(state_fd_.get(), kPresenceByte)) return kErrorOperatingSystem;
  return device_count_ > 0 ? kSuccess : kErrorNoDevice;
}

// All users share a machine in a folder that everybody may write to.
bool Machine::prepare_folder() {
  folder_ = machine_folder();
  mkdir(folder_.c_str(), 0700);
  struct stat info;
  return stat(folder_.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         (info.st_uid == geteuid() || (info.st_mode & S_IWOTH) != 0);
}

bool Machine::map_state() {
  if (ftruncate(state_fd_.get(), sizeof(SharedState)) != 0) return false;
  void* at =
      mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, state_fd_.get(), 0);
  if (at == MAP_FAILED) return false;
  state_ = static_cast<SharedState*>(at);
  return true;
}

// A process that is alone on the machine initialises it again, unless memory of it is still in use
// (by a descriptor in a socket, or by a forked child): that memory must keep its offset.
bool Machine::initialise_if_alone(bool alone) {
  const bool known = state_->magic == kMagic;
  if (known && !open_pools()) return false;
  if (known && !(alone && std::all_of(pools_.begin(), pools_.end(),
                                      [](const Pool& pool) { return pool.unused(); }))) {
    return true;
  }
  state_->magic = 0;
  state_->device_count = static_cast<uint32_t>(wanted_device_count());
  state_->device_memory_bytes = wanted_device_memory_bytes();
  state_->host_memory_bytes = wanted_host_memory_bytes();
  if (!open_pools()) return false;
  for (Pool& pool : pools_) {
    if (!pool.clear()) return false;
  }
  state_->magic = kMagic;
  return true;
}

bool Machine::open_pools() {
  device_count_ = static_cast<int>(state_->device_count);
  for (size_t i = 0; i < pools_.size(); ++i) {
    const bool host = i == kMaxDevices;
    const std::string name = host ? "host" : "gpu" + std::to_string(i);
    const uint64_t capacity = host ? state_->host_memory_bytes : state_->device_memory_bytes;
    if (!pools_[i].open(folder_ + "/" + name, capacity, &state_->pools[i], state_fd_.get(),
                        kFirstPoolByte + i)) {
      return false;
    }
  }
  return true;
}

std::optional<Machine::Found> Machine::find(int fd) const {
  for (size_t i = 0; i < pools_.size(); ++i) {
    const auto range = pools_[i].describe(fd);
    if (!range) continue;
    const bool host = i == kMaxDevices;
    const CuLocation location{host ? kLocationHost : kLocationDevice,
                              host ? 0 : static_cast<int>(i)};
    return Found{const_cast<Pool*>(&pools_[i]), location, *range};
  }
  return std::nullopt;
}

}  // namespace amem::sim
