// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "transport/peer_links.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"

namespace amem {
namespace {

bool has_hung_up(int socket) {
  pollfd state{socket, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0;
}

/// The time between two attempts while the kernel lacks memory or a process is ending.
constexpr int kRetryMs = 10;
/// The same while another host does not accept a connection, or closes it.
constexpr int kRetryHostMs = 500;
constexpr uint64_t kListenerToken = PeerLinks::kFirstToken - 1;
constexpr uint64_t kHostsToken = PeerLinks::kFirstToken - 2;
/// Connections that are accepted before other events.
constexpr int kMostAtOnce = 64;

}  // namespace

Result<std::unique_ptr<PeerLinks>> PeerLinks::create(const Hello& self, PeerHandler& handler,
                                                     const PeerOptions& options, int epoll) {
  std::unique_ptr<PeerLinks> links(new PeerLinks(self, handler, options, epoll));
  UniqueFd socket = AMEM_TRY(listen_at(self.instance));
  links->listener_.emplace(AMEM_TRY(WatchedFd::create(epoll, kListenerToken, std::move(socket))));
  return links;
}

void PeerLinks::open_to_hosts(UniqueFd listener, const JobKey& key, uint16_t port) {
  Result<WatchedFd> watched = WatchedFd::create(epoll_, kHostsToken, std::move(listener));
  if (watched.ok()) hosts_.emplace(Hosts{std::move(watched.value()), key, port});
}

// --- Connections

Connection* PeerLinks::find_connection(uint64_t token) {
  const auto found = connections_.find(token);
  return found == connections_.end() ? nullptr : found->second.get();
}

PeerLinks::Peer& PeerLinks::peer_at(const InstanceId& instance) {
  Peer& peer = peers_[instance];
  peer.info.instance = instance;
  return peer;
}

std::unique_ptr<HostStream> PeerLinks::stream_to(const HostAddress& address, bool is_dialled) {
  return std::make_unique<HostStream>(hosts_->key, hosts_->port, address, is_dialled);
}

Result<Connection*> PeerLinks::add_connection(UniqueFd socket, std::unique_ptr<HostStream> stream,
                                              uint64_t* token) {
  const pid_t pid = AMEM_TRY(pid_of_peer(socket.get()));
  *token = next_token_++;
  WatchedFd watched = AMEM_TRY(WatchedFd::create(epoll_, *token, std::move(socket)));
  auto connection = std::make_unique<Connection>(std::move(watched), pid, std::move(stream));
  connection->send(Packet{encode(0, self_).value(), {}});
  if (connection->is_stalled()) retry_soon();
  return connections_.emplace(*token, std::move(connection)).first->second.get();
}

/// Connections that cannot be accepted stay in the listener's queue.
void PeerLinks::accept_waiting(WatchedFd& listener) {
  for (int i = 0; i < kMostAtOnce; ++i) {
    UniqueFd socket(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int code = socket.valid() ? 0 : errno;
    if (code == EAGAIN) return;
    if (code == ECONNABORTED) continue;
    if (code != 0) {
      AMEM_LOG(debug, -1, "connections wait to be accepted: %s",
               os_error(code, "accept4()").message.c_str());
      (void)listener.watch(0);
      return retry_soon();
    }
    uint64_t token = 0;
    std::unique_ptr<HostStream> stream;
    if (&listener != &*listener_) {
      end_when_cut_off(socket.get());
      stream = stream_to(address_of_peer(socket.get()), false);
    }
    if (!add_connection(std::move(socket), std::move(stream), &token).ok()) continue;
    guests_.emplace(token, Deadline::after_ms(options_.guest_ms));
    if (guests_.size() > kMaxGuests) dismiss_guest(guest_to_dismiss());
  }
}

void PeerLinks::watch_process(Peer& peer, int socket) {
  if (peer.process) return;
  UniqueFd process = options_.process_at(socket);
  if (!process.valid()) return;
  const uint64_t token = next_token_++;
  Result<WatchedFd> watched = WatchedFd::create(epoll_, token, std::move(process));
  if (!watched.ok()) return;
  peer.process.emplace(std::move(watched.value()));
  peer.mappings.emplace(mappings_of_process(peer.process->get()));
  processes_.emplace(token, peer.info.instance);
}

bool PeerLinks::dial_peer(const InstanceId& instance) {
  uint64_t token = 0;
  Result<UniqueFd> socket = dial(instance);
  const auto address = addresses_.find(instance);
  const Peer& wanted = peers_.at(instance);
  const bool is_here = socket.ok() || socket.error().kind != ErrorKind::peer ||
                       (wanted.known && wanted.info.remote_name.empty());
  std::unique_ptr<HostStream> stream;
  if (!is_here && hosts_ && address != addresses_.end()) {
    stream = stream_to(address->second, true);
    socket = dial_host(address->second, hosts_->listener.get());
  }
  const Result<Connection*> connection =
      socket.ok() ? add_connection(std::move(socket.value()), std::move(stream), &token)
                  : socket.error();
  if (!connection.ok()) {
    on_dial_failed(instance, connection.error());
    return false;
  }
  Peer& peer = peers_.at(instance);
  connection.value()->peer = instance;
  peer.info.pid = connection.value()->pid;
  if (peer.info.remote_name.empty()) peer.info.remote_name = connection.value()->remote_name();
  peer.connections.push_back(token);
  watch_process(peer, connection.value()->fd());
  return true;
}

void PeerLinks::on_dial_failed(const InstanceId& instance, const Error& why) {
  if (why.kind == ErrorKind::peer && forget_after_exec(instance)) return;
  Peer& peer = peers_.at(instance);
  // A process that was reached but has never sent Hello may have called exec(3). It shares nothing.
  if (why.kind == ErrorKind::peer && (!peer.process || !peer.known)) return forget(instance, why);
  if (why.kind != ErrorKind::peer && peer.known && !peer.info.remote_name.empty()) {
    if (!peer.broken) peer.broken = why;
    peer.lost_calls.merge(peer.calls);  // until its host can be reached
    return redial_soon(peer);
  }
  if (why.kind != ErrorKind::peer) {
    fail(peer.calls, why);
    if (!peer.known && !peer.process) return forget(instance, why);
    return redial_soon(peer);
  }
  // The process lives, or its end will be reported by its pidfd. Its calls wait for that, except
  // Restore, which only a process that listens can carry out.
  const size_t restore = Message(Restore{}).index();
  std::map<uint64_t, Call> restores;
  for (auto* calls : {&peer.calls, &peer.lost_calls})
    for (auto next = calls->begin(); next != calls->end();) {
      const auto call = next++;
      if (call->second.request == restore) restores.insert(calls->extract(call));
    }
  peer.lost_calls.merge(peer.calls);
  redial_soon(peer);
  fail(restores, os_error(ECONNREFUSED, "%s does not listen", describe(peer).c_str()));
}

// --- Sending

void PeerLinks::call(const InstanceId& instance, uint64_t request_id, Call call, Packet packet) {
  peer_at(instance).calls.emplace(request_id, std::move(call));
  send(instance, std::move(packet));
}

void PeerLinks::send(const InstanceId& instance, Packet packet) {
  if (Peer& peer = peer_at(instance); !peer.is_partner) make_partner(peer);
  if (!peers_.at(instance).connections.empty() || dial_peer(instance))
    reply(instance, std::move(packet), SIZE_MAX);
}

void PeerLinks::reply(const InstanceId& instance, Packet packet, size_t most_queued) {
  const auto peer = peers_.find(instance);
  if (peer == peers_.end() || peer->second.connections.empty()) return;
  Connection& connection = *find_connection(peer->second.connections.front());
  if (connection.queued() > most_queued) return connection.shut_down();
  connection.send(std::move(packet));
  if (connection.is_stalled()) retry_soon();
}

// --- Receiving

void PeerLinks::on_event(uint64_t token, uint32_t events) {
  if (token == kListenerToken) return accept_waiting(*listener_);
  if (token == kHostsToken) return accept_waiting(hosts_->listener);
  if (const auto process = processes_.find(token); process != processes_.end())
    return on_process_end(InstanceId(process->second));
  Connection* connection = find_connection(token);
  if (connection == nullptr) return;
  if (connection->stream) {
    Status connected = connection->stream->check_connected(connection->fd());
    if (!connected.ok()) return remove_connection(token, std::move(connected.error()));
  }
  if ((events & EPOLLOUT) != 0) connection->flush();
  if (connection->is_stalled()) retry_soon();
  if ((events & ~uint32_t{EPOLLOUT}) != 0) read_one(token);
}

bool PeerLinks::read_one(uint64_t token) {
  Connection* connection = find_connection(token);
  if (connection == nullptr) return false;
  Result<std::optional<Packet>> packet = connection->receive();
  if (packet.ok() && !packet.value()) return false;
  Status taken = packet.ok() ? dispatch(token, *connection, std::move(*packet.value()))
                             : Status(std::move(packet.error()));
  if (!taken.ok()) remove_connection(token, std::move(taken.error()));
  return taken.ok();
}

Status PeerLinks::dispatch(uint64_t token, Connection& connection, Packet packet) {
  Envelope decoded = AMEM_TRY(decode(packet.bytes));
  Message& message = decoded.message;
  const uint64_t request_id = decoded.request_id;
  if (packet.fds.size() != fds_of(message))
    return protocol_error("%s came with %zu fds instead of %zu", name_of(message),
                          packet.fds.size(), fds_of(message));

  const Role role = role_of(message);
  if ((role == Role::greeting) == connection.greeted)
    return protocol_error("%s came %s Hello", name_of(message),
                          connection.greeted ? "after a" : "before");
  if (role == Role::greeting) return greet(token, connection, std::get<Hello>(message));

  Peer& peer = peers_.at(*connection.peer);
  const bool is_control = std::holds_alternative<Control>(message);
  const bool is_query = std::holds_alternative<StatusQuery>(message) ||
                        std::holds_alternative<HostMemoryQuery>(message) || is_control;
  if (is_query && connection.stream)
    return protocol_error("%s came from another host", name_of(message));
  // Who no longer waits for the answer has told the job that this process did not pause.
  if (is_control && has_hung_up(connection.fd())) return ok_status();
  if (is_query && !peer.is_partner && connection.queued() > 0)
    return protocol_error("it does not read the replies to its queries");
  Received received{std::move(message), std::move(packet.fds), connection.pid,
                    connection.remote_name()};
  if (role == Role::reply) return complete(peer, request_id, std::move(received));
  handler_.on_message(peer.info, request_id, std::move(received));
  if (!peer.is_partner && !is_query && handler_.needs_end_of(peer.info)) make_partner(peer);
  return ok_status();
}

Status PeerLinks::greet(uint64_t token, Connection& connection, const Hello& hello) {
  if (connection.stream && connection.peer && *connection.peer != hello.instance)
    return make_error(ErrorKind::peer, ECONNREFUSED, "another process listens there");
  if (connection.peer && *connection.peer != hello.instance)
    return protocol_error("it says that it is instance %s", hello.instance.hex().c_str());
  finish_former(hello.instance, connection);
  Peer& peer = peer_at(hello.instance);
  if ((!peer.connections.empty() || peer.process) &&
      (peer.info.pid != connection.pid || peer.info.remote_name.empty() != !connection.stream))
    return protocol_error("it says that it is instance %s, which is pid %d",
                          hello.instance.hex().c_str(), peer.info.pid);

  if (!connection.peer) {
    connection.peer = hello.instance;
    peer.connections.push_back(token);
  }
  connection.greeted = true;
  peer.info = PeerInfo{hello.instance, connection.pid, connection.remote_name()};
  // The address of an imported handle is the listener's; that of a connection may be translated.
  if (connection.stream && !addresses_.contains(hello.instance))
    locate(hello.instance, connection.stream->address());
  peer.known = true;
  if (peer.is_partner) make_partner(peer);
  if (const auto broken = std::exchange(peer.broken, std::nullopt))
    fail(peer.lost_calls,
         make_error(ErrorKind::os, ECONNRESET, "the connection to %s broke and was made again: %s",
                    connection.name().c_str(), broken->message.c_str()));
  return ok_status();
}

/// What a peer sent on other connections comes before what it sends on its next one. It dials when
/// it has none left: those that it dialled before have broken, also if no end has arrived.
void PeerLinks::finish_former(const InstanceId& instance, const Connection& next) {
  const auto peer = peers_.find(instance);
  if (peer == peers_.end()) return;
  for (const uint64_t token : std::vector<uint64_t>(peer->second.connections)) {
    Connection* const former = find_connection(token);
    if (former == nullptr || former == &next) continue;
    const auto is_accepted = [](const Connection& one) {
      return one.stream && !one.stream->is_dialled();
    };
    const bool has_broken = is_accepted(*former) && is_accepted(next);
    if (has_broken) former->shut_down();
    while (read_one(token)) {
    }
  }
}

/// A reply without a pending call is dropped.
Status PeerLinks::complete(Peer& peer, uint64_t request_id, Received reply) {
  const auto call = peer.calls.extract(request_id);
  if (call.empty()) return ok_status();
  const size_t request = call.mapped().request;
  if (answers(reply.message, request)) {
    call.mapped().done(std::move(reply));
    return ok_status();
  }
  Error wrong =
      protocol_error("%s answered with %s", name_of_type(request), name_of(reply.message));
  call.mapped().done(wrong);
  return wrong;
}

/// Oldest first.
void PeerLinks::fail(std::map<uint64_t, Call>& calls, const Error& why) {
  for (auto& [id, call] : std::exchange(calls, {})) call.done(why);
}

// --- Ends

void PeerLinks::remove_connection(uint64_t token, Error why) {
  guests_.erase(token);
  const auto removed = connections_.extract(token);
  const Connection& connection = *removed.mapped();
  why.message = connection.name() + ": " + why.message;
  if (why.kind == ErrorKind::protocol && warned_.size() < kMaxWarned &&
      warned_.insert(connection.name()).second)
    AMEM_LOG(warn, -1, "closed the connection to a peer: %s", why.message.c_str());
  else
    AMEM_LOG(debug, -1, "a connection ended: %s", why.message.c_str());
  if (!connection.peer) return;
  Peer& peer = peers_.at(*connection.peer);
  std::erase(peer.connections, token);
  if (!peer.broken || why.kind == ErrorKind::protocol) peer.broken = why;
  // Messages that have arrived on the other connections are processed.
  for (uint64_t other : peer.connections) find_connection(other)->shut_down();
  const bool is_dial = connection.stream && (!connection.stream->is_connected() ||
                                             (why.kind == ErrorKind::peer && why.code != 0));
  if (!peer.connections.empty()) return;
  if (is_dial) return on_dial_failed(InstanceId(*connection.peer), why);
  on_disconnected(InstanceId(*connection.peer), connection.greeted);
}

void PeerLinks::on_disconnected(const InstanceId& instance, bool was_greeted) {
  if (forget_after_exec(instance)) return;
  Peer& peer = peers_.at(instance);
  const Error why = *peer.broken;
  peer.lost_calls.merge(peer.calls);
  if (why.kind == ErrorKind::protocol) fail(peer.lost_calls, why);
  if (!peer.is_partner) return forget(instance, why);
  redial_soon(peer, was_greeted);
  if (!peer.known && peer.lost_calls.empty()) forget(instance, why);
}

/// Connects again if calls wait for it, or to find out whether the peer lives.
void PeerLinks::redial_soon(const Peer& peer, bool was_greeted) {
  if (peer.lost_calls.empty() && (peer.process || !peer.known)) return;
  const bool is_here = peer.info.remote_name.empty();
  broken_.emplace(peer.info.instance,
                  Deadline::after_ms(is_here || was_greeted ? kRetryMs : kRetryHostMs));
}

void PeerLinks::on_process_end(const InstanceId& instance) {
  // Messages that it has sent before are processed.
  for (uint64_t token : std::vector<uint64_t>(peers_.at(instance).connections)) {
    find_connection(token)->shut_down();
    while (read_one(token)) {
    }
  }
  if (const auto peer = peers_.find(instance); peer != peers_.end())
    forget(instance, peer_error("%s has ended", describe(peer->second).c_str()));
}

bool PeerLinks::forget_after_exec(const InstanceId& instance) {
  const Peer& peer = peers_.at(instance);
  if (!peer.mappings || !have_ended(peer.mappings->get())) return false;
  forget(instance, peer_error("process %d has ended or runs another program", peer.info.pid));
  return true;
}

void PeerLinks::forget(const InstanceId& instance, const Error& why) {
  auto forgotten = peers_.extract(instance);
  addresses_.erase(instance);
  Peer& peer = forgotten.mapped();
  for (uint64_t token : peer.connections) connections_.erase(token);
  std::erase_if(processes_, [&](const auto& process) { return process.second == instance; });
  peer.lost_calls.merge(peer.calls);
  fail(peer.lost_calls, why);
  if (peer.known) handler_.on_peer_gone(peer.info);
}

// --- Time

void PeerLinks::retry_soon() {
  if (!retry_at_) retry_at_ = Deadline::after_ms(kRetryMs);
}

void PeerLinks::on_time() {
  std::map<uint64_t, std::pair<Call, std::string>> late;
  for (auto& [instance, peer] : peers_)
    for (auto* calls : {&peer.calls, &peer.lost_calls})
      for (auto next = calls->begin(); next != calls->end();) {
        const auto call = next++;
        if (!call->second.deadline.passed()) continue;
        late.emplace(call->first, std::pair(std::move(call->second), describe(peer)));
        calls->erase(call);
      }
  for (auto& [id, call] : late)
    call.first.done(timeout_error("%s did not answer %s before the deadline", call.second.c_str(),
                                  name_of_type(call.first.request)));

  while (!guests_.empty() && guests_.begin()->second.passed())
    dismiss_guest(guests_.begin()->first);
  for (auto next = broken_.begin(); next != broken_.end();) {
    const auto [instance, at] = *next;
    next = at.passed() ? broken_.erase(next) : std::next(next);
    if (at.passed() && peers_.contains(instance) && peers_.at(instance).connections.empty())
      dial_peer(instance);
  }
  if (!retry_at_ || !retry_at_->passed()) return;
  retry_at_.reset();
  for (const auto& [token, connection] : connections_) {
    if (connection->is_stalled()) connection->flush();
    if (connection->is_stalled()) retry_soon();
  }
  if (!listener_->watch(EPOLLIN).ok()) retry_soon();
  if (hosts_ && !hosts_->listener.watch(EPOLLIN).ok()) retry_soon();
}

std::optional<Deadline> PeerLinks::next_time() const {
  std::optional<Deadline> next = retry_at_;
  const auto consider = [&next](const Deadline& other) {
    if (!next || other.at() < next->at()) next = other;
  };
  if (!guests_.empty()) consider(guests_.begin()->second);
  for (const auto& [instance, at] : broken_) consider(at);
  for (const auto& [instance, peer] : peers_)
    for (const auto* calls : {&peer.calls, &peer.lost_calls})
      for (const auto& [id, call] : *calls) consider(call.deadline);
  return next;
}

void PeerLinks::fail_all(const Error& why) {
  for (auto& [instance, peer] : peers_)
    for (auto* calls : {&peer.calls, &peer.lost_calls}) fail(*calls, why);
}

std::string PeerLinks::describe(const Peer& peer) {
  const std::string name = "instance " + peer.info.instance.hex();
  const bool is_here = peer.info.remote_name.empty();
  if (is_here && peer.info.pid == 0) return name;
  const std::string text =
      (is_here ? "pid " + std::to_string(peer.info.pid) : peer.info.remote_name) + " (" + name +
      ")";
  if (!peer.broken) return text;
  if (!is_here) return text + ", which cannot be reached (" + peer.broken->message + "),";
  return text + (peer.process ? ", which has closed its connection but lives,"
                              : ", which has closed its connection,");
}

// --- Limits for connections of processes with which this one shares nothing

void PeerLinks::make_partner(Peer& peer) {
  peer.is_partner = true;
  for (uint64_t token : peer.connections) guests_.erase(token);
  if (!peer.connections.empty())
    watch_process(peer, find_connection(peer.connections.front())->fd());
}

/// The oldest one of another host, whom the network lets through; else the oldest one.
uint64_t PeerLinks::guest_to_dismiss() {
  for (const auto& [token, deadline] : guests_)
    if (find_connection(token)->stream) return token;
  return guests_.begin()->first;
}

void PeerLinks::dismiss_guest(uint64_t token) {
  // Its Hello and its first request may have arrived.
  for (int i = 0; i < 2 && read_one(token);) ++i;
  if (guests_.contains(token))
    remove_connection(token, timeout_error("it has requested nothing but the status"));
}

}  // namespace amem
