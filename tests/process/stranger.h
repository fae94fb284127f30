// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace amem {

/// Names of abstract sockets, with the NUL in front.
using SocketNames = std::vector<std::string>;

/// The amem sockets at which a process of ours listens.
SocketNames sockets_of(pid_t pid);

/// What another process got out of its attacks, in memory that it shares with the test.
struct Loot {
  std::atomic<uint64_t> rounds{0};  ///< attacks made from beginning to end
  std::atomic<uint64_t> bytes{0};   ///< received
  std::atomic<uint64_t> fds{0};     ///< received
  std::atomic<uint64_t> left_open{
      0};                     ///< connections that were neither answered nor closed in time
  std::atomic<int> error{0};  ///< errno of what kept it from attacking
};

/// One round of an attack on the sockets of these names.
using Attack = std::function<void(const SocketNames& names, Loot& loot)>;

/// The user that strangers are: nobody.
inline constexpr uid_t kStrangersUser = 65534;

/// A process of the user `uid` that attacks, round after round, until it goes out of scope. Only
/// for tests with one thread and the right to become another user.
class Attacker {
 public:
  Attacker(uid_t uid, const SocketNames& names, const Attack& attack);
  ~Attacker();
  Attacker(const Attacker&) = delete;

  const Loot& loot() const { return *loot_; }
  /// Returns when `more` rounds have been made from now on. False when they were not in time.
  bool wait_for_rounds(uint64_t more = 1) const;

 private:
  pid_t pid_ = -1;
  Loot* loot_ = nullptr;
};

// --- Attacks

/// Connects `count` times to each and stays connected for as long as it is let; then again.
Attack hold_connections(size_t count);
/// Connects to each and disconnects as fast as it can, `count` times.
Attack flood(size_t count);
/// Sends each of these packets, with as many fds, after `greeting` on a connection of its own, and
/// takes what comes until its end.
struct Words {
  std::vector<uint8_t> bytes;
  size_t fds = 0;
};
Attack say(std::vector<uint8_t> greeting, std::vector<Words> words);
/// Sends every beginning of this packet, and more than a packet may have.
Attack say_cut(std::vector<uint8_t> packet);
/// Leaves `count` sockets with each whose closing takes an hour.
Attack send_lingering_sockets(size_t count);
/// Listens at `count` names like those of `user`, or as many as it may, and lets nobody in.
Attack forge_names(uid_t user, size_t count);
/// Waits for a process to end, takes its name and lets nobody in.
Attack take_names();

}  // namespace amem
