// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/test_seam.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "contents/copier.h"
#include "memory/registry.h"

namespace amem {
namespace {

constexpr size_t kHeadBytes = 4096;

constexpr std::string_view kPoints[] = {
#define AMEM_STEP_POINT(name, role, moment) #name,
#include "tests/faults/step_points.def"
#undef AMEM_STEP_POINT
};

/// Restores exported buffers without their first bytes.
void zero_headers(const Backing& backing, const AllocationMap& allocations) {
  if (backing.saved == nullptr || backing.saved_file.file != nullptr) return;
  for (const CopyRange& range : copy_ranges(backing.saved_pieces, *backing.saved))
    for (const auto& [offset_bytes, id] : backing.allocations) {
      const Allocation& allocation = allocations.at(id);
      const bool within = offset_bytes >= range.offset_bytes &&
                          offset_bytes < range.offset_bytes + range.on_host.size_bytes;
      if (within && allocation.is_buffer && allocation.nonce != 0)
        memset(range.on_host.base + (offset_bytes - range.offset_bytes), 0, kHeadBytes);
    }
}

/// Exchanges the contents of two addresses.
void exchange_ends(const Transfer& transfer) {
  if (transfer.on_host == nullptr || transfer.in_file.file != nullptr ||
      total_bytes(transfer.pieces) < 2 * kHeadBytes)
    return;
  unsigned char* const last = transfer.on_host->back().end() - kHeadBytes;
  std::swap_ranges(last, last + kHeadBytes, transfer.on_host->front().base);
}

}  // namespace

bool seeded_fault(const char* name) {
  const char* const wanted = getenv("AMEM_TEST_SEEDED_FAULT");
  return wanted != nullptr && strcmp(wanted, name) == 0;
}

/// Writes the name to the file AMEM_TEST_STEP_FILE, for the report of a test that hangs. With
/// AMEM_TEST_STEP_POINT=name=signal, the process receives that signal once; with name=signal:n,
/// when a thread reaches the point for the n-th time.
void step_point(const char* point) {
  if (std::find(std::begin(kPoints), std::end(kPoints), point) == std::end(kPoints)) {
    fprintf(stderr, "tests/faults/step_points.def has no row for %s\n", point);
    abort();
  }
  if (const char* const path = getenv("AMEM_TEST_STEP_FILE")) {
    const int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    [[maybe_unused]] const ssize_t written = write(file, point, strlen(point));
    close(file);
  }
  const char* const wanted = getenv("AMEM_TEST_STEP_POINT");
  if (wanted == nullptr) return;
  const size_t length = strlen(point);
  if (strncmp(wanted, point, length) != 0 || wanted[length] != '=') return;
  int signal = 0, times = 1;
  sscanf(wanted + length + 1, "%d:%d", &signal, &times);
  if (times > 1) {
    char later[128];
    snprintf(later, sizeof later, "%s=%d:%d", point, signal, times - 1);
    setenv("AMEM_TEST_STEP_POINT", later, 1);
    return;
  }
  unsetenv("AMEM_TEST_STEP_POINT");
  raise(signal);
}

void seeded_damage(const Backing& backing, const AllocationMap& allocations,
                   const Transfer& transfer) {
  if (seeded_fault("skip_headers")) zero_headers(backing, allocations);
  if (seeded_fault("other_address")) exchange_ends(transfer);
}

}  // namespace amem
