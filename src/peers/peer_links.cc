// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "peers/peer_links.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "peers/instances.h"
#include "peers/socket_address.h"

namespace amem {
namespace {

/// Packets taken from one connection before the others get their turn.
constexpr int kPacketsPerTurn = 32;
/// Packets still taken from the other connection of a peer that has ended. More than a socket's
/// buffer can hold of the smallest ones.
constexpr int kPacketsAtEnd = 4096;
constexpr int kMaxDialPauseMs = 64;

void keep_earlier(std::optional<PeerLinks::TimePoint>& next,
                  const std::optional<PeerLinks::TimePoint>& other) {
  if (other && (!next || *other < *next)) next = other;
}

}  // namespace

PeerLinks::Link* PeerLinks::find_link(uint64_t token) {
  const auto found = links_.find(token);
  return found == links_.end() ? nullptr : found->second.get();
}

/// nullptr, with errno set, when the kernel cannot watch one more.
PeerLinks::Link* PeerLinks::add_link(UniqueFd socket, pid_t pid) {
  const uint64_t token = next_token_++;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  if (epoll_ctl(around_.epoll, EPOLL_CTL_ADD, socket.get(), &event) != 0) return nullptr;
  auto link = std::make_unique<Link>(token, TrackedFd(around_.ledger, std::move(socket)), pid);
  return links_.emplace(token, std::move(link)).first->second.get();
}

void PeerLinks::remove_link(uint64_t token) {
  Link* link = find_link(token);
  if (link == nullptr) return;
  if (is_silent(*link)) --silent_;
  // By hand: the kernel keeps watching a closed socket of which a forked child holds a copy.
  epoll_ctl(around_.epoll, EPOLL_CTL_DEL, link->connection.fd(), nullptr);
  links_.erase(token);
}

bool PeerLinks::has_room() const {
  return silent_ < around_.options.max_silent_connections &&
         links_.size() < around_.options.max_connections &&
         refused_.count() < around_.options.max_refused_connections;
}

void PeerLinks::accept(UniqueFd socket) {
  const Result<ucred> other = credentials_of(socket.get());
  if (!other.ok() || !around_.options.trusts(other.value())) {
    AMEM_LOG(debug, -1, "refused a connection: %s",
             other.ok() ? "process of another user" : other.error().message.c_str());
    refused_.close(TrackedFd(around_.ledger, std::move(socket)));
    return;
  }
  allow_fds(socket.get());
  Link* link = add_link(std::move(socket), other.value().pid);
  if (link == nullptr) return;
  link->hello_by = in_ms(around_.options.hello_timeout_ms);
  ++silent_;
  push(*link, OutPacket{encode(0, around_.self).value(), {}});
}

void PeerLinks::deliver(const InstanceId& instance, OutPacket packet, Reach reach) {
  auto found = peers_.find(instance);
  const bool stranger = found == peers_.end();
  if (stranger) {
    if (reach == Reach::connected_only) return;
    found = peers_.try_emplace(instance).first;
    found->second.info.instance = instance;
    found->second.dial_until = in_ms(around_.options.dial_timeout_ms);
  }
  Peer& peer = found->second;
  if (Link* link = peer.links.empty() ? nullptr : find_link(peer.links.front())) {
    push(*link, std::move(packet));
    return;
  }
  const bool is_full = peer.waiting_bytes > around_.options.max_queued_bytes;
  // While one that was connected is dialled again, all that we want to know is whether it lives.
  if (is_full && peer.broken) return;
  peer.waiting_bytes += queue_cost_bytes(packet);
  peer.waiting.push_back(std::move(packet));
  if (is_full)
    doom(instance, make_error(ErrorKind::peer, 0, "%s accepts no connection and %zu bytes wait",
                              describe(instance).c_str(), peer.waiting_bytes));
  if (stranger) dial_peer(instance, peer);
}

void PeerLinks::dial_peer(const InstanceId& instance, Peer& peer) {
  peer.dial_again_at.reset();
  if (links_.size() >= around_.options.max_connections) {
    doom(instance, make_error(ErrorKind::os, EMFILE, "this process has %zu connections already",
                              links_.size()));
    return;
  }
  Result<UniqueFd> socket = dial(instance);
  const bool has_ended = !socket.ok() && socket.error().kind == ErrorKind::peer;
  if (!socket.ok() && (has_ended || !peer.broken)) {
    doom(instance, std::move(socket.error()), has_ended);
  } else if (socket.ok() && socket.value().valid()) {
    connected(instance, peer, std::move(socket.value()));
  } else if (peer.dial_pause_ms == kMaxDialPauseMs && is_name_taken(instance)) {
    doom(instance, make_error(ErrorKind::peer, 0, "%s has ended", describe(instance).c_str()),
         /*has_ended=*/true);
  } else if (Deadline::Clock::now() >= peer.dial_until && !around_.calls.any_for(instance)) {
    doom(instance, make_error(ErrorKind::timeout, 0, "%s accepted no connection within %d ms",
                              describe(instance).c_str(), around_.options.dial_timeout_ms));
  } else {
    peer.dial_again_at = in_ms(peer.dial_pause_ms);
    peer.dial_pause_ms = std::min(2 * peer.dial_pause_ms, kMaxDialPauseMs);
  }
}

void PeerLinks::connected(const InstanceId& instance, Peer& peer, UniqueFd socket) {
  const Result<ucred> other = credentials_of(socket.get());
  if (!other.ok()) return doom(instance, other.error());
  if (!around_.options.trusts(other.value())) {
    refused_.close(TrackedFd(around_.ledger, std::move(socket)));
    // Nobody has the name of a process of ours but it, while it lives.
    return doom(instance,
                make_error(ErrorKind::peer, EPERM, "instance %s is user %u's, pid %d",
                           instance.hex().c_str(), other.value().uid, other.value().pid),
                /*has_ended=*/true);
  }
  allow_fds(socket.get());
  Link* link = add_link(std::move(socket), other.value().pid);
  if (link == nullptr) return doom(instance, os_error(errno, "epoll_ctl(EPOLL_CTL_ADD)"));
  link->peer = instance;
  peer.info.pid = link->pid;
  peer.links.push_back(link->token);
  push(*link, OutPacket{encode(0, around_.self).value(), {}});
  send_waiting(peer);
}

void PeerLinks::send_waiting(Peer& peer) {
  peer.dial_again_at.reset();
  peer.waiting_bytes = 0;
  for (OutPacket& packet : std::exchange(peer.waiting, {}))
    if (Link* link = find_link(peer.links.front())) push(*link, std::move(packet));
}

void PeerLinks::push(Link& link, OutPacket packet) {
  link.connection.queue(std::move(packet));
  if (!link.wants_writable && !link.flush_again_at) flush(link);
  if (link.connection.queued_bytes() > around_.options.max_queued_bytes)
    doom(link, make_error(ErrorKind::os, ENOBUFS, "pid %d does not read: %zu bytes wait for it",
                          link.pid, link.connection.queued_bytes()));
}

void PeerLinks::flush(Link& link) {
  link.flush_again_at.reset();
  Result<Connection::Flushed> left = link.connection.flush();
  if (!left.ok()) {
    Error why = std::move(left.error());
    why.message = "pid " + std::to_string(link.pid) + ": " + why.message;
    link.wants_writable = false;
    watch(link);
    // One that has not said Hello may have left it, and more, for us to read before it closed.
    if (link.peer) doom(link, std::move(why));
    return;
  }
  if (left.value() == Connection::Flushed::starved) link.flush_again_at = in_ms(kStarvedPauseMs);
  const bool blocked = left.value() == Connection::Flushed::blocked;
  if (std::exchange(link.wants_writable, blocked) != blocked) watch(link);
}

void PeerLinks::watch(Link& link) {
  epoll_event event{};
  if (!link.read_again_at) event.events |= EPOLLIN;
  if (link.wants_writable) event.events |= EPOLLOUT;
  event.data.u64 = link.token;
  // Otherwise a packet that waits for room, or for us, would wait for ever.
  if (epoll_ctl(around_.epoll, EPOLL_CTL_MOD, link.connection.fd(), &event) != 0)
    link.read_again_at = in_ms(kStarvedPauseMs);
}

void PeerLinks::on_event(uint64_t token, uint32_t events) {
  Link* link = find_link(token);
  if (link == nullptr) return;
  if ((events & EPOLLOUT) != 0) flush(*link);
  if ((events & ~uint32_t{EPOLLOUT}) == 0) return;
  for (int taken = 0; taken < kPacketsPerTurn && read_one(token);) ++taken;
}

void PeerLinks::on_time(TimePoint now) {
  for (auto& [instance, peer] : peers_)
    if (peer.dial_again_at && *peer.dial_again_at <= now) dial_peer(instance, peer);
  for (auto& [token, link] : links_) {
    if (link->flush_again_at && *link->flush_again_at <= now) flush(*link);
    if (link->read_again_at && *link->read_again_at <= now) {
      link->read_again_at.reset();
      watch(*link);
    }
    if (link->hello_by && *link->hello_by <= now)
      doom(*link, make_error(ErrorKind::protocol, 0, "pid %d said no Hello within %d ms", link->pid,
                             around_.options.hello_timeout_ms));
  }
}

std::optional<PeerLinks::TimePoint> PeerLinks::next_time() const {
  std::optional<TimePoint> next;
  for (const auto& [instance, peer] : peers_) keep_earlier(next, peer.dial_again_at);
  for (const auto& [token, link] : links_) {
    keep_earlier(next, link->flush_again_at);
    keep_earlier(next, link->read_again_at);
    keep_earlier(next, link->hello_by);
  }
  return next;
}

std::string PeerLinks::describe(const InstanceId& instance) const {
  const auto found = peers_.find(instance);
  const std::string name = "instance " + instance.hex();
  if (found == peers_.end() || found->second.info.pid == 0) return name;
  return "pid " + std::to_string(found->second.info.pid) + " (" + name + ")";
}

void PeerLinks::doom(const Link& link, Error why) {
  if (link.peer) return doomed_peers_.push_back({*link.peer, std::move(why), false, link.token});
  AMEM_LOG(debug, -1, "closed a connection: %s", why.message.c_str());
  doomed_links_.push_back(link.token);
}

void PeerLinks::doom(const InstanceId& peer, Error why, bool has_ended) {
  doomed_peers_.push_back({peer, std::move(why), has_ended});
}

void PeerLinks::reap() {
  while (!doomed_peers_.empty() || !doomed_links_.empty()) {
    for (uint64_t token : std::exchange(doomed_links_, {})) remove_link(token);
    for (Loss& loss : std::exchange(doomed_peers_, {})) lose(std::move(loss));
  }
}

void PeerLinks::lose(Loss loss) {
  auto found = peers_.find(loss.peer);
  if (found == peers_.end() || (loss.link != 0 && find_link(loss.link) == nullptr)) return;
  // What a peer sent before it ended counts, on whichever connection it lies.
  if (loss.why.kind == ErrorKind::peer)
    for (uint64_t token : std::vector<uint64_t>(found->second.links))
      for (int taken = 0; taken < kPacketsAtEnd && read_one(token);) ++taken;

  Peer& peer = found->second;
  // Of another version has been said once, for all who speak it.
  if (loss.why.kind == ErrorKind::protocol && loss.why.code != EPROTONOSUPPORT) {
    AMEM_LOG(warn, -1, "closed the connection to a peer: %s", loss.why.message.c_str());
  } else {
    AMEM_LOG(debug, -1, "lost the connection to a peer: %s", loss.why.message.c_str());
  }
  const bool was_connected = !peer.links.empty();
  for (uint64_t token : std::exchange(peer.links, {})) remove_link(token);
  const bool given_up = peer.broken && Deadline::Clock::now() >= peer.dial_until;
  if (peer.known && was_connected && !given_up)
    dial_again(peer, std::move(loss));
  else
    forget(loss);
}

/// Soon, not at once: the connections of a process that ends close one after another.
void PeerLinks::dial_again(Peer& peer, Loss loss) {
  if (!peer.broken) peer.dial_until = in_ms(around_.options.dial_timeout_ms);
  peer.last_call_before = around_.calls.last_id();
  peer.dial_again_at = in_ms(peer.dial_pause_ms);
  peer.dial_pause_ms = std::min(2 * peer.dial_pause_ms, kMaxDialPauseMs);
  peer.broken = std::move(loss.why);
  if (peer.broken->kind == ErrorKind::protocol)
    around_.calls.fail_peer(loss.peer, peer.last_call_before, *peer.broken);
}

void PeerLinks::forget(const Loss& loss) {
  const InstanceId instance = loss.peer;
  const Peer peer = std::move(peers_.find(instance)->second);
  peers_.erase(instance);
  around_.directory.erase(instance);
  around_.calls.fail_peer(instance, around_.calls.last_id(), loss.why);
  if (peer.known && loss.has_ended) around_.handler.on_peer_gone(peer.info);
}

}  // namespace amem
