// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/last_error.h"

#include <atomic>
#include <memory>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_value.h"

namespace amem {
namespace {

struct LastError {
  Mutex mutex;
  std::string text AMEM_GUARDED_BY(mutex);
};

std::atomic<LastError*> g_last_error{nullptr};

LastError& last_error() {
  static LastError* const first = new LastError;
  LastError* const later = g_last_error.load(std::memory_order_acquire);
  return later != nullptr ? *later : *first;
}

}  // namespace

void keep_last_error(const char* call, const Error& error) {
  AMEM_LOG(warn, -1, "%s failed: %s", call, error.message.c_str());
  set_last_error(call, error);
}

void set_last_error(const char* call, const Error& error) {
  LastError& last = last_error();
  MutexLock lock(last.mutex);
  last.text = std::string(call) + " failed: " + error.message;
}

const char* last_error_text() {
  const NoCancellation no_cancellation;
  struct Copy {
    std::string text;
  };
  std::string& copy = thread_value<Copy>().text;
  LastError& last = last_error();
  MutexLock lock(last.mutex);
  copy = last.text;
  return copy.c_str();
}

void unlock_last_error_after_fork() {
  g_last_error.store(std::make_unique<LastError>().release(), std::memory_order_release);
}

}  // namespace amem
