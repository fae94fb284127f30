// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "sim/minccl/allocator.h"
#include "sim/minccl/connection_end.h"
#include "sim/minccl/fabric.h"
#include "sim/minccl/net_plugin.h"
#include "sim/minccl/uds_service.h"

namespace amem::minccl {
namespace {

/// Device memory that the other rank maps.
///
///   other process            import by file descriptor or fabric handle (nccl-memory A5, A6)
///   same process, other GPU  the same handle at a second address (A7, NCCL >= 2.23)
///   same process, same GPU   the owner's address
class P2pEnd final : public ConnectionEnd {
 public:
  using ConnectionEnd::ConnectionEnd;

  ncclResult_t setup(ConnectInfo* ours) override;
  ncclResult_t connect(const ConnectInfo& theirs, DeviceConnection* connection) override;
  ncclResult_t release() override;
  ncclResult_t suspend_import() override;
  ncclResult_t suspend_own() override;
  ncclResult_t resume_own(ConnectInfo* ours) override;
  ncclResult_t resume_import(const ConnectInfo& theirs) override;

 private:
  enum class Access { none, imported, alias, direct };

  bool same_process() const { return is_same_process(link_.self, link_.peer); }
  bool same_device() const { return link_.self.device == link_.peer.device; }
  ncclResult_t import(const ConnectInfo& theirs);
  ncclResult_t map_alias(const ConnectInfo& theirs);
  ncclResult_t use_directly(const ConnectInfo& theirs);
  ncclResult_t fetch(const ConnectInfo& theirs, Shareable* shareable) const;
  ncclResult_t describe_own(ConnectInfo* info) const;

  void* own_ = nullptr;
  size_t own_size_ = 0;
  CuMemHandle own_handle_ = 0;
  std::vector<std::byte> suspended_;
  void* other_ = nullptr;
  size_t other_size_ = 0;
  CuMemHandle other_handle_ = 0;
  Access access_ = Access::none;
};

/// NCCL rounds its P2P buffers up to this itself (CUDA_IPC_MIN, p2p.cc:380,448@v2.28.9-1).
constexpr size_t kP2pUnit = size_t{2} << 20;

ncclResult_t P2pEnd::setup(ConnectInfo* ours) {
  own_size_ = (own_bytes() + kP2pUnit - 1) / kP2pUnit * kP2pUnit;
  MINCCL_TRY(device_alloc(own_size_, &own_, &own_handle_));
  MINCCL_TRY(register_with_net_plugin(own_, own_size_));
  if (!link_.self.cumem) {
    // cuMemAlloc gives used memory as it is; NCCL clears its legacy buffers (p2p.cc:247@2.30.7).
    MINCCL_CU(memset_async(device_pointer(own_), 0, own_size_, link_.side_stream));
    MINCCL_CU(stream_synchronize(link_.side_stream));
  }
  // A reference for the rank of this process that will map the handle again, so that the memory
  // outlives this end should the two be freed in the wrong order (NCCL p2p.cc:240@2.30.7).
  if (link_.self.cumem && same_process() && !same_device())
    MINCCL_CU(mem_retain(&own_handle_, own_));
  return describe_own(ours);
}

ncclResult_t P2pEnd::describe_own(ConnectInfo* info) const {
  *info = {};
  info->handle = own_handle_;
  info->size_bytes = own_size_;
  info->address = device_pointer(own_);
  info->handle_type = memory_handle_type();
  // As ncclP2pAllocateShareableBuffer() (p2p.cc@v2.30.7-1), whoever imports it.
  if (info->handle_type == kHandleTypeFabric && link_.self.cumem)
    MINCCL_CU(mem_export(info->fabric, own_handle_, kHandleTypeFabric, 0));
  return ncclSuccess;
}

ncclResult_t P2pEnd::connect(const ConnectInfo& theirs, DeviceConnection* connection) {
  if (!same_process()) {
    MINCCL_TRY(import(theirs));
  } else if (!same_device() && link_.self.cumem) {
    MINCCL_TRY(map_alias(theirs));
  } else {
    MINCCL_TRY(use_directly(theirs));
  }
  describe(own_, other_, connection);
  return ncclSuccess;
}

ncclResult_t P2pEnd::import(const ConnectInfo& theirs) {
  if (!link_.self.cumem)
    return fail(ncclUnhandledCudaError,
                "cudaIpcOpenMemHandle: what rank %d has sent is no handle of legacy IPC: is its "
                "NCCL_CUMEM_ENABLE another?",
                link_.peer.rank);
  Shareable shareable;
  MINCCL_TRY(fetch(theirs, &shareable));
  // Mapped whole: the owner rounded the size up to the same granularity.
  MINCCL_TRY(cumem_import(shareable, theirs.size_bytes, &other_, &other_handle_));
  other_size_ = theirs.size_bytes;
  access_ = Access::imported;
  log_info("rank %d -> %d via P2P/CUMEM", link_.self.rank, link_.peer.rank);
  return ncclSuccess;
}

ncclResult_t P2pEnd::fetch(const ConnectInfo& theirs, Shareable* shareable) const {
  shareable->handle_type = theirs.handle_type;
  std::copy(std::begin(theirs.fabric), std::end(theirs.fabric), shareable->fabric);
  if (theirs.handle_type == kHandleTypeFabric) return ncclSuccess;
  return fetch_memory_fd(link_.peer.uds_name, theirs.handle, Patience::begin(link_.aborting),
                         &shareable->fd);
}

ncclResult_t P2pEnd::map_alias(const ConnectInfo& theirs) {
  MINCCL_TRY(cumem_map_alias(theirs.handle, theirs.size_bytes, &other_));
  access_ = Access::alias;
  MINCCL_CU(mem_release(theirs.handle));
  log_info("rank %d -> %d via P2P/direct pointer (alias)", link_.self.rank, link_.peer.rank);
  return ncclSuccess;
}

ncclResult_t P2pEnd::use_directly(const ConnectInfo& theirs) {
  if (!same_device()) {
    CuContext peer_context = nullptr;
    MINCCL_CU(primary_context_retain(&peer_context, link_.peer.device));
    CuResult code = driver().context_enable_peer_access(peer_context, 0);
    if (code != kSuccess && code != kErrorPeerAccessAlreadyEnabled)
      return fail_driver("cuCtxEnablePeerAccess", code);
  }
  other_ = reinterpret_cast<void*>(theirs.address);
  access_ = Access::direct;
  log_info("rank %d -> %d via P2P/direct pointer", link_.self.rank, link_.peer.rank);
  return ncclSuccess;
}

ncclResult_t P2pEnd::release() {
  if (access_ == Access::imported) MINCCL_TRY(cumem_free(other_));
  if (access_ == Access::alias) MINCCL_TRY(cumem_unmap_alias(other_));
  access_ = Access::none;
  MINCCL_TRY(device_free(own_));
  own_ = nullptr;
  return ncclSuccess;
}

// Contents are copied to pageable host memory in place of pinned.

ncclResult_t P2pEnd::suspend_import() {
  if (access_ == Access::alias)
    return fail(ncclInvalidUsage, "ranks of one process are not suspended in this simulation");
  return access_ == Access::imported ? cumem_leave(other_, other_handle_, other_size_)
                                     : ncclSuccess;
}

ncclResult_t P2pEnd::suspend_own() {
  if (!link_.self.cumem) return ncclSuccess;
  suspended_.resize(own_size_);
  MINCCL_CU(
      copy_to_host_async(suspended_.data(), device_pointer(own_), own_size_, link_.side_stream));
  MINCCL_CU(stream_synchronize(link_.side_stream));
  return cumem_leave(own_, own_handle_, own_size_);
}

ncclResult_t P2pEnd::resume_own(ConnectInfo* ours) {
  if (link_.self.cumem) {
    MINCCL_TRY(cumem_recreate(own_, own_size_, &own_handle_));
    MINCCL_CU(copy_to_device_async(device_pointer(own_), suspended_.data(), own_size_,
                                   link_.side_stream));
    MINCCL_CU(stream_synchronize(link_.side_stream));
  }
  return describe_own(ours);
}

ncclResult_t P2pEnd::resume_import(const ConnectInfo& theirs) {
  if (access_ != Access::imported) return ncclSuccess;
  Shareable shareable;
  MINCCL_TRY(fetch(theirs, &shareable));
  return cumem_import_again(shareable, other_, other_size_, &other_handle_);
}

}  // namespace

std::unique_ptr<ConnectionEnd> make_p2p_end(Direction direction, const PeerLink& link) {
  return std::make_unique<P2pEnd>(direction, link);
}

}  // namespace amem::minccl
