// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Memory with a tag in C++: allocations and regions that end with their scope, and exceptions. All
// functions are those of amem.h, which has their meaning. Link -lamem_nccl.
//
//   amem::memory::Allocation cache(bytes, "kv_cache", amem::memory::Backup::none);
//   {
//     amem::memory::Region region("weights");
//     load(model);  // its cudaMalloc() allocates memory with the tag
//   }
//   amem::memory::pause("weights,kv_cache");
#ifndef AMEM_MEMORY_HPP_
#define AMEM_MEMORY_HPP_

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "amem.h"

namespace amem::memory {

/// A call of amem failed. what() has the reason; code() is an amemError_t.
class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

inline void check(int result) {
  if (result != 0) throw Error(result, amemGetLastError());
}

/// What a pause does with contents.
enum class Backup {
  host = amemKindKeep,     ///< keeps them in pinned host memory
  disk = amemKindDisk,     ///< keeps them in a file (amemSetBackupDirectory)
  none = amemKindDiscard,  ///< they are undefined afterwards
  zero = amemKindZero,     ///< all bytes are zero afterwards
  retain = amemKindRetain  ///< as `host`, and later pauses copy only what has changed
};

/// Memory of amemMalloc(). The address stays the same while the memory is released.
class Allocation {
 public:
  /// On the device of the current CUDA context.
  Allocation(size_t size_bytes, const std::string& tag, Backup backup = Backup::host)
      : size_bytes_(size_bytes), tag_(tag), backup_(backup) {
    check(amemMalloc(&pointer_, size_bytes, tag.c_str(), static_cast<amemKind_t>(backup)));
  }
  /// Waits for the work of the device. The memory may be paused.
  ~Allocation() { (void)amemFree(pointer_); }
  Allocation(Allocation&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)),
        tag_(std::move(other.tag_)),
        backup_(other.backup_) {}
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(pointer_, other.pointer_);
    std::swap(size_bytes_, other.size_bytes_);
    tag_.swap(other.tag_);
    std::swap(backup_, other.backup_);
    return *this;
  }

  void* data() const { return pointer_; }
  size_t size_bytes() const { return size_bytes_; }
  const std::string& tag() const { return tag_; }
  Backup backup() const { return backup_; }

  /// Copies saved contents, from `offset_bytes` on, to host memory. Throws Error if the memory is
  /// not paused or its contents are not kept.
  void read_backup(void* to, size_t offset_bytes, size_t size_bytes) const {
    check(amemReadBackup(to, static_cast<const char*>(pointer_) + offset_bytes, size_bytes));
  }

 private:
  void* pointer_ = nullptr;
  size_t size_bytes_;
  std::string tag_;
  Backup backup_;
};

/// Until the end of its scope, cudaMalloc() of this thread allocates memory with the tag. Regions
/// nest.
class Region {
 public:
  explicit Region(const std::string& tag, Backup backup = Backup::host) {
    check(amemBeginRegion(tag.c_str(), static_cast<amemKind_t>(backup)));
  }
  /// A part of a region in which memory is not paused.
  static Region disabled() { return Region(); }
  ~Region() { (void)amemEndRegion(); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  Region() { check(amemBeginRegion(nullptr, amemKindKeep)); }
};

/// Releases the memory with one tag, or with several tags separated by commas. Waits at most
/// `timeout_ms`; 0: AMEM_TIMEOUT_MS.
inline void pause(const std::string& tags, uint64_t timeout_ms = 0) {
  check(amemPauseWithTimeout(tags.c_str(), timeout_ms));
}

/// Restores the memory with these tags. After an Error they stay paused; the call can be repeated.
inline void resume(const std::string& tags, uint64_t timeout_ms = 0) {
  check(amemResumeWithTimeout(tags.c_str(), timeout_ms));
}

/// Restores them, and waits up to `wait_ms` for GPU memory that others release.
inline void resume_wait(const std::string& tags, uint64_t wait_ms, uint64_t timeout_ms = 0) {
  check(amemResumeWait(tags.c_str(), wait_ms, timeout_ms));
}

/// Pauses and resumes other tags at the same time. See amemSwitch().
inline void switch_tags(const std::string& paused, const std::string& resumed, uint64_t wait_ms,
                        uint64_t timeout_ms = 0) {
  check(amemSwitch(paused.c_str(), resumed.c_str(), wait_ms, timeout_ms));
}

/// The same for all tags.
inline void pause() { check(amemPause(nullptr)); }
inline void resume() { check(amemResume(nullptr)); }

inline amemState_t state(const std::string& tag) { return amemGetTagState(tag.c_str()); }

}  // namespace amem::memory

#endif  // AMEM_MEMORY_HPP_
