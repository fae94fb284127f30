// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/process_status.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/deadline.h"
#include "cli/failure.h"
#include "transport/connection.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

/// A connection to one process. This command does not listen, so no process connects to it.
struct Query {
  Answer answer;
  UniqueFd socket{};
  bool has_ended = false;
};

/// Nothing if the process has ended. The kernel accepts the connection of one that is stopped.
std::optional<Query> begin_query(const InstanceId& instance, const InstanceId& self,
                                 const Message& request, long timeout_ms) {
  Query query{{instance}};
  Result<UniqueFd> socket = dial(instance);
  if (!socket.ok()) {
    if (socket.error().kind == ErrorKind::peer) return std::nullopt;
    query.answer.silence = socket.error().message;
    return query;
  }
  query.socket = std::move(socket.value());
  const Result<pid_t> pid = pid_of_peer(query.socket.get());
  query.answer.pid = pid.ok() ? pid.value() : 0;
  query.answer.silence = fmt::format("no reply within {} ms", timeout_ms);
  (void)send_packet(query.socket.get(), {encode(0, Hello{self}).value(), {}});
  (void)send_packet(query.socket.get(), {encode(1, request).value(), {}});
  return query;
}

/// Adds a reply to what has arrived. False if another part follows.
bool take(Answer& answer, Message& reply) {
  auto* const part = std::get_if<StatusReply>(&reply);
  // A part of the maximum size is not the last one.
  const bool is_last = part == nullptr || part->json.size() < kMaxJsonBytes;
  if (auto* const before = std::get_if<StatusReply>(&answer.message); before && part)
    before->json += part->json;
  else
    answer.message = std::move(reply);
  return is_last;
}

/// Takes what has arrived. The query ends with the reply, or with the connection.
void take_packets(Query& query) {
  while (query.socket.valid()) {
    const Result<std::optional<Packet>> packet = receive_packet(query.socket.get());
    if (packet.ok() && !packet.value()) return;
    auto envelope = packet.ok() ? decode(packet.value()->bytes) : packet.error();
    if (envelope.ok() && role_of(envelope.value().message) == Role::greeting) continue;
    if (envelope.ok() && !take(query.answer, envelope.value().message)) continue;
    query.socket.reset();
    query.has_ended = !envelope.ok() && envelope.error().kind == ErrorKind::peer &&
                      !dial(query.answer.instance).ok();
    query.answer.silence = envelope.ok() ? "" : envelope.error().message;
  }
}

}  // namespace

std::vector<Answer> ask(const std::map<InstanceId, Message>& requests, long timeout_ms) {
  const InstanceId self = random_instance_id();
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::vector<Query> queries;
  for (const auto& [instance, request] : requests)
    if (auto query = begin_query(instance, self, request, timeout_ms))
      queries.push_back(std::move(*query));
  for (;;) {
    std::vector<pollfd> waiting;
    for (Query& query : queries) {
      take_packets(query);
      if (query.socket.valid()) waiting.push_back({query.socket.get(), POLLIN, 0});
    }
    if (waiting.empty() || deadline.passed()) break;
    (void)poll(waiting.data(), waiting.size(), static_cast<int>(deadline.left_ms()));
  }
  std::vector<Answer> out;
  for (Query& query : queries)
    if (!query.has_ended) out.push_back(std::move(query.answer));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return out;
}

std::set<InstanceId> known_instances() {
  const Result<std::set<InstanceId>> instances = instances_of_this_user();
  if (!instances.ok()) throw Failure(kFailed, instances.error().message);
  return instances.value();
}

std::string why_unknown(long pid) {
  struct stat process {};
  if (stat(fmt::format("/proc/{}", pid).c_str(), &process) != 0)
    return fmt::format("there is no process {}", pid);
  if (process.st_uid != geteuid())
    return fmt::format("process {0} is of user {1}: root sees it with --user {1}", pid,
                       process.st_uid);
  return fmt::format("process {} does not run amem: start it with amem run", pid);
}

std::vector<Answer> ask_status(long timeout_ms, bool attribution) {
  std::map<InstanceId, Message> requests;
  for (const InstanceId& instance : known_instances())
    requests[instance] = StatusQuery{attribution};
  // What amem writes has no escapes, and JSON no control characters without them.
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) <= '~' && c != '\\'; };
  std::vector<Answer> answers = ask(requests, timeout_ms);
  for (Answer& answer : answers)
    if (answer.silence.empty() && (!std::holds_alternative<StatusReply>(answer.message) ||
                                   !std::ranges::all_of(answer.json(), is_plain)))
      answer.silence = kNotParsed;
  return answers;
}

}  // namespace amem
