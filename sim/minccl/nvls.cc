// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Buffers that are bound to multicast objects (NVLS): credits with the communicator, data with the
// first all-reduce, as in NCCL (nvls.cc:409,555@v2.30.7-1).
#include <algorithm>
#include <set>

#include "sim/minccl/allocator.h"
#include "sim/minccl/communicator.h"

namespace amem::minccl {

bool Communicator::can_use_nvls() const {
  std::set<int> processes, devices;
  for (const PeerInfo& peer : bootstrap_.peers()) {
    processes.insert(peer.pid);
    devices.insert(peer.device);
    if (!peer.nvls || peer.host != bootstrap_.peers()[rank_].host) return false;
  }
  const auto ranks = static_cast<size_t>(ranks_);
  return ranks > 1 && processes.size() == ranks && devices.size() == ranks;
}

/// Rank 0 creates the object, the others import it. Binding waits until all have added their GPUs.
ncclResult_t Communicator::join_multicast(size_t size_bytes, CuMemHandle* object) {
  CuMulticastProp properties = {};
  properties.num_devices = static_cast<unsigned>(ranks_);
  properties.size_bytes = size_bytes;
  properties.handle_types = kHandleTypePosixFd;
  if (rank_ == 0) MINCCL_CU(multicast_create(object, &properties));
  std::vector<CuMemHandle> handles(ranks_);
  handles[rank_] = *object;
  const Patience patience = Patience::begin(&aborting_);
  MINCCL_TRY(bootstrap_.all_gather(handles.data(), sizeof(CuMemHandle), patience));
  if (rank_ != 0) {
    UniqueFd fd;
    MINCCL_TRY(fetch_memory_fd(bootstrap_.peers()[0].uds_name, handles[0], patience, &fd));
    MINCCL_CU(mem_import(object, reinterpret_cast<void*>(static_cast<uintptr_t>(fd.get())),
                         kHandleTypePosixFd));
  }
  MINCCL_CU(multicast_add_device(*object, device_));
  return ncclSuccess;
}

ncclResult_t Communicator::make_multicast_buffer(size_t size_bytes, DeviceMulticast* addresses) {
  MulticastBuffer& buffer = nvls_.emplace_back();
  CuMemHandle memory = 0;
  MINCCL_TRY(cumem_alloc_for_multicast(size_bytes, &buffer.own, &memory, &buffer.size_bytes));
  MINCCL_TRY(join_multicast(buffer.size_bytes, &buffer.object));
  MINCCL_CU(memset_async(device_pointer(buffer.own), 0, buffer.size_bytes, side_stream_));
  MINCCL_CU(stream_synchronize(side_stream_));
  MINCCL_CU(multicast_bind(buffer.object, 0, memory, 0, buffer.size_bytes, 0));
  MINCCL_TRY(cumem_map_multicast(buffer.object, buffer.size_bytes, &buffer.all));
  *addresses = {static_cast<std::byte*>(buffer.own), static_cast<std::byte*>(buffer.all)};
  // No rank adds to the credits of a rank that has not bound them.
  return bootstrap_.barrier(Patience::begin(&aborting_));
}

ncclResult_t Communicator::prepare_nvls() {
  if (!can_use_nvls()) return ncclSuccess;
  void* on_device = nullptr;
  MINCCL_TRY(allocate(sizeof(DeviceNvls), &on_device));
  DeviceNvls contents{};
  MINCCL_TRY(make_multicast_buffer(sizeof(NvlsCredits), &contents.credits));
  MINCCL_TRY(copy_to_device(on_device, &contents, sizeof contents));
  device_nvls_ = static_cast<DeviceNvls*>(on_device);
  return copy_to_device(&device_communicator_->nvls, &device_nvls_, sizeof device_nvls_);
}

ncclResult_t Communicator::prepare_nvls_data() {
  const bool reduces = std::any_of(pending_.begin(), pending_.end(), [](const auto& operation) {
    return std::any_of(operation.collectives.begin(), operation.collectives.end(), is_for_nvls);
  });
  if (device_nvls_ == nullptr || nvls_.size() > 1 || !reduces) return ncclSuccess;
  DeviceMulticast data{};
  MINCCL_TRY(make_multicast_buffer(DeviceNvls::kDataBytes, &data));
  log_info("rank %d NVLS, %d GPUs", rank_, ranks_);
  return copy_to_device(&device_nvls_->data, &data, sizeof data);
}

ncclResult_t Communicator::free_multicast_buffers() {
  for (; !nvls_.empty(); nvls_.pop_back()) {
    const MulticastBuffer& buffer = nvls_.back();
    if (buffer.all != nullptr) MINCCL_TRY(cumem_unmap_multicast(buffer.all, buffer.size_bytes));
    if (buffer.all != nullptr)
      MINCCL_CU(multicast_unbind(buffer.object, device_, 0, buffer.size_bytes));
    if (buffer.object != 0) MINCCL_CU(mem_release(buffer.object));
    MINCCL_TRY(cumem_free(buffer.own));
  }
  return ncclSuccess;
}

}  // namespace amem::minccl
