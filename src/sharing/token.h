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
#include "transport/host_address.h"

namespace amem {

/// Takes the place of a file descriptor of cuMemExportToShareableHandle() while a library passes it
/// between processes. It identifies the allocation and its owner, so that an importer can request
/// the descriptor from the owner when it needs it. A descriptor of the driver does not identify its
/// exporter, and keeps the memory allocated while it is open. The nonce is random for each
/// allocation; a request must contain it.
using Token = RemoteAllocation;

inline constexpr uint32_t kTokenVersion = 3;
/// The version that this process makes and reads.
uint32_t token_version();

/// The bytes of a token (docs/wire_protocol.md), and the reverse; nothing for bytes that
/// encode_token() does not return. The log names the owner of a token of another version.
/// Thread-safe.
std::vector<uint8_t> encode_token(Token token);
std::optional<Token> decode_token(std::span<const uint8_t> bytes);

/// A sealed, close-on-exec memfd that contains the token. Thread-safe. Errors: os.
Result<UniqueFd> make_token(const Token& token);

/// The token that `fd` contains; nothing if `fd` is not a sealed token, or not a descriptor. Does
/// not block and does not change the file position. One system call for a descriptor that is not a
/// memfd, two for a token. Thread-safe.
std::optional<Token> read_token(int fd);

/// Takes the place of a cudaIpcMemHandle_t or of a fabric handle. The owner has the token of the
/// allocation (TokenQuery).
struct IpcHandle {
  InstanceId owner;
  AllocationId allocation = 0;
  uint64_t nonce = 0;
  pid_t owner_pid = 0;  ///< for error texts
  bool is_fabric = false;
  HostAddress address{};  ///< of a fabric handle: where the owner listens for other hosts
  bool operator==(const IpcHandle&) const = default;
};
/// The size of a cudaIpcMemHandle_t (CUDA Runtime API, CUDA_IPC_HANDLE_SIZE) and of a
/// CUmemFabricHandle (CU_IPC_HANDLE_SIZE).
inline constexpr size_t kIpcHandleBytes = 64;
using IpcHandleBytes = std::array<uint8_t, kIpcHandleBytes>;

/// The bytes of a handle, and the reverse; nothing for bytes that encode_ipc_handle() does not
/// return, such as a handle of CUDA.
IpcHandleBytes encode_ipc_handle(IpcHandle handle);
std::optional<IpcHandle> decode_ipc_handle(const IpcHandleBytes& bytes);

}  // namespace amem
