// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sharing/token.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/log.h"
#include "base/system_call.h"
#include "base/test_seam.h"
#include "transport/field_stream.h"

namespace amem {

uint32_t token_version() {
  return seeded_fault("other_token_version") ? kTokenVersion + 1 : kTokenVersion;
}

namespace {

constexpr uint64_t kMagic = 0x6e6b6f746d656d61;  // the bytes "amemtokn"
constexpr size_t kMaxBytes = 8 + 4 + 16 + 8 + 8 + 4 + 4 * 8 + 2 + kMaxTagBytes;
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

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
constexpr uint64_t kFabricMagic = 0x3162666d656d612e;  // the bytes ".amemfb1"

bool walk(FieldStream& stream, IpcHandle& handle) {
  uint64_t magic = handle.is_fabric ? kFabricMagic : kIpcMagic;
  stream.fields(magic, handle.owner, handle.allocation, handle.nonce, handle.owner_pid);
  handle.is_fabric = magic == kFabricMagic;
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
  const std::vector<uint8_t> bytes = encode_token(token);
  UniqueFd fd(create_memfd("amem-token"));
  if (!fd.valid()) return os_error(errno, "memfd_create(amem-token)");

  const DiscardedSignals discarded;  // below a RLIMIT_FSIZE of that size
  const ssize_t written = pwrite(fd.get(), bytes.data(), bytes.size(), 0);
  if (written != static_cast<ssize_t>(bytes.size()))
    return os_error(written < 0 ? errno : ENOSPC, "pwrite(amem-token, %zu bytes)", bytes.size());
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return os_error(errno, "fcntl(F_ADD_SEALS)");
  return fd;
}

std::optional<Token> read_token(int fd) {
  // Asked first: only files in memory have seals, so that no other file system is asked.
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
  std::array<uint8_t, kMaxBytes + 1> bytes;  // one more, so that longer ones are not cut
  const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return std::nullopt;
  return decode_token(std::span(bytes).first(static_cast<size_t>(got)));
}

}  // namespace amem
