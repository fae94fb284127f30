// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstring>
#include <utility>

#include "sim/minccl/connection_end.h"
#include "sim/minccl/driver_calls.h"
#include "sim/minccl/socket_progress.h"

namespace amem::minccl {
namespace {

/// Both ends have a FIFO in host memory of their own; the proxy threads carry its slots over TCP
/// (NCCL's network transport without GPUDirect, nccl-memory A24).
class SocketEnd final : public ConnectionEnd {
 public:
  using ConnectionEnd::ConnectionEnd;

  ncclResult_t setup(ConnectInfo* ours) override {
    size_t size_bytes = link_.layout.total_bytes();
    constexpr unsigned kDeviceMap = 2;  // CU_MEMHOSTALLOC_DEVICEMAP
    MINCCL_CU(mem_host_alloc(&host_, size_bytes, kDeviceMap));
    memset(host_, 0, size_bytes);
    *ours = {};
    if (sends()) return ncclSuccess;
    return listen_loopback(&listener_, &ours->port);
  }

  ncclResult_t connect(const ConnectInfo& theirs, DeviceConnection* connection) override {
    Patience patience = Patience::begin(link_.aborting);
    UniqueFd stream;
    if (sends()) {
      MINCCL_TRY(connect_loopback(theirs.port, patience, &stream));
    } else {
      MINCCL_TRY(accept_loopback(listener_.get(), patience, &stream));
      listener_.reset();
    }
    CuDevicePtr pointer = 0;
    MINCCL_CU(mem_host_get_device_pointer(&pointer, host_, 0));
    auto* on_device = reinterpret_cast<std::byte*>(pointer);
    describe(on_device, on_device, connection);
    auto* sizes = reinterpret_cast<uint64_t*>(on_device + offsetof(FifoHeader, sizes));
    if (sends()) connection->sizes = sizes;
    DeviceConnection host_view;
    describe(host_, host_, &host_view);
    host_view.sizes = sizes;
    log_info("rank %d -> %d via NET/Socket", link_.self.rank, link_.peer.rank);
    return link_.progress->add(direction_, std::move(stream), host_view, &number_);
  }

  ncclResult_t release() override {
    if (number_ != 0) link_.progress->remove(number_);
    number_ = 0;
    if (host_ != nullptr) MINCCL_CU(mem_free_host(host_));
    host_ = nullptr;
    return ncclSuccess;
  }

 private:
  void* host_ = nullptr;
  UniqueFd listener_;
  int number_ = 0;
};

}  // namespace

std::unique_ptr<ConnectionEnd> make_socket_end(Direction direction, const PeerLink& link) {
  return std::make_unique<SocketEnd>(direction, link);
}

}  // namespace amem::minccl
