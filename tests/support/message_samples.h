// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "transport/message.h"

namespace amem {

/// One message of each type with the bytes that this version of the wire gives it.
struct MessageSample {
  uint64_t request_id;
  Message message;
  /// Hexadecimal; blanks are for the reader.
  std::string_view golden;
};

inline std::vector<MessageSample> message_samples() {
  const InstanceId instance{{0x0011223344556677, 0x8899aabbccddeeff}};
  const ScopeId first{{1, 2}}, second{{0xa0, 0xb0}};
  using Outcome = Fetched::Outcome;
  return {
      {0, Hello{instance}, "0e 01 0000 0000000000000000 7766554433221100 ffeeddccbbaa9988"},
      {7, Fetch{{{0x1234, 0x5678, false}, {9, 10, true}}},
       "0e 02 0000 0700000000000000 0200 3412000000000000 7856000000000000 00 "
       "0900000000000000 0a00000000000000 01"},
      {7,
       Fetched{{Outcome::here, Outcome::paused, Outcome::unknown, Outcome::failed, Outcome::noted},
               {first},
               "no"},
       "0e 03 0000 0700000000000000 0500 00 01 02 03 04 0100 0100000000000000 0200000000000000 "
       "0200 6e6f"},
      {0x0102030405060708, Revoke{60000, {"nccl", "a"}, {first, second}, {3}},
       "0e 04 0000 0807060504030201 60ea0000 0200 0400 6e63636c 0100 61 0200 0100000000000000 "
       "0200000000000000 "
       "a000000000000000 b000000000000000 0100 0300000000000000"},
      {8, Revoked{false, "busy", {first}},
       "0e 05 0000 0800000000000000 00 0400 62757379 "
       "0100 0100000000000000 0200000000000000"},
      {9, Restore{"nccl"}, "0e 06 0000 0900000000000000 0400 6e63636c"},
      {9, Restored{true, ""}, "0e 07 0000 0900000000000000 01 0000"},
      {0, Drop{{5}}, "0e 08 0000 0000000000000000 0100 0500000000000000"},
      {10, StatusQuery{true}, "0e 09 0000 0a00000000000000 01"},
      {10, StatusReply{"{\n}"}, "0e 0a 0000 0a00000000000000 0300 7b0a7d"},
      {12, TokenQuery{3, 4}, "0e 0b 0000 0c00000000000000 0300000000000000 0400000000000000"},
      {12, TokenReply{true}, "0e 0c 0000 0c00000000000000 01"},
      {0, ResumeRequest{"nccl"}, "0e 0d 0000 0000000000000000 0400 6e63636c"},
      {13, HostMemoryQuery{0x40000000, -1},
       "0e 0e 0000 0d00000000000000 0000004000000000 ffffffff"},
      {13, HostMemoryOffer{2}, "0e 0f 0000 0d00000000000000 0200"},
      {14, Control{Control::Action::hold, 6, 7, 5000, {"nccl"}},
       "0e 10 0000 0e00000000000000 01 0600000000000000 0700000000000000 88130000 "
       "0100 0400 6e63636c"},
      {14, ControlReply{true, false, ControlReply::State::held, 6, 7, "job", "ok"},
       "0e 11 0000 0e00000000000000 01 00 01 0600000000000000 0700000000000000 "
       "0300 6a6f62 0200 6f6b"},
  };
}

inline std::vector<uint8_t> from_hex(std::string_view hex) {
  std::vector<uint8_t> bytes;
  std::string digits;
  for (char c : hex)
    if (c != ' ') digits += c;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace amem
