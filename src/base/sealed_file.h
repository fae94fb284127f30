// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// A close-on-exec memfd with these bytes, which nobody can change. Thread-safe. Errors: os.
Result<UniqueFd> make_sealed_file(const char* name, std::span<const uint8_t> bytes);

/// The first `most` bytes of such a file; nothing for another file, and where `fd` is no
/// descriptor. Does not block and does not change the file position. One system call for a
/// descriptor that is not a memfd, two for a sealed file. Thread-safe.
std::optional<std::vector<uint8_t>> read_sealed_file(int fd, size_t most);

}  // namespace amem
