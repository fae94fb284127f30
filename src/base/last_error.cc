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

/// What the calling thread reads.
struct OwnError {
  const LastError* process =
      nullptr;          ///< of which `text` and `shortage` are; not of a forked child
  bool is_own = false;  ///< the thread's last call has failed
  std::string text, shortage;
};

AMEM_NOT_ANALYSED const OwnError& read_last_error() {
  const NoCancellation no_cancellation;
  OwnError& own = thread_value<OwnError>();
  LastError& last = last_error();
  if (own.is_own && own.process == &last) return own;
  MutexLock lock(last.mutex);
  own = {&last, false, last.text, last.shortage};
  return own;
}

}  // namespace

void keep_last_error(const char* call, const Error& error) {
  AMEM_LOG(warn, -1, "%s failed: %s", call, error.message.c_str());
  set_last_error(call, error);
}

void set_last_error(const char* call, const Error& error) {
  LastError& last = last_error();
  OwnError& own = thread_value<OwnError>();
  own = {&last, true, std::string(call) + " failed: " + error.message,
         error.shortage.empty() ? "{}" : error.shortage};
  MutexLock lock(last.mutex);
  last.text = own.text;
  last.shortage = own.shortage;
}

void note_success() { thread_value<OwnError>().is_own = false; }

const char* last_error_text() { return read_last_error().text.c_str(); }

const char* last_shortage() { return read_last_error().shortage.c_str(); }

}  // namespace amem
