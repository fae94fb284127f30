// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/last_error.h"

#include <pthread.h>

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
  std::string shortage AMEM_GUARDED_BY(mutex) = "{}";
};

std::atomic<LastError*> g_last_error{nullptr};

void make_last_error() {
  g_last_error.store(std::make_unique<LastError>().release(), std::memory_order_release);
}

/// A forked child has an object of its own: no thread there can release the lock that another
/// thread of the parent may hold.
LastError& last_error() {
  [[maybe_unused]] static const int registered = [] {
    make_last_error();
    return pthread_atfork(nullptr, nullptr, make_last_error);
  }();
  return *g_last_error.load(std::memory_order_acquire);
}

/// A copy for the calling thread.
template <std::string LastError::*kMember>
AMEM_NOT_ANALYSED const char* copy_of() {
  const NoCancellation no_cancellation;
  struct Copy {
    std::string text;
  };
  std::string& copy = thread_value<Copy>().text;
  LastError& last = last_error();
  MutexLock lock(last.mutex);
  copy = last.*kMember;
  return copy.c_str();
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
  last.shortage = error.shortage.empty() ? "{}" : error.shortage;
}

const char* last_error_text() { return copy_of<&LastError::text>(); }

const char* last_shortage() { return copy_of<&LastError::shortage>(); }

}  // namespace amem
