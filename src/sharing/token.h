// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "memory/allocation.h"

namespace amem {

/// What stands in for a CUDA fd while a library passes it between processes: it says whose
/// allocation it is, so that the importer can ask the owner for the real fd when it needs it. A
/// real fd says nothing about its exporter, and would keep the memory alive for as long as it is
/// open. Its nonce is random per allocation: whoever asks for the allocation proves with it that it
/// holds the token.
using Token = ImportOrigin;

inline constexpr uint32_t kTokenVersion = 3;

/// What tokens of all versions say.
struct OtherToken {
  uint32_t version;
  int32_t owner_pid;
};

/// The bytes of a token (docs/wire_protocol.md), and the token that bytes are: those of
/// encode_token() and no others. Thread-safe.
std::vector<uint8_t> encode_token(Token token);
std::optional<Token> decode_token(std::span<const uint8_t> bytes);

/// A sealed memfd with the token in it, close-on-exec. Thread-safe; errors: os.
Result<UniqueFd> make_token(const Token& token);

/// The token behind `fd`; nothing for any fd that is not exactly a sealed token, and for no fd at
/// all. Never blocks, never moves the file position, changes nothing. One system call for an fd
/// that is not in memory, three for a token. Thread-safe.
std::optional<Token> read_token(int fd);

/// What stands in for a cudaIpcMemHandle_t: the owner has the token of the allocation (TokenQuery).
struct IpcHandle {
  InstanceId owner;
  AllocationId allocation = 0;
  uint64_t nonce = 0;
  pid_t owner_pid = 0;  ///< for error texts
  bool operator==(const IpcHandle&) const = default;
};
/// The size of a cudaIpcMemHandle_t (CUDA Runtime API, CUDA_IPC_HANDLE_SIZE).
inline constexpr size_t kIpcHandleBytes = 64;
using IpcHandleBytes = std::array<uint8_t, kIpcHandleBytes>;

/// The bytes of a handle, and the handle that bytes are: those of encode_ipc_handle() and no
/// others, in particular no handle of CUDA.
IpcHandleBytes encode_ipc_handle(IpcHandle handle);
std::optional<IpcHandle> decode_ipc_handle(const IpcHandleBytes& bytes);

/// The token of another version of amem that `fd` is; nothing for anything else. Thread-safe.
std::optional<OtherToken> read_other_token(int fd);

}  // namespace amem
