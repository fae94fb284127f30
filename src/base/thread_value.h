// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <memory>

namespace amem {

/// The calling thread's object of type T, constructed at the first call. Use a separate type for
/// each purpose.
///
/// A thread_local object with a destructor cannot be used in exit handlers, because exit(3)
/// destroys the thread_local objects of its caller before it runs the first handler. This object is
/// destroyed after the thread's thread_local objects. It is never destroyed in the thread that
/// calls exit(3), or if the process has no free key (pthread_key_create(3)).
template <typename T>
T& thread_value() {
  static constinit thread_local T* value = nullptr;
  if (value != nullptr) return *value;
  struct Key {
    pthread_key_t key{};
    bool made = pthread_key_create(&key, [](void* ended) {
                  // The destructor may call thread_value() again; it then gets a new object.
                  value = nullptr;
                  const std::unique_ptr<T> gone(static_cast<T*>(ended));
                }) == 0;
  };
  static const Key key;
  value = std::make_unique<T>().release();
  if (key.made) pthread_setspecific(key.key, value);
  return *value;
}

}  // namespace amem
