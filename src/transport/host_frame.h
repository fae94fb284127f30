// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/identity.h"

namespace amem {

// What travels between hosts, without its codes. docs/wire_protocol.md has the layout (Hosts).

inline constexpr size_t kMaxHostBytes = 64;
inline constexpr size_t kMaxFileBytes = 256;

/// The first that each side sends.
struct HostGreeting {
  uint8_t version = 0;       ///< wire_version()
  uint16_t port = 0;         ///< where the sender listens
  uint32_t pid = 0;          ///< for texts
  InstanceId nonce[2] = {};  ///< random
  std::string host = {};     ///< its name, cut to kMaxHostBytes
};

/// A packet, and the contents of the sealed files that it carries in place of descriptors.
struct HostFrame {
  std::vector<std::string> files;  ///< at most kMaxFds, of kMaxFileBytes
  std::vector<uint8_t> packet;
};

/// The bytes of these, and the reverse; nothing for other bytes than these functions return, and
/// for a frame that exceeds a limit. The greeting of another version is read up to its version.
std::vector<uint8_t> encode_greeting(HostGreeting greeting);
std::optional<HostGreeting> decode_greeting(std::span<const uint8_t> bytes);
std::optional<std::vector<uint8_t>> encode_frame(HostFrame frame);
std::optional<HostFrame> decode_frame(std::span<const uint8_t> bytes);

/// The size of the greeting or frame that begins with these bytes: as many as say it, while they
/// are fewer. Nothing if it exceeds the limit.
std::optional<size_t> size_of_frame(std::span<const uint8_t> begin, bool is_greeting);

}  // namespace amem
