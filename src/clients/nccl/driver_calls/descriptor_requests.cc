// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/driver_calls/descriptor_requests.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/active.h"
#include "base/log.h"
#include "base/mutex.h"
#include "clients/nccl/nccl_client.h"
#include "sharing/process_names.h"
#include "transport/reply_watch.h"

namespace amem {
namespace {

/// The names of NCCL's sockets begin so, after '/' or, if abstract, a zero byte; a rank follows
/// (linux_ipcsocket.cc:23@2.30.7-1).
constexpr char kPrefix[] = "tmp/nccl-socket-";

void name_the_rank(const char* socket) {
  if (built<NcclClient>() == nullptr) return;
  if (strncmp(socket + 1, kPrefix, sizeof kPrefix - 1) != 0) return;
  AMEM_LOG(warn, -1,
           "NCCL waits for a descriptor of GPU memory of rank %d (%s) for more than %ld s; with "
           "NCCL_CUMEM_ENABLE=0 there, it does not come: start all ranks of the communicator with "
           "amem and the same NCCL_CUMEM_ENABLE and AMEM_CUMEM",
           atoi(socket + sizeof kPrefix), process_of_socket(socket).c_str(), kNoticeMs / 1000);
}

ssize_t hooked_recvmsg(int socket, msghdr* message, int flags) {
  const ssize_t got = receive_watched(socket, message, flags);
  if (got >= 0) return got;
  const int error = errno;
  if (const char* const unanswered = unanswered_socket()) name_the_rank(unanswered);
  errno = error;
  return got;
}

}  // namespace

const void* descriptor_request_entry(const char* symbol) {
  if (strcmp(symbol, "sendmsg") == 0) return reinterpret_cast<const void*>(&send_watched);
  if (strcmp(symbol, "recvmsg") == 0) return reinterpret_cast<const void*>(&hooked_recvmsg);
  return nullptr;
}

}  // namespace amem
