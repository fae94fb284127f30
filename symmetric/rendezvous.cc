// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// How the ranks of a group learn of each other's memory and map it. Two exchanges: what each rank
// has, and whether each rank has mapped it. With multicast three more: the object, whether each
// rank has added its device, and whether each has bound its buffer. All ranks succeed, or all fail
// with the same reason.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <set>

#include "symmetric/launch_shapes.h"
#include "symmetric/memory.h"

namespace amem::symmetric {

namespace layout = detail;

namespace {

/// Changes with the layout of the workspace and of the structures below.
constexpr uint32_t kVersion = 0xA3E3'0005;

using ProcessId = std::array<uint64_t, 2>;
constexpr size_t kTextBytes = 200;
void set_text(char (&text)[kTextBytes], const std::string& value) {
  snprintf(text, sizeof text, "%s", value.c_str());
}
std::string text_of(const char (&text)[kTextBytes]) {
  return std::string(text, strnlen(text, sizeof text));
}

}  // namespace

/// Of each rank, in the first exchange. The size and the first member are the same in all versions.
struct SymmetricMemory::Announcement {
  uint32_t version;
  uint32_t rank;
  uint32_t world_size;
  int32_t pid;
  uint64_t buffer_bytes;
  uint64_t signal_pad_bytes;
  ProcessId process;
  amemIpcHandle_t buffer, workspace;
  char failure[kTextBytes];  ///< empty: none
  uint64_t multicast_bytes;  ///< 0: without multicast, also in the next member
  RankDevice device;
  unsigned char reserved[512 - 404];
};

/// Of each rank, in the others.
struct SymmetricMemory::Outcome {
  char failure[kTextBytes];
  amemIpcHandle_t multicast;  ///< of rank 0, in the third one: the descriptor of the object
  ProcessId met;              ///< in the second one: all processes of the first one, combined
};

namespace {

Error failure_of_rank(size_t rank, const std::string& text) {
  return make_error(ErrorKind::peer, 0, "rank %zu: %s", rank, text.c_str());
}

/// An error if what this rank got for `rank` does not fit to the others, and to what it announced.
template <typename Announcement>
Status check_one(const std::vector<Announcement>& all, uint32_t rank, const Announcement& mine) {
  const Announcement &its = all[rank], &first = all.front();
  if (its.rank != rank || its.world_size != mine.world_size)
    return failure_of_rank(rank, "it says that it is rank " + std::to_string(its.rank) + " of " +
                                     std::to_string(its.world_size) + ", in a group of " +
                                     std::to_string(mine.world_size));
  const auto fits = [&](const Announcement& other) {
    return (its.process == other.process) == (its.rank == other.rank);
  };
  // With all of them, so that all ranks notice. Another process may be this rank too: then `all`
  // may have its announcement in place of this one's.
  const auto found = std::find_if_not(all.begin(), all.end(), fits);
  const Announcement& other = found == all.end() ? mine : *found;
  if (!fits(other))
    return failure_of_rank(rank, "it is process " + std::to_string(its.pid) + ", and process " +
                                     std::to_string(other.pid) + " is rank " +
                                     std::to_string(other.rank) + ": each rank is one process");
  if (its.buffer_bytes != first.buffer_bytes)
    return failure_of_rank(rank, "its buffer has " + std::to_string(its.buffer_bytes) +
                                     " bytes, that of rank 0 " +
                                     std::to_string(first.buffer_bytes));
  if (its.signal_pad_bytes != first.signal_pad_bytes)
    return failure_of_rank(rank, "its signal pads have " + std::to_string(its.signal_pad_bytes) +
                                     " bytes, those of rank 0 " +
                                     std::to_string(first.signal_pad_bytes));
  return ok_status();
}

/// An error if the announcements do not fit together.
template <typename Announcement>
Status check(const std::vector<Announcement>& all, const Announcement& mine) {
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].version != kVersion)
      return failure_of_rank(rank, "it has another version of amem (protocol " +
                                       std::to_string(all[rank].version & 0xffff) + ", not " +
                                       std::to_string(kVersion & 0xffff) + ")");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (const std::string failure = text_of(all[rank].failure); !failure.empty())
      return failure_of_rank(rank, failure);
  for (uint32_t rank = 0; rank < all.size(); ++rank) AMEM_TRY(check_one(all, rank, mine));
  return ok_status();
}

template <typename T>
Result<std::vector<T>> exchange(const amemGroup_t& group, const T& mine) {
  std::vector<T> all(static_cast<size_t>(group.world_size));
  const int failed = group.all_gather(group.context, &mine, sizeof mine, all.data());
  if (failed == 0) return all;
  return make_error(ErrorKind::peer, 0, "the group's all_gather function failed with %d", failed);
}

/// The size of the multicast object; 0 if not all ranks support one, or ranks share a device.
template <typename Announcement>
size_t common_multicast_bytes(const std::vector<Announcement>& all) {
  std::set<std::array<uint8_t, 16>> devices;
  for (const Announcement& its : all) devices.insert(its.device.uuid);
  const bool is_common = std::all_of(all.begin(), all.end(), [&](const Announcement& its) {
    return its.multicast_bytes == all.front().multicast_bytes;
  });
  return is_common && devices.size() == all.size() && all.size() > 1 ? all.front().multicast_bytes
                                                                     : 0;
}

}  // namespace

Status SymmetricMemory::announce(const SymmetricHandle& handle, Announcement* mine) {
  mine->buffer_bytes = handle.view.buffer_bytes;
  const auto export_to = [](DeviceAddress address, amemIpcHandle_t* exported) {
    return amem_status(amemIpcGetHandle(exported, reinterpret_cast<void*>(address)));
  };
  AMEM_TRY(export_to(handle.buffer, &mine->buffer));
  AMEM_TRY(export_to(handle.workspace, &mine->workspace));
  AMEM_TRY(driver_status(driver_,
                         driver_.cuDeviceGetAttribute(&mine->device.multiprocessors,
                                                      kAttributeMultiprocessors, handle.device),
                         "cuDeviceGetAttribute(multiprocessors, device %d)", handle.device));
  AMEM_TRY(driver_status(driver_,
                         driver_.cuDeviceGetUuid_v2(mine->device.uuid.data(), handle.device),
                         "cuDeviceGetUuid(device %d)", handle.device));
  if (!multicast_) return ok_status();
  mine->multicast_bytes = AMEM_TRY(
      multicast_bytes(driver_, handle.device, handle.world_size(), handle.view.buffer_bytes));
  return ok_status();
}

Result<DeviceAddress> SymmetricMemory::open(SymmetricHandle& handle, const amemIpcHandle_t& memory,
                                            uint32_t rank) {
  void* pointer = nullptr;
  const Status opened = amem_status(amemIpcOpenHandle(&pointer, &memory, handle.device));
  if (!opened.ok())
    return make_error(opened.error().kind, 0, "cannot map the memory of rank %u (process %d): %s",
                      rank, handle.pids[rank], opened.error().message.c_str());
  handle.opened.push_back(pointer);
  return reinterpret_cast<DeviceAddress>(pointer);
}

Status SymmetricMemory::open_all(SymmetricHandle& handle, const std::vector<Announcement>& all) {
  std::vector<RankDevice> devices;
  for (const Announcement& its : all) {
    handle.pids.push_back(its.pid);
    devices.push_back(its.device);
  }
  handle.multiprocessors = multiprocessors_for_each(devices);
  for (uint32_t rank = 0; rank < handle.world_size(); ++rank) {
    DeviceAddress buffer = handle.buffer, workspace = handle.workspace;
    if (rank != handle.rank()) {
      buffer = AMEM_TRY(open(handle, all[rank].buffer, rank));
      workspace = AMEM_TRY(open(handle, all[rank].workspace, rank));
    }
    handle.view.buffers[rank] = reinterpret_cast<unsigned char*>(buffer);
    handle.view.workspaces[rank] = reinterpret_cast<unsigned char*>(workspace);
    handle.buffers.push_back(handle.view.buffers[rank]);
    handle.signal_pads.push_back(layout::signal_pad_of(handle.view, rank));
  }
  return write_pointers(handle);
}

Status SymmetricMemory::write_pointers(const SymmetricHandle& handle) {
  OwnStream stream(driver_);
  const auto write = [&](size_t offset_bytes, const auto& pointers) {
    return stream.write(handle.workspace + offset_bytes, pointers.data(),
                        pointers.size() * sizeof(pointers[0]));
  };
  AMEM_TRY(write(offsetof(layout::Workspace, buffers), handle.buffers));
  AMEM_TRY(write(offsetof(layout::Workspace, signal_pads), handle.signal_pads));
  return stream.wait(timeout_ms_);
}

Status SymmetricMemory::connect(SymmetricHandle& handle, const amemGroup_t& group,
                                Status prepared) {
  static_assert(sizeof(Announcement) == 512 && offsetof(Announcement, version) == 0);
  Announcement mine{};
  mine.version = kVersion;
  mine.rank = handle.rank();
  mine.world_size = handle.world_size();
  mine.pid = getpid();
  mine.signal_pad_bytes = handle.signal_pad_bytes;
  mine.process = process_;
  if (prepared.ok()) prepared = announce(handle, &mine);
  if (!prepared.ok()) set_text(mine.failure, prepared.error().message);
  const Result<std::vector<Announcement>> all = exchange(group, mine);
  if (!prepared.ok()) return prepared;
  if (!all.ok()) return Error(all.error());
  AMEM_TRY(check(all.value(), mine));

  // Two processes that are the same rank may have met different ones.
  Outcome mapped{};
  for (const Announcement& its : all.value())
    for (size_t i = 0; i < mapped.met.size(); ++i) mapped.met[i] ^= its.process[i];
  std::vector<Outcome> outcomes;
  AMEM_TRY(agree(group, open_all(handle, all.value()), mapped, &outcomes));
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    if (outcomes[rank].met != mapped.met)
      return failure_of_rank(rank, "it has met other processes: each rank is one process");
  const size_t multicast_bytes = common_multicast_bytes(all.value());
  return multicast_bytes == 0 ? ok_status() : connect_multicast(handle, group, multicast_bytes);
}

Status SymmetricMemory::agree(const amemGroup_t& group, Status own, Outcome mine,
                              std::vector<Outcome>* all) {
  if (!own.ok()) set_text(mine.failure, own.error().message);
  Result<std::vector<Outcome>> outcomes = exchange(group, mine);
  AMEM_TRY(std::move(own));
  if (!outcomes.ok()) return Error(outcomes.error());
  for (size_t rank = 0; rank < outcomes.value().size(); ++rank)
    if (const std::string failure = text_of(outcomes.value()[rank].failure); !failure.empty())
      return failure_of_rank(rank, failure);
  *all = std::move(outcomes.value());
  return ok_status();
}

Status SymmetricMemory::connect_multicast(SymmetricHandle& handle, const amemGroup_t& group,
                                          size_t size_bytes) {
  Outcome mine{};
  std::vector<Outcome> all;
  Status offered = handle.rank() == 0 ? offer_multicast(handle, size_bytes, &mine) : ok_status();
  const bool offers = handle.rank() == 0 && offered.ok();
  Status added = agree(group, std::move(offered), mine, &all);
  if (added.ok()) added = agree(group, add_device(handle, all.front(), size_bytes), {}, &all);
  if (offers) (void)amemWithdrawDescriptor(&mine.multicast);
  AMEM_TRY(std::move(added));
  return agree(group, bind_multicast(handle), {}, &all);
}

Status SymmetricMemory::offer_multicast(SymmetricHandle& handle, size_t size_bytes, Outcome* mine) {
  const int descriptor =
      AMEM_TRY(handle.multicast.create(driver_, handle.world_size(), size_bytes));
  return amem_status(amemOfferDescriptor(&mine->multicast, descriptor));
}

Status SymmetricMemory::add_device(SymmetricHandle& handle, const Outcome& of_rank_0,
                                   size_t size_bytes) {
  if (handle.rank() != 0) {
    int descriptor = -1;
    const Status taken = amem_status(amemTakeDescriptor(&descriptor, &of_rank_0.multicast));
    if (!taken.ok())
      return make_error(taken.error().kind, 0,
                        "cannot import the multicast object of rank 0 (process %d): %s",
                        handle.pids.front(), taken.error().message.c_str());
    Status imported = handle.multicast.import(driver_, descriptor, size_bytes);
    close(descriptor);
    AMEM_TRY(std::move(imported));
  }
  return handle.multicast.add_device(driver_, handle.device);
}

Status SymmetricMemory::bind_multicast(SymmetricHandle& handle) {
  AMEM_TRY(kernels_.for_current_context(true));
  AMEM_TRY(amem_status(
      amemMakePersistent(reinterpret_cast<void*>(handle.buffer), "bound to multicast (NVLS)")));
  return handle.multicast.bind_and_map(driver_, handle.buffer);
}

}  // namespace amem::symmetric
