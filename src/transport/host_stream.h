// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/host_address.h"
#include "transport/job_key.h"

namespace amem {

/// A packet, and its descriptors: of one to be sent, they are closed when the kernel has accepted
/// it.
struct Packet {
  std::vector<uint8_t> bytes;
  std::vector<UniqueFd> fds;
};

/// Packets over a TCP connection to a process of another host (docs/wire_protocol.md, Hosts). Both
/// sides prove that they have the job's key: each packet has a code that only they can make, for
/// this direction of this connection and this place in it.
///
/// Descriptors do not travel. What is sent for one is the contents of a sealed file (sealed_file.h)
/// of at most kMaxFileBytes; the receiver gets another one. For the service thread.
class HostStream {
 public:
  /// `peer`: where it was connected to, or the other end of a connection that was accepted.
  HostStream(const JobKey& key, uint16_t own_port, const HostAddress& peer, bool is_dialled);

  /// As send_packet(); to be repeated with the same packet until it is sent. EINPROGRESS: the
  /// peer's greeting has to arrive before.
  int send(int socket, const Packet& packet);
  /// As receive_packet(); nothing also after the greeting. Errors: protocol, also for a peer with
  /// another key or version.
  Result<std::optional<Packet>> receive(int socket);
  bool has_greeting() const { return receives_.has_value(); }

  /// Of a connection that was dialled, when it is writable: as check_dialled().
  Status check_connected(int socket);
  bool is_connected() const { return is_connected_; }
  bool is_dialled() const { return is_dialled_; }

  /// "process 4711 on tray2 (10.0.0.2)", when a packet has proven it.
  std::string peer_name() const;
  /// Where the peer listens.
  const HostAddress& address() const { return peer_; }

 private:
  /// Its key, and how many packets it has carried.
  struct Direction {
    JobKey key;
    uint64_t packets = 0;
    JobKey::Code next_code(JobKey::Bytes frame) {
      const uint64_t number = packets++;
      return key.code_of({{reinterpret_cast<const uint8_t*>(&number), sizeof number}, frame});
    }
  };

  bool pack(const Packet& packet);
  /// How many bytes in_ will have; nothing if they are too many.
  std::optional<size_t> wanted_bytes() const;
  Status take_greeting();
  Result<Packet> take_packet();

  const JobKey key_;
  const bool is_dialled_;
  bool is_connected_ = !is_dialled_;
  HostAddress peer_;
  std::string peer_name_;
  const std::vector<uint8_t> greeting_;
  std::optional<Direction> sends_, receives_;
  std::vector<uint8_t> in_, out_;
  size_t written_ = 0;
  bool is_greeting_sent_ = false;
  bool is_proven_ = false;  ///< a packet had the right code
};

}  // namespace amem
