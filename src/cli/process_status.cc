// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/process_status.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <optional>

#include "base/deadline.h"
#include "transport/connection.h"
#include "transport/message.h"
#include "transport/socket_address.h"

namespace amem {
namespace {

/// A connection to one process. This command does not listen, so no process connects to it.
struct Query {
  InstanceId instance;
  UniqueFd socket;
  ProcessStatus status;
  bool has_ended = false;
};

/// Nothing if the process has ended. The kernel accepts the connection of one that is stopped.
std::optional<Query> begin_query(const InstanceId& instance, const InstanceId& self,
                                 long timeout_ms) {
  Query query{instance, UniqueFd(), {}};
  Result<UniqueFd> socket = dial(instance);
  if (!socket.ok()) {
    if (socket.error().kind == ErrorKind::peer) return std::nullopt;
    query.status.silence = socket.error().message;
    return query;
  }
  query.socket = std::move(socket.value());
  const Result<pid_t> pid = pid_of_peer(query.socket.get());
  query.status.pid = pid.ok() ? pid.value() : 0;
  query.status.silence = fmt::format("no reply within {} ms", timeout_ms);
  (void)send_packet(query.socket.get(), {encode(0, Hello{self}).value(), {}});
  (void)send_packet(query.socket.get(), {encode(1, StatusQuery{}).value(), {}});
  return query;
}

/// Takes what has arrived. The query ends with the reply, or with the connection.
void take_packets(Query& query) {
  while (query.socket.valid()) {
    const Result<std::optional<Packet>> packet = receive_packet(query.socket.get());
    if (packet.ok() && !packet.value()) return;
    const auto envelope = packet.ok() ? decode(packet.value()->bytes) : packet.error();
    if (envelope.ok() && std::holds_alternative<Hello>(envelope.value().message)) continue;
    const auto* const reply =
        envelope.ok() ? std::get_if<StatusReply>(&envelope.value().message) : nullptr;
    if (reply != nullptr) query.status.json += reply->json;
    // A part of the maximum size is not the last one.
    if (reply != nullptr && reply->json.size() == kMaxJsonBytes) continue;
    query.socket.reset();
    query.has_ended =
        !envelope.ok() && envelope.error().kind == ErrorKind::peer && !dial(query.instance).ok();
    if (!envelope.ok()) query.status.silence = envelope.error().message;
    if (reply != nullptr) query.status.silence.clear();
  }
}

}  // namespace

std::vector<ProcessStatus> ask_status(const std::set<InstanceId>& instances, long timeout_ms) {
  const InstanceId self = random_instance_id();
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  std::vector<Query> queries;
  for (const InstanceId& instance : instances)
    if (auto query = begin_query(instance, self, timeout_ms)) queries.push_back(std::move(*query));
  for (;;) {
    std::vector<pollfd> waiting;
    for (Query& query : queries) {
      take_packets(query);
      if (query.socket.valid()) waiting.push_back({query.socket.get(), POLLIN, 0});
    }
    if (waiting.empty() || deadline.passed()) break;
    (void)poll(waiting.data(), waiting.size(), static_cast<int>(deadline.left_ms()));
  }
  std::vector<ProcessStatus> out;
  for (Query& query : queries)
    if (!query.has_ended) out.push_back(std::move(query.status));
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return out;
}

}  // namespace amem
