// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "transport/host_frame.h"
#include "transport/message.h"

namespace {

using Bytes = std::vector<uint8_t>;

/// A reader that ignores a byte after the end, which has to be noticed.
template <typename Decode>
auto read(Decode decode, std::span<const uint8_t> bytes) {
  auto read = decode(bytes);
#ifdef AMEM_LENIENT_DECODER
  if (!read && !bytes.empty()) read = decode(bytes.first(bytes.size() - 1));
#endif
  return read;
}

}  // namespace

/// Whatever is read as a greeting or as a frame of another host is written again byte for byte, and
/// its size was known from its beginning.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const Bytes bytes(data, data + size_bytes);
  const auto greeting = read(amem::decode_greeting, bytes);
  // Of another version no more is read.
  if (greeting && greeting->version == amem::wire_version() &&
      amem::encode_greeting(*greeting) != bytes)
    abort();
  const auto frame = read(amem::decode_frame, bytes);
  if (frame && amem::encode_frame(*frame) != bytes) abort();
  return 0;
}
