// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "sharing/token.h"

/// Whatever decode_token() takes for a token, encode_token() writes again byte for byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::span<const uint8_t> bytes(data, size_bytes);
  std::optional<amem::Token> token = amem::decode_token(bytes);
#ifdef AMEM_LENIENT_DECODER  // one that ignores a byte after the end, which has to be noticed
  if (!token && size_bytes > 0) token = amem::decode_token(bytes.first(size_bytes - 1));
#endif
  if (!token) return 0;
  if (amem::encode_token(*token) != std::vector<uint8_t>(bytes.begin(), bytes.end())) abort();
  return 0;
}
