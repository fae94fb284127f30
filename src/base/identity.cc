// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/identity.h"

#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "base/system_call.h"

namespace amem {

InstanceId random_instance_id() {
  InstanceId id;
  const ssize_t got =
      retry_interrupted([&] { return getrandom(id.bits.data(), sizeof id.bits, 0); });
  if (got == sizeof id.bits) return id;
  // A seccomp filter refuses it, or a test does. Unique on the host, but not secret.
  static std::atomic<uint64_t> count{0};
  id.bits = {static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()),
             (static_cast<uint64_t>(getpid()) << 32) + ++count};
  return id;
}

}  // namespace amem
