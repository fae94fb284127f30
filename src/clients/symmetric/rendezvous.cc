// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// How the ranks of a group learn of each other's memory and map it. Two exchanges: what each rank
// has, and whether each rank has mapped it. All ranks succeed, or all fail with the same reason.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "clients/symmetric/symmetric_memory.h"

namespace amem {

namespace layout = symmetric::detail;

namespace {

/// Changes with the layout of the workspace and of the structures below.
constexpr uint32_t kVersion = 0xA3E3'0001;

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
  InstanceId process;
  IpcHandleBytes buffer, workspace;
  char failure[kTextBytes];  ///< empty: none
  unsigned char reserved[512 - 376];
};

/// Of each rank, in the second one.
struct SymmetricMemory::Outcome {
  char failure[kTextBytes];
};

namespace {

Error failure_of_rank(size_t rank, const std::string& text) {
  return make_error(ErrorKind::peer, 0, "rank %zu: %s", rank, text.c_str());
}

/// An error if the announcements do not fit together.
template <typename Announcement>
Status check(const std::vector<Announcement>& all) {
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].version != kVersion)
      return failure_of_rank(rank, "it has another version of amem (protocol " +
                                       std::to_string(all[rank].version & 0xffff) + ", not " +
                                       std::to_string(kVersion & 0xffff) + ")");
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (const std::string failure = text_of(all[rank].failure); !failure.empty())
      return failure_of_rank(rank, failure);
  const Announcement& first = all.front();
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Announcement& its = all[rank];
    if (its.rank != rank || its.world_size != all.size())
      return failure_of_rank(rank, "it says that it is rank " + std::to_string(its.rank) + " of " +
                                       std::to_string(its.world_size) + ", in a group of " +
                                       std::to_string(all.size()));
    if (its.buffer_bytes != first.buffer_bytes)
      return failure_of_rank(rank, "its buffer has " + std::to_string(its.buffer_bytes) +
                                       " bytes, that of rank 0 " +
                                       std::to_string(first.buffer_bytes));
    if (its.signal_pad_bytes != first.signal_pad_bytes)
      return failure_of_rank(rank, "its signal pads have " + std::to_string(its.signal_pad_bytes) +
                                       " bytes, those of rank 0 " +
                                       std::to_string(first.signal_pad_bytes));
  }
  return ok_status();
}

template <typename T>
Result<std::vector<T>> exchange(const amemGroup_t& group, const T& mine) {
  std::vector<T> all(static_cast<size_t>(group.world_size));
  const int failed = group.all_gather(group.context, &mine, sizeof mine, all.data());
  if (failed == 0) return all;
  return make_error(ErrorKind::peer, 0, "the group's all_gather function failed with %d", failed);
}

}  // namespace

Status SymmetricMemory::announce(const SymmetricHandle& handle, Announcement* mine) {
  mine->buffer_bytes = handle.view.buffer_bytes;
  const auto export_to = [&](DeviceAddress address, IpcHandleBytes* bytes) -> Status {
    const auto exported = memory_.export_handle(address);
    if (!exported.ok()) return Error(exported.error());
    if (!exported.value().has_value())
      return make_error(ErrorKind::misuse, 0, "the buffer has been freed");
    *bytes = *exported.value();
    return ok_status();
  };
  AMEM_TRY(export_to(handle.buffer, &mine->buffer));
  return export_to(handle.workspace, &mine->workspace);
}

Result<DeviceAddress> SymmetricMemory::open(SymmetricHandle& handle, const IpcHandleBytes& bytes,
                                            uint32_t rank) {
  const auto opened = memory_.open(bytes, handle.device);
  if (!opened.has_value())
    return make_error(ErrorKind::protocol, 0, "the handle of rank %u is not one of amem", rank);
  if (!opened->ok())
    return make_error(opened->error().kind, opened->error().code,
                      "cannot map the memory of rank %u (process %d): %s", rank,
                      handle.peers[rank].pid, opened->error().message.c_str());
  handle.opened.push_back(opened->value());
  return opened->value();
}

Status SymmetricMemory::open_all(SymmetricHandle& handle, const std::vector<Announcement>& all) {
  for (const Announcement& its : all) handle.peers.push_back({its.process, its.pid});
  for (uint32_t rank = 0; rank < handle.world_size(); ++rank) {
    DeviceAddress buffer = handle.buffer, workspace = handle.workspace;
    if (rank != handle.rank()) {
      const Result<DeviceAddress> its_buffer = open(handle, all[rank].buffer, rank);
      if (!its_buffer.ok()) return Error(its_buffer.error());
      const Result<DeviceAddress> its_workspace = open(handle, all[rank].workspace, rank);
      if (!its_workspace.ok()) return Error(its_workspace.error());
      buffer = its_buffer.value();
      workspace = its_workspace.value();
    }
    handle.view.buffers[rank] = reinterpret_cast<unsigned char*>(buffer);
    handle.view.workspaces[rank] = reinterpret_cast<unsigned char*>(workspace);
    handle.buffers.push_back(handle.view.buffers[rank]);
    handle.signal_pads.push_back(layout::signal_pad_of(handle.view, rank));
  }
  return write_pointers(handle);
}

Status SymmetricMemory::write_pointers(const SymmetricHandle& handle) {
  const auto write = [&](size_t offset_bytes, const auto& pointers) {
    return devices_.write(
        handle.device, handle.workspace + offset_bytes,
        {reinterpret_cast<const char*>(pointers.data()), pointers.size() * sizeof(pointers[0])},
        Deadline::after_ms(timeout_ms_));
  };
  AMEM_TRY(write(offsetof(layout::Workspace, buffers), handle.buffers));
  return write(offsetof(layout::Workspace, signal_pads), handle.signal_pads);
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
  mine.process = self_;
  if (prepared.ok()) prepared = announce(handle, &mine);
  if (!prepared.ok()) set_text(mine.failure, prepared.error().message);
  const Result<std::vector<Announcement>> all = exchange(group, mine);
  if (!prepared.ok()) return prepared;
  if (!all.ok()) return Error(all.error());
  AMEM_TRY(check(all.value()));

  Status opened = open_all(handle, all.value());
  Outcome outcome{};
  if (!opened.ok()) set_text(outcome.failure, opened.error().message);
  const Result<std::vector<Outcome>> outcomes = exchange(group, outcome);
  AMEM_TRY(std::move(opened));
  if (!outcomes.ok()) return Error(outcomes.error());
  for (size_t rank = 0; rank < outcomes.value().size(); ++rank)
    if (const std::string failure = text_of(outcomes.value()[rank].failure); !failure.empty())
      return failure_of_rank(rank, failure);
  return ok_status();
}

}  // namespace amem
