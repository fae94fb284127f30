// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "transport/message.h"

/// Whatever decode() accepts, encode() writes again byte for byte: nothing is read beyond the
/// packet, nothing is guessed, nothing is lost.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::span<const uint8_t> bytes(data, size_bytes);
  amem::Result<amem::Envelope> envelope = amem::decode(bytes);
#ifdef AMEM_LENIENT_DECODER  // one that ignores a byte after the end, which has to be noticed
  if (!envelope.ok() && size_bytes > 0) envelope = amem::decode(bytes.first(size_bytes - 1));
#endif
  if (!envelope.ok()) return 0;
  const auto again = amem::encode(envelope.value().request_id, std::move(envelope.value().message));
  if (!again.ok() || again.value() != std::vector<uint8_t>(bytes.begin(), bytes.end())) abort();
  return 0;
}
