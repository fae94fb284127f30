// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/minccl/connection_end.h"
#include "sim/minccl/driver_calls.h"
#include "sim/minccl/uds_service.h"

namespace amem::minccl {
namespace {

/// Host memory of one process, mapped and made known to the driver.
class HostSegment {
 public:
  ncclResult_t map(int fd, size_t size_bytes) {
    void* mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) return fail(ncclSystemError, "mmap: %s", strerror(errno));
    size_bytes_ = size_bytes;
    host_ = mapped;
    constexpr unsigned kDeviceMap = 2;  // CU_MEMHOSTREGISTER_DEVICEMAP
    MINCCL_CU(mem_host_register(host_, size_bytes_, kDeviceMap));
    registered_ = true;
    CuDevicePtr pointer = 0;
    MINCCL_CU(mem_host_get_device_pointer(&pointer, host_, 0));
    on_device_ = reinterpret_cast<void*>(pointer);
    return ncclSuccess;
  }

  ncclResult_t unmap() {
    if (host_ == nullptr) return ncclSuccess;
    if (registered_) MINCCL_CU(mem_host_unregister(host_));
    munmap(host_, size_bytes_);
    host_ = nullptr;
    return ncclSuccess;
  }

  void* on_device() const { return on_device_; }

 private:
  size_t size_bytes_ = 0;
  void* host_ = nullptr;
  void* on_device_ = nullptr;
  bool registered_ = false;
};

/// Counters, flags and FIFOs in host memory that both processes map.
class ShmEnd final : public ConnectionEnd {
 public:
  using ConnectionEnd::ConnectionEnd;

  ncclResult_t setup(ConnectInfo* ours) override {
    UniqueFd file(memfd_create("minccl-shm", MFD_CLOEXEC));
    if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(own_bytes())) != 0)
      return fail(ncclSystemError, "memfd of %zu bytes: %s", own_bytes(), strerror(errno));
    MINCCL_TRY(own_.map(file.get(), own_bytes()));
    *ours = {};
    ours->size_bytes = own_bytes();
    ours->file = link_.uds->offer_file(std::move(file));
    return ncclSuccess;
  }

  ncclResult_t connect(const ConnectInfo& theirs, DeviceConnection* connection) override {
    UniqueFd file;
    MINCCL_TRY(fetch_offered_file(link_.peer.uds_name, theirs.file, Patience::begin(link_.aborting),
                                  &file));
    MINCCL_TRY(other_.map(file.get(), theirs.size_bytes));
    describe(own_.on_device(), other_.on_device(), connection);
    log_info("rank %d -> %d via SHM/direct", link_.self.rank, link_.peer.rank);
    return ncclSuccess;
  }

  ncclResult_t release() override {
    MINCCL_TRY(other_.unmap());
    return own_.unmap();
  }

 private:
  HostSegment own_;
  HostSegment other_;
};

}  // namespace

std::unique_ptr<ConnectionEnd> make_shm_end(Direction direction, const PeerLink& link) {
  return std::make_unique<ShmEnd>(direction, link);
}

}  // namespace amem::minccl
