// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "transport/connection.h"
#include "transport/peer_service.h"
#include "transport/socket_address.h"

namespace amem {

constexpr long kPatienceMs = 20000;
inline Deadline patience() { return Deadline::after_ms(kPatienceMs); }

/// The fd numbers that this process has open, for tests that look for leaks; ascending.
inline std::vector<int> open_fds() {
  std::vector<int> fds;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return fds;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') fds.push_back(atoi(entry->d_name));
  std::erase(fds, dirfd(folder));
  closedir(folder);
  std::sort(fds.begin(), fds.end());
  return fds;
}

/// Sends a request and waits for the reply.
inline Result<Received> call_and_wait(PeerService& service, const InstanceId& peer, Message message,
                                      std::vector<UniqueFd> fds, Deadline deadline) {
  const auto reply = std::make_shared<std::promise<Result<Received>>>();
  service.call(peer, std::move(message), std::move(fds), deadline,
               [reply](Result<Received> outcome) { reply->set_value(std::move(outcome)); });
  auto outcome = reply->get_future();
  if (outcome.wait_for(std::chrono::milliseconds(deadline.left_ms() + kPatienceMs)) ==
      std::future_status::ready)
    return outcome.get();
  return make_error(ErrorKind::misuse, 0, "the service has not completed a call");
}

/// Keeps what a service tells its handler; answers with `respond` where one is set.
class Recorder : public PeerHandler {
 public:
  struct Seen {
    PeerInfo from;
    uint64_t request_id;
    Received received;
  };
  using Respond = std::function<void(const PeerInfo&, uint64_t, const Message&)>;

  /// Before the service starts.
  void respond_with(Respond respond) { respond_ = std::move(respond); }

  void on_message(const PeerInfo& from, uint64_t request_id, Received received) override {
    {
      MutexLock lock(mutex_);
      if (is_told_to_all(from, received.message) && !known_.contains(from.instance)) {
        other_jobs_.insert(from.instance);
        return;
      }
      known_.insert(from.instance);
    }
    if (respond_) respond_(from, request_id, received.message);
    MutexLock lock(mutex_);
    seen_.push_back(Seen{from, request_id, std::move(received)});
    changed_.notify_all();
  }
  void on_peer_gone(const PeerInfo& peer) override {
    MutexLock lock(mutex_);
    if (other_jobs_.contains(peer.instance)) return;
    gone_.push_back(peer);
    changed_.notify_all();
  }

  bool wait_seen(size_t count) {
    MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, patience(), [&] { return seen_.size() >= count; });
  }
  bool wait_gone(size_t count) {
    MutexLock lock(mutex_);
    return changed_.wait_until(mutex_, patience(), [&] { return gone_.size() >= count; });
  }
  std::vector<Seen> take_seen() {
    MutexLock lock(mutex_);
    return std::exchange(seen_, {});
  }
  std::vector<PeerInfo> gone() {
    MutexLock lock(mutex_);
    return gone_;
  }

 private:
  /// What a job tells every process of this user when it pauses and resumes: other tests run.
  static bool is_told_to_all(const PeerInfo& from, const Message& message) {
    const auto* revoke = std::get_if<Revoke>(&message);
    if (revoke == nullptr) return std::holds_alternative<Restore>(message) && from.pid != getpid();
    return !revoke->scope.empty() && (revoke->timeout_ms == 0 || from.pid != getpid());
  }

  Respond respond_;
  Mutex mutex_;
  Condition changed_;
  std::vector<Seen> seen_;
  std::vector<PeerInfo> gone_;
  std::set<InstanceId> other_jobs_, known_;
};

/// Nodes are all in this process, whose end no test sees: their connections say whether they live.
struct NodeOptions : PeerOptions {
  NodeOptions() {
    process_at = [](int) { return UniqueFd(); };
  }
};

/// One amem process' worth of peers, within this process.
struct Node {
  explicit Node(const PeerOptions& options = NodeOptions(), Recorder::Respond respond = nullptr) {
    recorder.respond_with(std::move(respond));
    Result<std::unique_ptr<PeerService>> started = PeerService::start(id, recorder, options);
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().message);
    service = std::move(started.value());
  }
  Result<Received> ask(const InstanceId& peer, Message message, long timeout_ms = kPatienceMs) {
    return call_and_wait(*service, peer, std::move(message), {}, Deadline::after_ms(timeout_ms));
  }

  const InstanceId id = random_instance_id();
  Recorder recorder;
  std::unique_ptr<PeerService> service;
};

/// A node that answers StatusQuery with `json`, Revoke with Revoked, and HostMemoryQuery with
/// descriptors of no memory.
class Answerer {
 public:
  explicit Answerer(const PeerOptions& options = NodeOptions(), std::string json = "{}")
      : node_(options, [this, json = std::move(json)](const PeerInfo& from, uint64_t request_id,
                                                      const Message& message) {
          // The service may speak before its constructor has handed it out.
          MutexLock lock(mutex_);
          ready_.wait_until(mutex_, patience(), [this] { return is_ready_; });
          if (std::holds_alternative<StatusQuery>(message))
            node_.service->reply(from.instance, request_id, StatusReply{json}, {});
          if (std::holds_alternative<Revoke>(message))
            node_.service->reply(from.instance, request_id, Revoked{true, ""}, {});
          if (!std::holds_alternative<HostMemoryQuery>(message)) return;
          std::vector<UniqueFd> fds(2);
          for (UniqueFd& fd : fds) fd.reset(open("/dev/null", O_RDWR | O_CLOEXEC));
          node_.service->reply(from.instance, request_id, HostMemoryOffer{2}, std::move(fds));
        }) {
    MutexLock lock(mutex_);
    is_ready_ = true;
    ready_.notify_all();
  }
  Node& operator*() { return node_; }
  Node* operator->() { return &node_; }

 private:
  Mutex mutex_;
  Condition ready_;
  bool is_ready_ = false;
  Node node_;
};

/// A connection that does as it is told, right or wrong.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd socket) : socket_(std::move(socket)) {}
  static std::unique_ptr<RawPeer> dial_to(const InstanceId& instance) {
    Result<UniqueFd> socket = dial(instance);
    return socket.ok() ? std::make_unique<RawPeer>(std::move(socket.value())) : nullptr;
  }

  int fd() const { return socket_.get(); }
  void send_bytes(std::vector<uint8_t> bytes, size_t fds = 0) {
    Packet packet{std::move(bytes), {}};
    for (size_t i = 0; i < fds; ++i)
      packet.fds.emplace_back(UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)));
    (void)send_packet(fd(), packet);
  }
  void send(uint64_t request_id, Message message, size_t fds = 0) {
    send_bytes(encode(request_id, std::move(message)).value(), fds);
  }
  void greet(const InstanceId& as) { send(0, Hello{as}); }
  /// The same; returns when the node knows it.
  void introduce_to(Node& node, const InstanceId& as) {
    greet(as);
    send(0, Drop{{1}});
    EXPECT_TRUE(node.recorder.wait_seen(1));
    node.recorder.take_seen();
  }

  /// The next packet, waited for. Errors: timeout, and those of receive_packet().
  Result<Packet> next() {
    pollfd wait{fd(), POLLIN, 0};
    poll(&wait, 1, static_cast<int>(kPatienceMs));
    Result<std::optional<Packet>> packet = receive_packet(fd());
    if (!packet.ok()) return std::move(packet.error());
    if (!packet.value()) return make_error(ErrorKind::timeout, 0, "no packet came");
    return std::move(*packet.value());
  }
  /// The next packet as a message; nothing when there is none or it is broken.
  std::optional<Envelope> next_message() {
    const Result<Packet> packet = next();
    if (!packet.ok()) return std::nullopt;
    Result<Envelope> envelope = decode(packet.value().bytes);
    if (!envelope.ok()) return std::nullopt;
    return std::move(envelope.value());
  }
  /// True when the other side closes, after whatever it still sends.
  bool sees_the_end() {
    Result<Packet> packet = next();
    while (packet.ok()) packet = next();
    return packet.error().kind == ErrorKind::peer;
  }

 private:
  UniqueFd socket_;
};

/// A listener at an instance's name that accepts when it is told to.
class RawListener {
 public:
  RawListener() : socket_(std::move(listen_at(id).value())) {}
  /// Only for the queue's length: listen(2) again sets it anew.
  void shrink_queue() { ASSERT_EQ(listen(socket_.get(), 0), 0); }
  /// The next connection from this process. Jobs that pause meanwhile tell every process of this
  /// user: their connections are closed.
  std::unique_ptr<RawPeer> accept_one(int patience_ms = static_cast<int>(kPatienceMs)) {
    const Deadline deadline = Deadline::after_ms(patience_ms);
    for (pollfd wait{socket_.get(), POLLIN, 0}; poll(&wait, 1, deadline.left_ms()) == 1;) {
      UniqueFd accepted(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!accepted.valid()) return nullptr;
      const Result<pid_t> from = pid_of_peer(accepted.get());
      if (from.ok() && from.value() == getpid())
        return std::make_unique<RawPeer>(std::move(accepted));
    }
    return nullptr;
  }
  /// Nobody listens there any more.
  void close() { socket_.reset(); }
  const InstanceId id = random_instance_id();

 private:
  UniqueFd socket_;
};

/// Keeps how calls were completed. Declared before the nodes that call: they complete theirs at the
/// latest when they are destroyed.
struct Outcomes {
  std::function<void(Result<Received>)> add() {
    return [this](Result<Received> outcome) {
      MutexLock lock(mutex);
      all.push_back(std::move(outcome));
      changed.notify_all();
    };
  }
  bool wait(size_t count) {
    MutexLock lock(mutex);
    return changed.wait_until(mutex, patience(), [&] { return all.size() >= count; });
  }
  Mutex mutex;
  Condition changed;
  std::vector<Result<Received>> all;
};

/// Waits until `condition` holds, looking again every millisecond.
template <typename Condition>
bool eventually(Condition condition) {
  for (const Deadline deadline = patience(); !deadline.passed();) {
    if (condition()) return true;
    poll(nullptr, 0, 1);
  }
  return condition();
}

}  // namespace amem
