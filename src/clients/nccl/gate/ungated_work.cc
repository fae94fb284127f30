// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// NCCL work that does not pass the gate.

#include "base/log.h"
#include "clients/nccl/buffer_contents.h"
#include "clients/nccl/gate/call_gate.h"

namespace amem {

Status CallGate::admit_ungated(const char* call, long timeout_ms) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  MutexLock lock(peers_.mutex);
  // NCCL launches a group's work on threads of its own, for a thread that is inside.
  fence_.heavy();
  if (!find_inside(nullptr, t_thread_).empty()) return ok_status();
  ungated_ = true;
  update();
  if (!process_closed_.empty() && remote_pause_ != 0) AMEM_TRY(resume_for(call));
  const auto is_open = [&]() AMEM_REQUIRES(peers_.mutex) {
    bool is_closed = false;
    // Other jobs of the user announce their communicators too.
    peers_.visit(kNcclTag, [&](const InstanceId&, const Peer& peer) {
      is_closed = is_closed || (peer.is_away() && peer.shares);
    });
    return process_closed_.empty() ? !is_closed : waiting_calls_ == 0;
  };
  const bool opened = peers_.changed.wait_until(peers_.mutex, deadline, is_open, [&] {
    AMEM_LOG(warn, -1, "%s waits for a process that is paused%s", call, kWaitCounts);
  });
  if (!process_closed_.empty()) return misuse_error("%s: %s", call, process_closed_.c_str());
  if (opened) return ok_status();
  return timeout_error("%s waited %ld ms for a process that is paused", call, timeout_ms);
}

void CallGate::note_ungated_allocation() {
  MutexLock lock(peers_.mutex);
  // A process with communicators of its own also allocates for peers, on a thread of NCCL (PXN:
  // transport/net.cc, sendProxyConnect@v2.30.7-1). Work of others is seen when it is launched.
  if (known_.empty() && pending_.empty() && find_inside(nullptr).empty()) ungated_ = true;
}

}  // namespace amem
