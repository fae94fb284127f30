// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Strangers whose files take for ever to close.
#include "peers/refused_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "peers/fd_census.h"
#include "peers/lingering_fixture.h"
#include "peers/peer_fixture.h"

namespace amem {
namespace {

/// A connection in which a lingering socket lies unread; `keeper` holds back its end.
UniqueFd connection_with_lingering(UniqueFd* keeper) {
  LingeringConnection lingering;
  EXPECT_TRUE(lingering.sender.valid());
  *keeper = std::move(lingering.receiver);
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  FdLedger ledger;
  Connection from(TrackedFd(ledger, UniqueFd(ends[0])));
  OutPacket packet{{1}, {}};
  packet.fds.emplace_back(ledger, std::move(lingering.sender));
  from.queue(std::move(packet));
  EXPECT_TRUE(from.flush().ok());
  return UniqueFd(ends[1]);
}

/// A node that listens as on a kernel without SO_PASSRIGHTS: fds come before it has looked at who
/// sends them.
void take_fds_of_all(const Node& node) {
  for (const int fd : open_fds()) {
    sockaddr_un at{};
    socklen_t size_bytes = sizeof at;
    const std::string name = socket_name(node.id);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size_bytes) == 0 &&
        size_bytes == offsetof(sockaddr_un, sun_path) + name.size() &&
        memcmp(at.sun_path, name.data(), name.size()) == 0)
      allow_fds(fd);
  }
}

TEST(RefusedSockets, AreClosedElsewhereAndOneAfterAnother) {
  FdLedger ledger;
  std::atomic<int> closed = 0;
  UniqueFd keeper;
  const size_t before = open_fds().size();
  {
    RefusedSockets refused([&] { ++closed; });
    refused.close(TrackedFd(ledger, connection_with_lingering(&keeper)));
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd other_end(ends[0]);
    refused.close(TrackedFd(ledger, UniqueFd(ends[1])));

    // The end is seen although nothing has been closed.
    char byte;
    EXPECT_EQ(recv(other_end.get(), &byte, 1, 0), 0);
    EXPECT_EQ(refused.count(), 2u);
    EXPECT_EQ(closed, 0);

    keeper.reset();
    EXPECT_TRUE(eventually([&] { return refused.count() == 0 && closed == 2; }));
  }
  EXPECT_EQ(open_fds().size(), before);
}

/// A service with a friend, and strangers at its door.
class RefusedService : public testing::Test {
 protected:
  RefusedService() : answerer_(options()) {
    take_fds_of_all(*answerer_);
    EXPECT_TRUE(friend_.ask(answerer_->id, StatusQuery{}).ok());
  }

  PeerOptions options() {
    PeerOptions options;
    options.max_refused_connections = 2;
    options.trusts = [this](const ucred&) {
      if (trusting_) return true;
      EXPECT_TRUE(eventually([&] { return may_look_.load(); }));
      return false;
    };
    return options;
  }

  /// Leaves a lingering socket in a connection that the service refuses, and nowhere else: so it is
  /// the service that closes it. Returns when it has been refused.
  void attack() {
    may_look_ = false;
    trusting_ = false;
    LingeringConnection lingering;
    Result<UniqueFd> socket = dial(answerer_->id);
    ASSERT_TRUE(socket.ok() && lingering.sender.valid());
    Connection connection(TrackedFd(ledger_, std::move(socket.value())));
    OutPacket packet{{1}, {}};
    packet.fds.emplace_back(ledger_, std::move(lingering.sender));
    connection.queue(std::move(packet));
    ASSERT_TRUE(connection.flush().ok());
    ASSERT_EQ(connection.queued_bytes(), 0u);
    keepers_.push_back(std::move(lingering.receiver));
    may_look_ = true;
    pollfd end{connection.fd(), POLLIN, 0};
    ASSERT_EQ(poll(&end, 1, static_cast<int>(kPatienceMs)), 1);
    trusting_ = true;
  }

  FdLedger ledger_;
  std::atomic<bool> trusting_ = true, may_look_ = true;
  std::vector<UniqueFd> keepers_;
  Answerer answerer_;
  Node friend_;
};

TEST_F(RefusedService, AnswersOthersWhileOneIsClosed) {
  const size_t before = open_fds().size();
  attack();
  EXPECT_TRUE(friend_.ask(answerer_->id, StatusQuery{}).ok());
  Node newcomer;
  EXPECT_TRUE(newcomer.ask(answerer_->id, StatusQuery{}).ok());

  newcomer.service.reset();
  keepers_.clear();
  EXPECT_TRUE(eventually([&] { return open_fds().size() == before; }));
}

TEST_F(RefusedService, LetsNobodyInWhileTooManyAreClosed) {
  attack();
  attack();
  Node newcomer;
  EXPECT_EQ(newcomer.ask(answerer_->id, StatusQuery{}, 100).error().kind, ErrorKind::timeout);
  EXPECT_TRUE(friend_.ask(answerer_->id, StatusQuery{}).ok());

  keepers_.clear();
  EXPECT_TRUE(newcomer.ask(answerer_->id, StatusQuery{}).ok());
}

}  // namespace
}  // namespace amem
