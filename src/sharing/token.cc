// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/token.h"

#include <algorithm>

#include "base/log.h"
#include "base/sealed_file.h"
#include "base/test_seam.h"
#include "transport/field_stream.h"

namespace amem {

uint32_t token_version() {
  return seeded_fault("other_token_version") ? kTokenVersion + 1 : kTokenVersion;
}

namespace {

constexpr uint64_t kMagic = 0x6e6b6f746d656d61;  // the bytes "amemtokn"
constexpr size_t kMaxBytes = 8 + 4 + 16 + 8 + 8 + 4 + 4 * 8 + 2 + kMaxTagBytes;

/// False when reading finds no token of this version.
bool walk(FieldStream& stream, Token& token) {
  uint64_t magic = kMagic;
  uint32_t version = token_version();
  // The magic, the version and the pid are there in all versions (docs/wire_protocol.md).
  stream.fields(magic, version, token.owner, token.allocation, token.nonce, token.owner_pid);
  if (!stream.ok() || magic != kMagic) return false;
  if (version != token_version()) {
    AMEM_LOG(
        error, -1,
        "cannot import memory of process %d, whose amem makes tokens of version %u, this one %u: "
        "install the same amem for all processes of the job",
        token.owner_pid, version, token_version());
    return false;
  }
  stream.fields(token.backing, token.slab_bytes, token.offset_bytes, token.size_bytes, token.tag);
  return stream.ok();
}

constexpr uint64_t kIpcMagic = 0x3163706d656d612e;     // the bytes ".amempc1"
constexpr uint64_t kFabricMagic = 0x3262666d656d612e;  // the bytes ".amemfb2"

bool walk(FieldStream& stream, IpcHandle& handle) {
  uint64_t magic = handle.is_fabric ? kFabricMagic : kIpcMagic;
  stream.fields(magic, handle.owner, handle.allocation, handle.nonce, handle.owner_pid);
  handle.is_fabric = magic == kFabricMagic;
  if (handle.is_fabric) stream.fields(handle.address.port, handle.address.ip);
  return stream.ok() && (handle.is_fabric || magic == kIpcMagic);
}

}  // namespace

IpcHandleBytes encode_ipc_handle(IpcHandle handle) {
  FieldStream stream;
  (void)walk(stream, handle);
  const std::vector<uint8_t> bytes = stream.take();
  IpcHandleBytes all{};
  std::copy(bytes.begin(), bytes.end(), all.begin());
  return all;
}

std::optional<IpcHandle> decode_ipc_handle(const IpcHandleBytes& bytes) {
  FieldStream stream(bytes);
  IpcHandle handle;
  if (!walk(stream, handle) || encode_ipc_handle(handle) != bytes) return std::nullopt;
  return handle;
}

std::vector<uint8_t> encode_token(Token token) {
  FieldStream stream;
  (void)walk(stream, token);
  return stream.take();
}

std::optional<Token> decode_token(std::span<const uint8_t> bytes) {
  FieldStream stream(bytes);
  Token token;
  if (!walk(stream, token) || !stream.at_end()) return std::nullopt;
  // A place that is not in its slab would be mapped over something else.
  if (token.slab_bytes != 0 && (token.offset_bytes > token.slab_bytes ||
                                token.size_bytes > token.slab_bytes - token.offset_bytes))
    return std::nullopt;
  return token;
}

Result<UniqueFd> make_token(const Token& token) {
  return make_sealed_file("amem-token", encode_token(token));
}

std::optional<Token> read_token(int fd) {
  const auto bytes = read_sealed_file(fd, kMaxBytes + 1);
  return bytes.has_value() ? decode_token(*bytes) : std::nullopt;
}

}  // namespace amem
