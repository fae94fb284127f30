// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/tag_switch.h"

#include "base/thread.h"

namespace amem {

Status switch_tags(Session& session, const Selection& paused, const Selection& resumed) {
  for (const Tag& tag : resumed.tags)
    if (paused.tags.contains(tag))
      return misuse_error("the tag %s cannot be paused and resumed at once", tag.c_str());
  if (paused.tags.empty() || resumed.tags.empty())
    return misuse_error("a switch needs tags to pause and tags to resume");
  std::atomic<bool> cancelled{false};
  Status restored = ok_status();
  Selection in = resumed, out = paused;
  in.cancelled = &cancelled;
  const pthread_t thread =
      AMEM_TRY(start_thread("amem-resume", [&] { restored = session.resume(in); }));
  out.trim_context = false;
  out.is_switch = true;
  Status status = session.pause(out);
  cancelled = !status.ok();
  pthread_join(thread, nullptr);
  if (status.ok()) return restored;
  if (restored.ok()) {
    Error& error = status.error();
    error.message += "; " + text_of(resumed.tags) + " is resumed: there was room for it";
    // Those mean that nothing was changed.
    if (error.kind == ErrorKind::misuse || error.kind == ErrorKind::unsupported)
      error.kind = ErrorKind::os;
  }
  return status;
}

}  // namespace amem
