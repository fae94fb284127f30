// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/host_frame.h"

#include "transport/field_stream.h"
#include "transport/message.h"

namespace amem {
namespace {

constexpr uint64_t kMagic = 0x74736f686d656d61;  // the bytes "amemhost"
constexpr size_t kMostOfGreeting = 4 + 8 + 1 + 2 + 4 + 32 + 2 + kMaxHostBytes;
constexpr size_t kMostOfFrame = 4 + 2 + kMaxFds * (2 + kMaxFileBytes) + kMaxMessageBytes;

/// The whole, of which the first field is the size. False if it is no greeting.
bool walk(FieldStream& stream, uint32_t size_bytes, HostGreeting& greeting) {
  uint64_t magic = kMagic;
  stream.fields(size_bytes, magic, greeting.version);
  if (!stream.ok() || magic != kMagic || greeting.version != wire_version())
    return stream.ok() && magic == kMagic;
  stream.fields(greeting.port, greeting.pid, greeting.nonce[0], greeting.nonce[1]);
  stream.sentence(greeting.host, kMaxHostBytes);
  return stream.ok();
}

/// What comes before the packet.
bool walk(FieldStream& stream, uint32_t size_bytes, std::vector<std::string>& files) {
  stream.field(size_bytes);
  stream.list(files, kMaxFds, [&](std::string& file) { stream.document(file, kMaxFileBytes); });
  return stream.ok();
}

template <typename Fields>
std::vector<uint8_t> bytes_of(Fields& fields, size_t more_bytes) {
  FieldStream sized;
  (void)walk(sized, 0, fields);
  FieldStream stream;
  const size_t size_bytes = sized.take().size() + more_bytes;
  (void)walk(stream, static_cast<uint32_t>(size_bytes), fields);
  return stream.ok() ? stream.take() : std::vector<uint8_t>();
}

}  // namespace

std::vector<uint8_t> encode_greeting(HostGreeting greeting) { return bytes_of(greeting, 0); }

std::optional<HostGreeting> decode_greeting(std::span<const uint8_t> bytes) {
  FieldStream stream(bytes);
  HostGreeting greeting;
  if (size_of_frame(bytes, true) != bytes.size() || !walk(stream, 0, greeting)) return std::nullopt;
  const bool is_whole = greeting.version != wire_version() || stream.at_end();
  return is_whole ? std::optional(greeting) : std::nullopt;
}

std::optional<std::vector<uint8_t>> encode_frame(HostFrame frame) {
  std::vector<uint8_t> bytes = bytes_of(frame.files, frame.packet.size());
  if (bytes.empty() || frame.packet.empty() || !size_of_frame(bytes, false)) return std::nullopt;
  bytes.insert(bytes.end(), frame.packet.begin(), frame.packet.end());
  return bytes;
}

std::optional<HostFrame> decode_frame(std::span<const uint8_t> bytes) {
  FieldStream stream(bytes);
  HostFrame frame;
  if (size_of_frame(bytes, false) != bytes.size() || !walk(stream, 0, frame.files) ||
      stream.at_end())
    return std::nullopt;
  frame.packet.assign(stream.rest().begin(), stream.rest().end());
  return frame;
}

std::optional<size_t> size_of_frame(std::span<const uint8_t> begin, bool is_greeting) {
  FieldStream stream(begin);
  uint32_t size_bytes = 0;
  stream.field(size_bytes);
  if (!stream.ok()) return sizeof size_bytes;
  const bool fits = size_bytes > sizeof size_bytes &&
                    size_bytes <= (is_greeting ? kMostOfGreeting : kMostOfFrame);
  return fits ? std::optional<size_t>(size_bytes) : std::nullopt;
}

}  // namespace amem
