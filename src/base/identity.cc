// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/identity.h"

#include <sys/random.h>

namespace amem {

InstanceId random_instance_id() {
  InstanceId id;
  size_t done = 0;
  while (done < sizeof id.bits) {
    const ssize_t got =
        getrandom(reinterpret_cast<char*>(id.bits.data()) + done, sizeof id.bits - done, 0);
    if (got > 0) done += static_cast<size_t>(got);
  }
  return id;
}

}  // namespace amem
