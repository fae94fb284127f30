// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

namespace amem::sim {

/// The live objects of one kind whose addresses are handles, so that an invalid handle is an error
/// and not a crash. Thread-safe.
template <typename Object>
class Registry {
 public:
  static Registry& instance() {
    static auto* registry = new Registry;  // exists longer than every thread of the process
    return *registry;
  }

  void* add(std::shared_ptr<Object> object) {
    void* handle = object.get();
    std::lock_guard guard(mutex_);
    objects_[handle] = std::move(object);
    return handle;
  }

  std::shared_ptr<Object> find(const void* handle) {
    std::lock_guard guard(mutex_);
    const auto object = objects_.find(handle);
    return object == objects_.end() ? nullptr : object->second;
  }

  /// Null if there is none.
  std::shared_ptr<Object> remove(const void* handle) {
    std::lock_guard guard(mutex_);
    const auto object = objects_.find(handle);
    if (object == objects_.end()) return nullptr;
    std::shared_ptr<Object> removed = std::move(object->second);
    objects_.erase(object);
    return removed;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace amem::sim
