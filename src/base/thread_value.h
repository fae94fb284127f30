// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <pthread.h>

#include <memory>

namespace amem {

/// The calling thread's own T, made when it is first asked for. One for each type: name a type for
/// the purpose.
///
/// A thread_local object with a destructor will not do for what exit handlers may use: exit(3)
/// destroys those of the thread that calls it before the first handler runs. What is here ends with
/// its thread, after the thread's thread_local objects; that of the thread that calls exit(3) never
/// does, nor any if the process has no key left (pthread_key_create(3)).
template <typename T>
T& thread_value() {
  static constinit thread_local T* value = nullptr;
  if (value != nullptr) return *value;
  struct Key {
    pthread_key_t key{};
    bool made = pthread_key_create(&key, [](void* ended) {
                  // What the destructor calls may ask again, and gets a new one.
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
