// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/identity.h"
#include "transport/message.h"

namespace amem {

/// The reply of one amem process to a request, or why there is none.
struct Answer {
  InstanceId instance;
  long pid = 0;           ///< from the kernel; 0 if it is not visible in this pid namespace
  Message message{};      ///< of a StatusReply: its parts, joined
  std::string silence{};  ///< why there is no reply

  /// Of a StatusReply: an unparsed JSON object.
  const std::string& json() const { return std::get<StatusReply>(message).json; }
};

/// Sends each process its request at the same time and waits for the replies, up to `timeout_ms`.
/// Omits processes that have ended.
std::vector<Answer> ask(const std::map<InstanceId, Message>& requests, long timeout_ms);

/// Why a reply that has arrived counts as none.
inline constexpr char kNotParsed[] =
    "its reply cannot be parsed: it may be another version of amem";

/// The amem processes of this user. Throws Failure.
std::set<InstanceId> known_instances();

/// Why a process is not among those that have answered, and what to do.
std::string why_unknown(long pid);

/// Queries all processes at the same time and waits for each, up to `timeout_ms`. Omits processes
/// that have ended. Sorted by pid. `attribution`: whose their memory is, in place of the status.
/// The messages are StatusReplies.
std::vector<Answer> ask_status(long timeout_ms, bool attribution = false);

}  // namespace amem
