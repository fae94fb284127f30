// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "base/unique_fd.h"

namespace amem {

/// A TCP connection that takes an hour to close: whoever closes `sender` last waits until the other
/// end has read everything, or has ended (SO_LINGER, socket(7)). Both invalid when there is none to
/// be had.
struct LingeringConnection {
  LingeringConnection() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const address = reinterpret_cast<sockaddr*>(&at);
    socklen_t size_bytes = sizeof at;
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    UniqueFd dialled(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listener.get(), address, size_bytes) != 0 || listen(listener.get(), 1) != 0 ||
        getsockname(listener.get(), address, &size_bytes) != 0 ||
        connect(dialled.get(), address, size_bytes) != 0)
      return;
    receiver.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger hour{1, 3600};
    setsockopt(dialled.get(), SOL_SOCKET, SO_LINGER, &hour, sizeof hour);
    const std::vector<char> piece(1 << 16);
    while (send(dialled.get(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    if (receiver.valid()) sender = std::move(dialled);
  }

  UniqueFd sender, receiver;
};

}  // namespace amem
