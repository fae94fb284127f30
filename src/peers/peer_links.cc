// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/peer_links.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "peers/socket_address.h"

namespace amem {
namespace {

/// Packets taken from one connection before the others get their turn.
constexpr int kPacketsPerTurn = 32;
/// Packets still taken from the connections of a peer that has ended. More than a socket's buffer
/// can hold of the smallest ones.
constexpr int kPacketsAtEnd = 4096;
constexpr int kDialPauseMs = 5;

PeerLinks::TimePoint in_ms(int ms) {
  return Deadline::Clock::now() + std::chrono::milliseconds(ms);
}

void keep_earlier(std::optional<PeerLinks::TimePoint>& next,
                  const std::optional<PeerLinks::TimePoint>& other) {
  if (other && (!next || *other < *next)) next = other;
}

}  // namespace

Link* PeerLinks::find_link(uint64_t token) {
  const auto found = links_.find(token);
  return found == links_.end() ? nullptr : found->second.get();
}

Result<Link*> PeerLinks::add_link(UniqueFd socket) {
  const Result<pid_t> pid = pid_of_peer(socket.get());
  if (!pid.ok()) return pid.error();
  const uint64_t token = next_token_++;
  Result<std::unique_ptr<Link>> link =
      Link::create(around_.epoll, token, TrackedFd(around_.ledger, std::move(socket)), pid.value());
  if (!link.ok()) return std::move(link.error());
  send(*link.value(), OutPacket{encode(0, around_.self).value(), {}});
  return links_.emplace(token, std::move(link.value())).first->second.get();
}

void PeerLinks::remove_link(uint64_t token) {
  const auto found = links_.find(token);
  if (found == links_.end()) return;
  if (is_silent(*found->second)) --silent_;
  links_.erase(found);
}

bool PeerLinks::has_room() const {
  return silent_ < around_.options.max_silent_connections &&
         links_.size() < around_.options.max_connections;
}

void PeerLinks::accept(UniqueFd socket) {
  const Result<Link*> link = add_link(std::move(socket));
  if (!link.ok()) return;
  link.value()->hello_by = in_ms(around_.options.hello_timeout_ms);
  ++silent_;
}

// --- Sending

void PeerLinks::deliver(const InstanceId& instance, OutPacket packet, Reach reach) {
  const auto found = peers_.find(instance);
  if (found == peers_.end() && reach == Reach::connected_only) return;
  Peer& peer = found != peers_.end() ? found->second : peers_[instance];
  peer.info.instance = instance;
  if (Link* link = peer.links.empty() ? nullptr : find_link(peer.links.front()))
    return send(*link, std::move(packet));
  if (reach == Reach::connected_only) return;
  if (peer.waiting_bytes > around_.options.max_queued_bytes) {
    // Of one that was connected all that counts is whether it lives.
    if (peer.broken) return;
    return give_up(instance,
                   make_error(ErrorKind::os, ENOBUFS, "%s accepts no connection and %zu bytes wait",
                              describe(instance).c_str(), peer.waiting_bytes));
  }
  peer.waiting_bytes += queue_cost_bytes(packet);
  peer.waiting.push_back(std::move(packet));
  if (peer.dial_again_at) return;
  peer.dial_until = in_ms(around_.options.dial_timeout_ms);
  dial_peer(instance, peer);
}

void PeerLinks::dial_peer(const InstanceId& instance, Peer& peer) {
  peer.dial_again_at.reset();
  Result<UniqueFd> socket = dial(instance);
  if (socket.ok() && socket.value().valid()) {
    const Status connected = connect(instance, peer, std::move(socket.value()));
    if (!connected.ok()) give_up(instance, connected.error());
  } else if (socket.ok()) {
    const bool late = Deadline::Clock::now() >= peer.dial_until;
    if (!late || around_.calls.any_for(instance))
      peer.dial_again_at = in_ms(kDialPauseMs);
    else
      give_up(instance, make_error(ErrorKind::timeout, 0, "%s accepted no connection within %d ms",
                                   describe(instance).c_str(), around_.options.dial_timeout_ms));
  } else if (socket.error().kind != ErrorKind::peer) {
    give_up(instance, socket.error());
  } else if (!peer.process) {
    forget(instance, socket.error());
  } else {
    // It lives, or is about to end, which the kernel will say.
    peer.waiting.clear();
    peer.waiting_bytes = 0;
    around_.calls.fail_restores(
        instance,
        make_error(ErrorKind::os, ECONNREFUSED, "%s does not listen", describe(instance).c_str()));
  }
}

Status PeerLinks::connect(const InstanceId& instance, Peer& peer, UniqueFd socket) {
  if (links_.size() >= around_.options.max_connections)
    return make_error(ErrorKind::os, EMFILE, "this process has %zu connections already",
                      links_.size());
  const Result<Link*> link = add_link(std::move(socket));
  if (!link.ok()) return link.error();
  link.value()->peer = instance;
  peer.info.pid = link.value()->pid;
  peer.links.push_back(link.value()->token);
  watch_process(instance, peer, *link.value());
  send_waiting(peer);
  return ok_status();
}

void PeerLinks::send_waiting(Peer& peer) {
  peer.dial_again_at.reset();
  peer.waiting_bytes = 0;
  for (OutPacket& packet : std::exchange(peer.waiting, {}))
    if (Link* link = find_link(peer.links.front())) send(*link, std::move(packet));
}

void PeerLinks::give_up(const InstanceId& instance, const Error& why) {
  const auto found = peers_.find(instance);
  if (!found->second.known) return forget(instance, why);
  found->second.waiting.clear();
  found->second.waiting_bytes = 0;
  found->second.dial_again_at.reset();
  around_.calls.fail_peer(instance, around_.calls.last_id(), why);
}

// --- Receiving

void PeerLinks::on_event(uint64_t token, uint32_t events) {
  if (processes_.contains(token)) return on_process_end(token);
  Link* link = find_link(token);
  if (link == nullptr) return;
  if ((events & EPOLLOUT) != 0) link->flush();
  if ((events & ~uint32_t{EPOLLOUT}) == 0) return;
  for (int taken = 0; taken < kPacketsPerTurn && read_one(token);) ++taken;
}

bool PeerLinks::read_one(uint64_t token) {
  Link* link = find_link(token);
  std::optional<Arrival> arrival = link != nullptr ? link->receive() : std::nullopt;
  if (!arrival) return false;
  Status taken = dispatch(*link, std::move(*arrival));
  if (taken.ok()) return true;
  link->fail(std::move(taken.error()));
  return false;
}

Status PeerLinks::check_version(const Link& link, const Arrival& arrival) {
  const uint8_t version = arrival.bytes.front();
  if (version == kWireVersion) return ok_status();
  if (!std::exchange(version_complained_, true))
    AMEM_LOG(warn, -1, "pid %d speaks wire version %u of amem, this process %u: they do not talk",
             link.pid, version, kWireVersion);
  return make_error(ErrorKind::protocol, EPROTONOSUPPORT,
                    "it speaks wire version %u, this process %u", version, kWireVersion);
}

Status PeerLinks::dispatch(Link& link, Arrival arrival) {
  AMEM_TRY(check_version(link, arrival));
  Result<Envelope> decoded = decode(arrival.bytes);
  if (!decoded.ok()) return std::move(decoded.error());
  Message& message = decoded.value().message;
  const uint64_t request_id = decoded.value().request_id;
  if (arrival.fds.size() != fds_of(message))
    return make_error(ErrorKind::protocol, 0, "%s came with %zu fds instead of %zu",
                      name_of(message), arrival.fds.size(), fds_of(message));

  const Role role = role_of(message);
  if ((role == Role::greeting) == link.greeted)
    return make_error(ErrorKind::protocol, 0, "%s came %s Hello", name_of(message),
                      link.greeted ? "after a" : "before");
  if (role == Role::greeting) return greet(link, std::get<Hello>(message));

  Received received{std::move(message), std::move(arrival.fds)};
  if (role == Role::reply)
    return around_.calls.complete(*link.peer, request_id, std::move(received));
  around_.handler.on_message(peers_.find(*link.peer)->second.info, request_id, std::move(received));
  return ok_status();
}

Status PeerLinks::greet(Link& link, const Hello& hello) {
  if (link.peer && *link.peer != hello.instance)
    return make_error(ErrorKind::protocol, 0, "it says that it is instance %s",
                      hello.instance.hex().c_str());
  const auto found = peers_.find(hello.instance);
  const bool is_held =
      found != peers_.end() && (!found->second.links.empty() || found->second.process);
  if (is_held && found->second.info.pid != link.pid)
    return make_error(ErrorKind::protocol, 0, "it says that it is instance %s, which is pid %d",
                      hello.instance.hex().c_str(), found->second.info.pid);

  Peer& peer = peers_[hello.instance];
  if (!link.peer) {
    link.peer = hello.instance;
    link.hello_by.reset();
    --silent_;
    peer.links.push_back(link.token);
  }
  link.greeted = true;
  peer.info = PeerInfo{hello.instance, link.pid, hello.group};
  peer.known = true;
  watch_process(hello.instance, peer, link);
  around_.directory.put(peer.info);
  send_waiting(peer);
  if (const auto broken = std::exchange(peer.broken, std::nullopt))
    around_.calls.fail_peer(hello.instance, peer.last_call_before,
                            make_error(ErrorKind::os, ECONNRESET,
                                       "the connection to pid %d broke and was made again: %s",
                                       link.pid, broken->message.c_str()));
  return ok_status();
}

// --- Ends

void PeerLinks::reap() {
  std::map<InstanceId, Error> disconnected;
  for (auto next = links_.begin(); next != links_.end();) {
    const Link& link = *(next++)->second;
    if (!link.failure()) continue;
    if (link.peer) {
      disconnected.emplace(*link.peer, *link.failure());
    } else {
      AMEM_LOG(debug, -1, "closed a connection: %s", link.failure()->message.c_str());
      remove_link(link.token);
    }
  }
  for (const auto& [instance, why] : disconnected) disconnect(instance, why);
}

void PeerLinks::disconnect(const InstanceId& instance, const Error& why) {
  Peer& peer = peers_.find(instance)->second;
  // What it sent before it closed counts, on whichever connection it lies.
  if (why.kind == ErrorKind::peer)
    for (uint64_t token : std::vector<uint64_t>(peer.links))
      for (int taken = 0; taken < kPacketsAtEnd && read_one(token);) ++taken;
  // Of another version has been said once, for all who speak it.
  if (why.kind == ErrorKind::protocol && why.code != EPROTONOSUPPORT) {
    AMEM_LOG(warn, -1, "closed the connection to a peer: %s", why.message.c_str());
  } else {
    AMEM_LOG(debug, -1, "lost the connection to a peer: %s", why.message.c_str());
  }
  for (uint64_t token : std::exchange(peer.links, {})) remove_link(token);

  if (why.kind == ErrorKind::protocol)
    around_.calls.fail_peer(instance, around_.calls.last_id(), why);
  if (!peer.broken) peer.dial_until = in_ms(around_.options.dial_timeout_ms);
  peer.broken = why;
  peer.last_call_before = around_.calls.last_id();
  // Not at once: the connections of a process that ends close one after another.
  const bool unsure = !peer.process && Deadline::Clock::now() < peer.dial_until;
  if (around_.calls.any_for(instance) || (peer.known && unsure))
    peer.dial_again_at = in_ms(kDialPauseMs);
  else if (!peer.known)
    forget(instance, why);
}

void PeerLinks::watch_process(const InstanceId& instance, Peer& peer, const Link& link) {
  if (peer.process) return;
  UniqueFd process = around_.options.process_at(link.fd());
  if (!process.valid()) return;
  const uint64_t token = next_token_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(around_.epoll, EPOLL_CTL_ADD, process.get(), &event) != 0) return;
  peer.process.emplace(around_.ledger, std::move(process));
  peer.process_token = token;
  processes_.emplace(token, instance);
}

void PeerLinks::on_process_end(uint64_t token) {
  const InstanceId instance = processes_.at(token);
  // What it sent before counts.
  for (uint64_t link : std::vector<uint64_t>(peers_.at(instance).links))
    for (int taken = 0; taken < kPacketsAtEnd && read_one(link);) ++taken;
  forget(instance, make_error(ErrorKind::peer, 0, "%s has ended", describe(instance).c_str()));
}

void PeerLinks::forget(const InstanceId& instance, const Error& why) {
  const Peer peer = std::move(peers_.at(instance));
  peers_.erase(instance);
  for (uint64_t token : peer.links) remove_link(token);
  if (peer.process) {
    epoll_ctl(around_.epoll, EPOLL_CTL_DEL, peer.process->get(), nullptr);
    processes_.erase(peer.process_token);
  }
  around_.directory.erase(instance);
  around_.calls.fail_peer(instance, around_.calls.last_id(), why);
  if (peer.known && why.kind == ErrorKind::peer) around_.handler.on_peer_gone(peer.info);
}

// --- Time

void PeerLinks::on_time(TimePoint now) {
  std::vector<InstanceId> due;
  for (const auto& [instance, peer] : peers_)
    if (peer.dial_again_at && *peer.dial_again_at <= now) due.push_back(instance);
  for (const InstanceId& instance : due) dial_peer(instance, peers_.at(instance));
  for (auto& [token, link] : links_) {
    link->on_time(now);
    if (link->hello_by && *link->hello_by <= now)
      link->fail(make_error(ErrorKind::protocol, 0, "it said no Hello within %d ms",
                            around_.options.hello_timeout_ms));
  }
}

std::optional<PeerLinks::TimePoint> PeerLinks::next_time() const {
  std::optional<TimePoint> next;
  for (const auto& [instance, peer] : peers_) keep_earlier(next, peer.dial_again_at);
  for (const auto& [token, link] : links_) keep_earlier(next, link->next_time());
  return next;
}

std::string PeerLinks::describe(const InstanceId& instance) const {
  const auto found = peers_.find(instance);
  const std::string name = "instance " + instance.hex();
  if (found == peers_.end() || found->second.info.pid == 0) return name;
  const Peer& peer = found->second;
  std::string text = "pid " + std::to_string(peer.info.pid) + " (" + name + ")";
  if (peer.broken && peer.process) return text + ", which has closed its connection but lives,";
  if (peer.broken) text += ", which has closed its connection,";
  return text;
}

}  // namespace amem
