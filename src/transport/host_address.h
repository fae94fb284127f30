// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <string>

#include "base/identity.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// Where a process listens for those of other hosts.
struct HostAddress {
  Id128<struct HostIpTag> ip{};  ///< 16 bytes of IPv6, or of IPv4 mapped to it (RFC 4291)
  uint16_t port = 0;             ///< 0: nowhere
  bool operator==(const HostAddress&) const = default;
};

/// "10.0.0.2"
std::string ip_text(const HostAddress& address);

/// Listens at a free port of this host's own address, which it stores: that of the first interface
/// that `interfaces` allows. They are prefixes of names, separated by commas; after "=" whole
/// names; after "^" those that are not allowed. Empty: neither loopback nor Docker's. Errors: os;
/// unsupported, without such an interface.
Result<UniqueFd> listen_for_hosts(const std::string& interfaces, HostAddress* self);

/// Starts to connect. The socket does not block, and is writable when the connection exists or has
/// failed. Errors: peer, if nobody listens there; os.
Result<UniqueFd> dial_host(const HostAddress& address, int listener);
/// Of a socket of dial_host() that is writable, likewise.
Status check_dialled(int socket, const HostAddress& address);

/// The address of the other end. Its port is not where that process listens.
HostAddress address_of_peer(int socket);

/// A host that is cut off ends the connection in a moment, not after minutes.
void end_when_cut_off(int socket);

}  // namespace amem
