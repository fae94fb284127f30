// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "peers/instances.h"
#include "peers/socket_address.h"

/// take_names() reads nothing beyond the answer, and finds no name that is not in it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), size_bytes);
  amem::NameOwners found;
  static_cast<void>(amem::take_names({data, size_bytes}, 0, &found));
  for (const auto& [instance, owner] : found)
    if (text.find(amem::socket_name(instance, 0)) == text.npos) abort();
  return 0;
}
