// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/tag_switch.h"

#include "base/thread.h"

namespace amem {

Status switch_tags(Session& session, const Selection& paused, const Selection& resumed) {
  for (const Tag& tag : resumed.tags)
    if (paused.tags.contains(tag))
      return make_error(ErrorKind::misuse, 0, "the tag %s cannot be paused and resumed at once",
                        tag.c_str());
  if (paused.tags.empty() || resumed.tags.empty())
    return make_error(ErrorKind::misuse, 0, "a switch needs tags to pause and tags to resume");
  struct Resume {
    Session& session;
    Selection selection;
    std::atomic<bool> cancelled{false};
    Status status = ok_status();
  } resume{session, resumed};
  resume.selection.cancelled = &resume.cancelled;
  const auto run = [](void* argument) -> void* {
    auto& self = *static_cast<Resume*>(argument);
    self.status = self.session.resume(self.selection);
    return nullptr;
  };
  const pthread_t thread = AMEM_TRY(start_thread("amem-resume", run, &resume));
  Selection out = paused;
  out.trim_context = false;
  out.is_switch = true;
  Status status = session.pause(out);
  resume.cancelled = !status.ok();
  pthread_join(thread, nullptr);
  if (status.ok()) return resume.status;
  if (resume.status.ok())
    status.error().message += "; " + text_of(resumed.tags) + " is resumed: there was room for it";
  return status;
}

}  // namespace amem
