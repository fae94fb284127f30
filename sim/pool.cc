// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "sim/descriptor.h"
#include "sim/ofd_lock.h"

namespace amem::sim {
namespace {

// Offsets are handed out from a file much larger than the capacity, because a real GPU pages its
// memory: an allocation must not fail because free memory lies in pieces.
constexpr uint64_t kSpanPerCapacity = 64;

// The file position of an allocation's description is shared by all its descriptors and is not
// used for reading: it carries the offset, and in the bits below the granularity the flags that an
// importer may ask for.
constexpr uint64_t kRdmaFlag = 1;

}  // namespace

bool Pool::open(const std::string& path, uint64_t capacity_bytes, PoolState* state, int state_fd,
                uint64_t lock_byte) {
  path_ = path;
  capacity_bytes_ = capacity_bytes;
  span_bytes_ = capacity_bytes * kSpanPerCapacity;
  state_ = state;
  state_fd_ = state_fd;
  lock_byte_ = lock_byte;
  query_fd_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  struct stat info;
  if (!query_fd_.valid() || fstat(query_fd_.get(), &info) != 0) return false;
  file_device_ = info.st_dev;
  file_inode_ = info.st_ino;
  return static_cast<uint64_t>(info.st_size) >= span_bytes_ ||
         ftruncate(query_fd_.get(), static_cast<off_t>(span_bytes_)) == 0;
}

unsigned char* Pool::all() {
  std::lock_guard guard(mutex_);
  if (all_ != nullptr) return all_;
  void* const at = mmap(nullptr, span_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        query_fd_.get(), 0);
  if (at != MAP_FAILED) all_ = static_cast<unsigned char*>(at);
  return all_;
}

bool Pool::is_free(uint64_t offset_bytes, uint64_t size_bytes) const {
  return !find_lock(query_fd_.get(), {offset_bytes, size_bytes}).has_value();
}

bool Pool::unused() const { return !find_lock(query_fd_.get(), {0, 0}).has_value(); }

bool Pool::clear() {
  state_->used_bound_bytes = 0;
  state_->next_offset = 0;
  return ftruncate(query_fd_.get(), 0) == 0 &&
         ftruncate(query_fd_.get(), static_cast<off_t>(span_bytes_)) == 0;
}

UniqueFd Pool::new_description() const {
  const UniqueFd opened(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
  return opened.valid() ? keep_copy(opened.get()) : UniqueFd();
}

CuResult Pool::allocate(uint64_t size_bytes, bool gpu_direct_rdma_capable, UniqueFd* description,
                        uint64_t* offset_bytes) {
  std::lock_guard guard(mutex_);
  LockedByte serialised(state_fd_, lock_byte_);
  if (!make_room(size_bytes)) return kErrorOutOfMemory;
  UniqueFd fd = new_description();
  if (!fd.valid()) return kErrorOperatingSystem;
  const uint64_t from = state_->next_offset;
  if (!lock_free_range(fd.get(), from, size_bytes, offset_bytes) &&
      !lock_free_range(fd.get(), 0, size_bytes, offset_bytes)) {
    return kErrorOutOfMemory;
  }
  // The driver scrubs what it hands out; so does a hole in a file.
  const auto offset = static_cast<off_t>(*offset_bytes);
  if (fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                static_cast<off_t>(size_bytes)) != 0) {
    return kErrorOperatingSystem;
  }
  const uint64_t position = *offset_bytes | (gpu_direct_rdma_capable ? kRdmaFlag : 0);
  if (lseek(fd.get(), static_cast<off_t>(position), SEEK_SET) < 0) return kErrorOperatingSystem;
  state_->next_offset = *offset_bytes + size_bytes;
  state_->used_bound_bytes += size_bytes;
  *description = std::move(fd);
  return kSuccess;
}

// The bound grows with every allocation and nothing lowers it when memory is freed, since nobody
// knows who holds the last reference. When it reaches the capacity, count.
bool Pool::make_room(uint64_t size_bytes) {
  if (size_bytes > capacity_bytes_) return false;
  if (state_->used_bound_bytes + size_bytes <= capacity_bytes_) return true;
  state_->used_bound_bytes = walk(/*punch_gaps=*/true);
  return state_->used_bound_bytes + size_bytes <= capacity_bytes_;
}

bool Pool::lock_free_range(int fd, uint64_t from, uint64_t size_bytes,
                           uint64_t* offset_bytes) const {
  uint64_t offset = from;
  while (offset + size_bytes <= span_bytes_) {
    const auto taken = find_lock(query_fd_.get(), {offset, size_bytes});
    if (taken) {
      offset = taken->start + taken->length;
    } else if (try_lock(fd, {offset, size_bytes})) {
      *offset_bytes = offset;
      return true;
    } else if (errno != EAGAIN && errno != EACCES) {
      return false;
    }
  }
  return false;
}

std::optional<PhysicalRange> Pool::describe(int fd) const {
  struct stat info;
  if (fstat(fd, &info) != 0 || info.st_dev != file_device_ || info.st_ino != file_inode_) {
    return std::nullopt;
  }
  const off_t position = lseek(fd, 0, SEEK_CUR);
  if (position < 0) return std::nullopt;
  PhysicalRange range;
  range.offset_bytes = static_cast<uint64_t>(position) & ~(kGranularityBytes - 1);
  range.gpu_direct_rdma_capable = (static_cast<uint64_t>(position) & kRdmaFlag) != 0;
  const auto held = find_lock(query_fd_.get(), {range.offset_bytes, 1});
  if (!held || held->start != range.offset_bytes) return std::nullopt;
  range.size_bytes = held->length;
  return range;
}

// SEEK_DATA fails with ENXIO where no data follows. What a file system cannot tell counts as
// written.
Pool::Extent Pool::extent_at(uint64_t offset_bytes) const {
  const auto offset = static_cast<off_t>(offset_bytes);
  const off_t data = lseek(query_fd_.get(), offset, SEEK_DATA);
  if (data < 0) return {errno != ENXIO, span_bytes_};
  if (data > offset) return {false, static_cast<uint64_t>(data)};
  const off_t hole = lseek(query_fd_.get(), offset, SEEK_HOLE);
  return {true, hole > offset ? static_cast<uint64_t>(hole) : span_bytes_};
}

// Memory that moves while it is counted would be counted twice, so nothing is allocated meanwhile.
uint64_t Pool::used_bytes() {
  std::lock_guard guard(mutex_);
  LockedByte serialised(state_fd_, lock_byte_);
  return walk(/*punch_gaps=*/false);
}

// The kernel answers with any one lock of a range, so each answer splits the rest in two.
uint64_t Pool::walk(bool punch_gaps) const {
  uint64_t used = 0;
  std::vector<FileRange> unseen{{0, span_bytes_}};
  while (!unseen.empty()) {
    const FileRange range = unseen.back();
    unseen.pop_back();
    const auto held = find_lock(query_fd_.get(), range);
    if (!held) {
      // Freed pages would otherwise stay in the host's memory. REQUIRES: allocation is locked.
      if (punch_gaps) {
        (void)fallocate(query_fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(range.start), static_cast<off_t>(range.length));
      }
      continue;
    }
    used += held->length;
    const uint64_t range_end = range.start + range.length;
    const uint64_t held_end = held->start + held->length;
    if (held->start > range.start) unseen.push_back({range.start, held->start - range.start});
    if (held_end < range_end) unseen.push_back({held_end, range_end - held_end});
  }
  return used;
}

}  // namespace amem::sim
