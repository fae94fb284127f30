// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// A PeerService and processes of other hosts, whose place other nodes of this process take: they
// are not found in /dev/shm.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <thread>

#include "tests/support/peer_fixture.h"
#include "transport/host_address.h"
#include "transport/host_stream.h"
#include "transport/job_key.h"

namespace amem {
namespace {

const JobKey& key() {
  static const JobKey key = JobKey::read("the key of this job alone").value();
  return key;
}

class HostsTest : public testing::Test {
 protected:
  /// A node that only TCP reaches.
  static HostAddress open(Node& node, const JobKey& with = key()) {
    node.service->withdraw();
    const Result<HostAddress> opened = node.service->open_to_hosts(with, "lo");
    EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
    return opened.value();
  }
  /// To which no connection is made.
  static HostAddress reserved() {
    HostAddress address;
    auto* const ip = reinterpret_cast<uint8_t*>(address.ip.bits.data());
    ip[10] = ip[11] = 0xff;
    for (const int byte : {12, 13, 14, 15}) ip[byte] = 255;
    address.port = 9;
    return address;
  }
  /// Of a connection that says what it wants.
  class RawHost {
   public:
    RawHost(const HostAddress& to, const JobKey& with)
        : socket_(std::move(dial_host(to, -1).value())), stream_(with, 0, to, true) {
      EXPECT_TRUE(eventually([&] { return stream_.check_connected(socket_.get()).ok(); }));
    }
    bool send(uint64_t request_id, Message message) {
      const Packet packet{encode(request_id, std::move(message)).value(), {}};
      return eventually([&] {
        if (!stream_.has_greeting()) (void)stream_.receive(socket_.get());
        return stream_.send(socket_.get(), packet) == 0;
      });
    }
    /// The request that comes after the Hello.
    std::optional<Envelope> next_request() {
      std::optional<Envelope> request;
      (void)eventually([&] {
        const auto packet = stream_.receive(socket_.get());
        if (!packet.ok()) return true;
        if (!packet.value()) return false;
        request = decode(packet.value()->bytes).value();
        return !std::holds_alternative<Hello>(request->message);
      });
      return request;
    }
    void send_bytes(const std::string& bytes) {
      EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), 0),
                static_cast<ssize_t>(bytes.size()));
    }
    /// True when the other side closes, after whatever it still sends.
    bool sees_the_end() {
      return eventually([&] { return !stream_.receive(socket_.get()).ok(); });
    }

   private:
    UniqueFd socket_;
    HostStream stream_;
  };
};

TEST_F(HostsTest, ProcessesAnswerEachOther) {
  Answerer a, b;
  open(*a);
  const HostAddress at_b = open(*b);
  a->service->locate(b->id, at_b);
  const Result<Received> there = a->ask(b->id, Revoke{});
  ASSERT_TRUE(there.ok()) << there.error().message;
  EXPECT_EQ(there.value().pid, 0);
  EXPECT_NE(there.value().remote_name.find("process " + std::to_string(getpid()) + " on "),
            std::string::npos);
  // The acceptor has learnt where the dialler listens, and this connection is the one that it uses.
  EXPECT_TRUE(b->ask(a->id, Revoke{}).ok());
}

TEST_F(HostsTest, ProcessWithAnotherKeyIsNotReached) {
  Answerer a, b;
  open(*a);
  a->service->locate(b->id, open(*b, JobKey::read("the key of some other job").value()));
  const Result<Received> there = a->ask(b->id, Revoke{});
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().kind, ErrorKind::protocol);
  EXPECT_NE(there.error().message.find("another AMEM_JOB_KEY"), std::string::npos);
}

TEST_F(HostsTest, ProcessHasEndedWhereNobodyListens) {
  Answerer a, b;
  open(*a);
  a->service->locate(b->id, open(*b));
  ASSERT_TRUE(a->ask(b->id, Revoke{}).ok());
  b->service.reset();
  EXPECT_TRUE(a->recorder.wait_gone(1));
  const HostAddress nobody = [&] {
    HostAddress at;
    (void)listen_for_hosts("lo", &at);  // and closes the socket
    return at;
  }();
  const InstanceId other = random_instance_id();
  a->service->locate(other, nobody);
  const Result<Received> there = a->ask(other, Revoke{});
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().kind, ErrorKind::peer);
}

// A port belongs to one process: the former one has ended.
TEST_F(HostsTest, ProcessHasEndedWhereAnotherOneListens) {
  Answerer a, b;
  open(*a);
  const InstanceId former = random_instance_id();
  a->service->locate(former, open(*b));
  const Result<Received> there = a->ask(former, Revoke{});
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().kind, ErrorKind::peer);
}

// No end of the connection arrives from a host that was cut off.
TEST_F(HostsTest, ProcessThatConnectsAgainIsAnsweredThere) {
  Node a;
  const HostAddress at = open(a);
  const InstanceId id = random_instance_id();
  RawHost former(at, key());
  ASSERT_TRUE(former.send(0, Hello{id}));
  ASSERT_TRUE(former.send(0, Drop{{1}}));
  ASSERT_TRUE(a.recorder.wait_seen(1));
  RawHost next(at, key());
  ASSERT_TRUE(next.send(0, Hello{id}));
  ASSERT_TRUE(next.send(0, Drop{{2}}));
  ASSERT_TRUE(a.recorder.wait_seen(2));
  EXPECT_TRUE(former.sees_the_end());
  a.service->call(id, Revoke{}, {}, patience(), [](const Result<Received>&) {});
  const std::optional<Envelope> request = next.next_request();
  EXPECT_TRUE(request && std::holds_alternative<Revoke>(request->message));
}

TEST_F(HostsTest, HostThatCannotBeReachedHasNotEnded) {
  Answerer a;
  open(*a);
  const InstanceId other = random_instance_id();
  EXPECT_EQ(ip_text(reserved()), "255.255.255.255");
  a->service->locate(other, reserved());
  const Result<Received> there = a->ask(other, Revoke{}, 200);
  ASSERT_FALSE(there.ok());
  EXPECT_NE(there.error().kind, ErrorKind::peer) << there.error().message;
}

// A restore that failed at once would never arrive.
TEST_F(HostsTest, CallsWaitForAHostThatCanBeReachedNoMore) {
  Node a;
  const HostAddress at = open(a);
  const InstanceId id = random_instance_id();
  a.service->locate(id, reserved());
  {
    RawHost cut_off(at, key());
    ASSERT_TRUE(cut_off.send(0, Hello{id}));
    ASSERT_TRUE(cut_off.send(0, Drop{{1}}));
    ASSERT_TRUE(a.recorder.wait_seen(1));
    const Result<Received> silent = a.ask(id, Revoke{}, 100);
    EXPECT_EQ(silent.error().kind, ErrorKind::timeout) << silent.error().message;
  }
  const Result<Received> there = a.ask(id, Revoke{}, 300);
  ASSERT_FALSE(there.ok());
  EXPECT_EQ(there.error().kind, ErrorKind::timeout);
  EXPECT_NE(there.error().message.find(", which cannot be reached ("), std::string::npos)
      << there.error().message;
  EXPECT_TRUE(a.recorder.gone().empty());
}

// Another program may have got the port of a process that has ended.
TEST_F(HostsTest, HostThatClosesConnectionsIsNotDialledAgainAtOnce) {
  Answerer a;
  open(*a);
  HostAddress at;
  const UniqueFd listener = std::move(listen_for_hosts("lo", &at).value());
  const InstanceId other = random_instance_id();
  a->service->locate(other, at);
  std::atomic<int> accepted = 0;
  std::atomic<bool> ends = false;
  std::thread closes([&] {
    pollfd dialled{listener.get(), POLLIN, 0};
    while (!ends) {
      if (poll(&dialled, 1, 50) <= 0) continue;
      const UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      ++accepted;
    }
  });
  EXPECT_FALSE(a->ask(other, Revoke{}, 1200).ok());
  ends = true;
  closes.join();
  EXPECT_GE(accepted, 2) << "it may come back";
  EXPECT_LE(accepted, 4);
}

TEST_F(HostsTest, QueriesOfAnotherHostEndTheConnection) {
  Answerer a;
  const HostAddress at = open(*a);
  for (const Message& query :
       {Message(StatusQuery{}), Message(HostMemoryQuery{}), Message(Control{})}) {
    RawHost host(at, key());
    ASSERT_TRUE(host.send(0, Hello{random_instance_id()}));
    ASSERT_TRUE(host.send(1, query));
    EXPECT_TRUE(host.sees_the_end());
  }
  EXPECT_TRUE(a->recorder.take_seen().empty());
}

TEST_F(HostsTest, WhoHasNoKeyReachesNothingAndLeavesNothing) {
  PeerOptions options;
  options.guest_ms = 50;
  Answerer a(options);
  const HostAddress at = open(*a);
  ASSERT_TRUE(a->ask(random_instance_id(), Revoke{}).error().kind == ErrorKind::peer);
  const size_t before = open_fds().size();
  for (int i = 0; i < 20; ++i) {
    RawHost silent(at, key()), noisy(at, key()),
        guest(at, JobKey::read("the key of some other job").value());
    noisy.send_bytes("GET / HTTP/1.1\r\nHost: tray2\r\n\r\n");
    ASSERT_TRUE(guest.send(0, Hello{random_instance_id()}));
    EXPECT_TRUE(noisy.sees_the_end());
    EXPECT_TRUE(guest.sees_the_end());
    EXPECT_TRUE(silent.sees_the_end());
  }
  EXPECT_TRUE(eventually([&] { return open_fds().size() == before; }));
  EXPECT_TRUE(a->recorder.take_seen().empty());
}

TEST_F(HostsTest, FloodOfConnectionsPutsOutNobodyOfThisHost) {
  Answerer a;
  const auto guest = RawPeer::dial_to(a->id);
  ASSERT_TRUE(guest);
  const HostAddress at = open(*a);
  std::vector<RawHost> flood;
  for (size_t i = 0; i < 2 * PeerLinks::kMaxGuests; ++i) flood.emplace_back(at, key());

  EXPECT_TRUE(flood.front().sees_the_end());
  guest->greet(random_instance_id());
  guest->send(1, StatusQuery{});
  ASSERT_TRUE(guest->next_message());
  EXPECT_TRUE(guest->next_message());
}

/// From now on this process has a kernel without IPv6 (ipv6.disable=1).
bool take_ipv6_away() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof *rules, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Its address is the same on the wire: it reaches hosts with IPv6.
TEST(HostWithoutIpv6, ListensAndConnectsByIpv4) {
  const pid_t child = fork();
  if (child == 0) {
    HostAddress with, without;
    const Result<UniqueFd> other = listen_for_hosts("lo", &with);
    if (!other.ok() || !take_ipv6_away()) _exit(1);
    const Result<UniqueFd> listener = listen_for_hosts("lo", &without);
    if (!listener.ok() || without.ip != with.ip || without.port == 0) _exit(2);
    for (const HostAddress& to : {with, without}) {
      const Result<UniqueFd> dialled = dial_host(to, listener.value().get());
      const int at = (to == with ? other : listener).value().get();
      UniqueFd accepted;
      if (!eventually(
              [&] { return accepted.reset(accept(at, nullptr, nullptr)), accepted.valid(); }))
        _exit(3);
      if (!dialled.ok() || address_of_peer(dialled.value().get()) != to) _exit(4);
      if (ip_text(address_of_peer(accepted.get())) != "127.0.0.1") _exit(5);
    }
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(WIFEXITED(status));
}

TEST_F(HostsTest, InterfaceIsTheFirstThatIsAllowed) {
  HostAddress at;
  for (const char* allowed : {"lo", "l", "no_such,lo", "=lo", "=no_such,lo", "^no_such"})
    EXPECT_TRUE(listen_for_hosts(allowed, &at).ok()) << allowed;
  EXPECT_EQ(ip_text(at), "127.0.0.1") << "the first of all";
  EXPECT_NE(at.port, 0);
  for (const char* none : {"=l", "no_such", "=no_such,l"}) {
    const Result<UniqueFd> listener = listen_for_hosts(none, &at);
    ASSERT_FALSE(listener.ok()) << none;
    EXPECT_NE(listener.error().message.find(none), std::string::npos);
  }
  const Result<UniqueFd> listener = listen_for_hosts("", &at);
  EXPECT_TRUE(!listener.ok() || ip_text(at) != "127.0.0.1") << "loopback reaches no other host";
}

}  // namespace
}  // namespace amem
