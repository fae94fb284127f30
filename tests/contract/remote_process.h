// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/unique_fd.h"
#include "tests/contract/driver.h"

/// Another process that uses the driver, steered over a socket: this program executed again, since
/// a driver does not survive fork.
namespace amem::contract {

inline constexpr const char* kRemoteFlag = "--remote";

/// What the other process can be told to do. It works with one imported allocation.
enum class Command : int32_t {
  kCallWithoutInit,      ///< create memory before cuInit
  kStart,                ///< cuInit and the primary context of GPU 0
  kStartOnOtherMachine,  ///< the same on the simulated machine AMEM_SIM_OTHER_DIR
  kTotalMb,              ///< the device's memory
  kImport,               ///< the descriptor that comes with the command, which is kept open
  kImportFabric,         ///< the fabric handle, which is in the file that comes with the command
  kCloseFd,
  kMap,     ///< reserve, map and grant access to value bytes
  kCreate,  ///< value bytes of memory, in place of an import
  kRead,    ///< the first 32-bit word
  kWrite,   ///< value to the first 32-bit word
  kUnmap,
  kRelease,
  kReexport,      ///< of the imported handle; the descriptor comes with the answer
  kReadUnmapped,  ///< copy from an address that is reserved but not mapped
  kAddDevice,     ///< value to the imported multicast object
  kCheckpoint,    ///< of itself
};

struct Answer {
  CuResult result = kErrorUnknown;
  uint32_t value = 0;
  UniqueFd fd;
};

class RemoteProcess {
 public:
  RemoteProcess();
  ~RemoteProcess();  ///< ends it, however it is
  RemoteProcess(const RemoteProcess&) = delete;

  /// Sends a command and waits for the answer. kErrorUnknown if the process is gone.
  Answer tell(Command command, uint64_t value = 0, int fd = -1);

  /// As kill -9 does; waits for its end.
  void kill();

 private:
  pid_t pid_ = -1;
  UniqueFd socket_;
};

/// The other process.
int remote_main(int socket);

/// Sends fixed-size bytes, with a descriptor unless it is -1. Used by both sides, and by tests that
/// leave a descriptor in a socket.
bool send_with_fd(int socket, const void* bytes, size_t size_bytes, int fd);
bool receive_with_fd(int socket, void* bytes, size_t size_bytes, UniqueFd* fd);

}  // namespace amem::contract
