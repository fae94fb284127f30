// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "engine/session.h"

#include <algorithm>
#include <ctime>
#include <functional>

#include "base/log.h"
#include "base/nvtx_range.h"
#include "base/test_seam.h"
#include "driver/nvml.h"
#include "engine/resume_error.h"
#include "engine/room_announcement.h"
#include "engine/statistics.h"
#include "memory/backing_steps.h"

namespace amem {
namespace {

constexpr char kResumeWaits[] = "a resume waits for processes that map this one's memory again";

/// ", 128 MiB unchanged", or "".
std::string unchanged_text(size_t bytes) {
  return bytes == 0 ? "" : ", " + std::to_string(bytes >> 20) + " MiB unchanged";
}

/// Of the Unix epoch.
int64_t now_s() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

}  // namespace

SessionCounters Session::counters() {
  MutexLock lock(mutex_);
  return counters_;
}

Status Session::counted(Status status, uint64_t SessionCounters::*failures) {
  if (status.ok()) return status;
  MutexLock lock(mutex_);
  ++(counters_.*failures);
  counters_.last_error = status.error().message;
  counters_.last_error_time_s = now_s();
  return status;
}

Status Session::pause(const Selection& selection) {
  return counted(pause_uncounted(selection), &SessionCounters::failed_pauses);
}

Status Session::resume(const Selection& selection) {
  return counted(resume_uncounted(selection), &SessionCounters::failed_resumes);
}

std::map<Tag, SessionState> Session::states() {
  std::map<Tag, SessionState> states;
  for (const Tag& tag : context_.clients.tags()) states[tag] = states_.of(tag);
  return states;
}

size_t Session::context_bytes() const {
  size_t sum = 0;
  for (const auto& [device, bytes] : context_memory_.returned_bytes()) sum += bytes;
  return sum;
}

Result<Session::Running> Session::begin(SessionState change, const Selection& selection,
                                        Deadline deadline) {
  if (context_.exiting)
    return misuse_error(
        "exit() has begun, and the process releases its GPU memory; make the call before exit()");
  Result<Running> begun = states_.begin(change, selection.tags, deadline);
  if (!begun.ok())
    begun.error().message += " for more than " + std::to_string(drain_ms(selection)) + " ms";
  return begun;
}

bool Session::is_unknown_the_first_time(const Tag& tag) {
  constexpr size_t kMaxNamed = 64;
  MutexLock lock(mutex_);
  return unknown_tags_.size() < kMaxNamed && unknown_tags_.insert(tag).second;
}

// A tag without memory needs no state.
Tags Session::selected(const Selection& selection) {
  const Tags known = context_.clients.tags();
  if (selection.tags.empty()) return known;
  Tags tags;
  for (const Tag& tag : selection.tags)
    if (known.contains(tag))
      tags.insert(tag);
    else if (tag != kContextTag && is_unknown_the_first_time(tag))
      AMEM_LOG(warn, -1, "no memory has the tag %s", tag.c_str());
  return tags;
}

void Session::reopen(const Tags& tags) {
  for (Client* client : context_.clients.of(tags)) client->reopen();
}

// --- Pause

Tags Session::Change::all() const {
  Tags tags = active;
  tags.insert(paused.begin(), paused.end());
  return tags;
}

/// Ignores tags that are paused and have no resident memory.
Session::Change Session::begin_pause(const Selection& selection) {
  Change change;
  for (const Tag& tag : selected(selection))
    if (states_.of(tag) == SessionState::active)
      change.active.insert(tag);
    else if (!plan_pause(context_.registry, {tag}).tags.empty())
      change.paused.insert(tag);
  states_.set(change.all(), SessionState::pausing);
  return change;
}

std::string Session::leftovers_text(const Tags& tags) {
  return text_of(tags) + " is paused, with " +
         std::to_string(releasable_bytes(context_.registry, tags) >> 20) + " MiB still on the GPU";
}

Plan Session::plan_out(const Selection& selection, const Tags& tags) {
  Plan plan = plan_pause(context_.registry, tags);
  plan.is_switch = selection.is_switch || ticket_.is_awaited(gpus_of(plan));
  return plan;
}

Status Session::quiesce(const Selection& selection, const Tags& tags, Deadline* drain_deadline,
                        SessionReport* report) {
  const Phase phase("pause: wait", &report->wait_ms);
  {
    MutexLock lock(context_.registry.mutex);
    if (!context_.registry.refusal.empty())
      return unsupported_error("%s", context_.registry.refusal.c_str());
  }
  if (!seeded_fault("leave_gate_open"))
    for (Client* client : context_.clients.of(tags)) AMEM_TRY(client->quiesce(*drain_deadline));
  step_point("pause_gate_closed");
  AMEM_TRY(context_.devices.drain(devices_in_use(context_.registry), *drain_deadline));
  step_point("pause_drained");
  // Checks the limits before any peer is asked. Host memory takes descriptors too.
  const int left_ms = drain_deadline->left_ms();
  AMEM_TRY(
      executor_.make_room(plan_out(selection, tags), move_deadline(selection, *drain_deadline)));
  if (selection.drain_ms > 0) *drain_deadline = Deadline::after_ms(left_ms);
  return sharing_.exports().reserve_for_resume();
}

Status Session::move_out(TagStates::Running& running, const Selection& selection, const Tags& tags,
                         Deadline drain_deadline, SessionReport* report) {
  {
    const Phase phase("pause: peers", &report->peers_ms);
    AMEM_TRY(sharing_.exports().revoke(tags, drain_deadline));
  }
  const Deadline deadline = move_deadline(selection, drain_deadline);
  // The last write of a peer arrives through its own mapping, so contents are copied only after all
  // peers have unmapped.
  step_point("pause_revoked");
  if (selection.trim_context && is_last(tags)) trim_contexts(deadline, report);
  running.run_concurrently();
  const NvtxRange range("pause: copy and release");
  const Plan plan = plan_out(selection, tags);
  const bool is_announced = plan.is_switch || RoomTicket::has_queue();
  RoomAnnouncement announcement(
      context_, ticket_,
      is_announced ? own_bytes(context_.registry, plan) : std::map<int, size_t>(), deadline);
  AMEM_TRY(executor_.move_out(plan, deadline, &report->move,
                              std::bind_front(&RoomAnnouncement::releases, &announcement)));
  step_point("pause_released");
  return ok_status();
}

/// True if every other tag is paused.
bool Session::is_last(const Tags& tags) {
  for (const auto& [tag, state] : states())
    if (!tags.contains(tag) && state != SessionState::paused) return false;
  return true;
}

/// Rolls back a failed pause of these tags. Returns the state of the tags afterwards. If the
/// rollback fails, the error says why.
SessionState Session::take_back(TagStates::Running& running, const Selection& selection,
                                const Tags& tags, Error* error) {
  // The pause may have used up its deadline, so the rollback has its own. Notifications of peers
  // get a quarter of it, or the time of Selection::drain_ms; they remain queued for peers that do
  // not answer.
  const Deadline deadline = Deadline::after_ms(timeout_ms(selection));
  const Plan back = plan_resume(context_.registry, tags);
  MoveReport report;
  RoomWait no_wait(context_, ticket_, {}, 0, nullptr);
  Status taken = running.run_exclusively(deadline);
  if (taken.ok()) taken = restore_contexts(running, no_wait, deadline);
  if (taken.ok())
    taken = executor_.move_in(
        back, std::bind_front(&RoomWait::wait_for_room, &no_wait), [] {}, deadline, &report);
  if (taken.ok()) taken = sharing_.imports().fetch(back.imports, BackingState::dropped, deadline);
  if (!taken.ok()) {
    error->message +=
        "; and its memory could not be restored (" + taken.error().message + "), so " +
        leftovers_text(tags) +
        ": pause again to release the rest or, when there is enough free memory, resume";
    return SessionState::paused;
  }
  const std::shared_ptr<const void> exported = sharing_.exports().export_imported(tags);
  const Deadline restore_deadline =
      Deadline::after_ms(std::min(timeout_ms(selection) / 4, drain_ms(selection)));
  const auto replies = sharing_.exports().restore(tags, restore_deadline);
  const Status notified = replies->wait(restore_deadline);
  if (notified.ok()) return SessionState::active;
  error->message += "; and " + notified.error().message;
  if (notified.error().kind == ErrorKind::timeout) return SessionState::active;
  // A peer with an error must be notified again.
  error->message += "; " + text_of(tags) + " is paused: resume to try again";
  return SessionState::paused;
}

// Work that was launched since the drain delays the call. After this time the pause continues until
// its first copy, which the driver delays until the call has returned.
void Session::trim_contexts(Deadline deadline, SessionReport* report) {
  constexpr long kMaxMs = 1000;
  const Deadline soon = Deadline::after_ms(std::min<long>(kMaxMs, deadline.left_ms()));
  if (const Status trimmed = context_memory_.trim(devices_in_use(context_.registry), soon);
      !trimmed.ok())
    AMEM_LOG(warn, -1, "a context keeps its local memory: %s", trimmed.error().message.c_str());
  report->context_bytes = context_bytes();
}

/// `*paused` receives the tags that are paused at the end.
Status Session::carry_out_pause(TagStates::Running& running, const Selection& selection,
                                const Change& change, Deadline drain_deadline,
                                SessionReport* report, Tags* paused) {
  const Phase phase("pause", &report->total_ms);
  const Tags tags = change.all();
  step_point("pause_begun");
  Status status = quiesce(selection, tags, &drain_deadline, report);
  const bool moves = status.ok();
  if (moves) status = move_out(running, selection, tags, drain_deadline, report);
  *paused = tags;
  if (status.ok()) return status;
  *paused = change.paused;
  if (moves && !change.active.empty() &&
      take_back(running, selection, change.active, &status.error()) == SessionState::paused)
    *paused = tags;
  if (!change.paused.empty())
    status.error().message +=
        "; " + leftovers_text(change.paused) + ": pause again to release the rest, or resume";
  return status;
}

Status Session::pause_uncounted(const Selection& wanted) {
  const Deadline drain_deadline = Deadline::after_ms(drain_ms(wanted));
  const Running running = AMEM_TRY(begin(SessionState::pausing, wanted, drain_deadline));
  Selection selection = wanted;
  SessionReport report;
  if (selection.tags.erase(kContextTag) > 0) {
    selection.trim_context = true;
    const bool is_alone = selection.tags.empty();
    if (is_alone && !is_last({}))
      return misuse_error("the tag '%s' can be paused only when all other tags are paused",
                          kContextTag);
    if (is_alone) return trim_contexts(drain_deadline, &report), ok_status();
  }
  const Change change = begin_pause(selection);
  if (change.all().empty()) return ok_status();
  Tags paused;
  report.moved_bytes = releasable_bytes(context_.registry, change.all());
  const Status status =
      carry_out_pause(*running, selection, change, drain_deadline, &report, &paused);
  report.moved_bytes += report.context_bytes;
  report.end_time_s = now_s();
  if (!status.ok()) note_leftovers(plan_pause(context_.registry, paused).own);
  pool_.lend();
  Tags active = change.all();
  for (const Tag& tag : paused) active.erase(tag);
  reopen(active);
  states_.set(paused, SessionState::paused);
  states_.set(active, SessionState::active);
  note_ticket(false);
  if (status.ok()) {
    MutexLock lock(mutex_);
    ++counters_.pauses;
    counters_.last_pause = report;
    counters_.copied_bytes += report.move.copied_bytes;
  }
  if (status.ok())
    AMEM_LOG(info, -1,
             "paused %s in %.3f s: %zu MiB released, %zu MiB saved%s%s (work %.1f ms, "
             "peers %.1f, copy and release %.1f, of which driver %.1f)",
             text_of(paused).c_str(), report.total_ms / 1e3, report.moved_bytes >> 20,
             report.move.copied_bytes >> 20, unchanged_text(report.move.unchanged_bytes).c_str(),
             text_of_persistent(context_.registry, paused).c_str(), report.wait_ms, report.peers_ms,
             report.move.copy_ms, report.move.memory_ms);
  return status;
}

// --- Resume

Status Session::restore_contexts(TagStates::Running& running, RoomWait& wait, Deadline deadline) {
  for (;;) {
    const Status restored = context_memory_.restore(deadline);
    if (restored.ok() || !is_lack_of_memory(restored.error())) return restored;
    running.run_concurrently();
    AMEM_TRY(wait.wait_for_room(restored.error(), {}));
    AMEM_TRY(running.run_exclusively(deadline));
  }
}

Status Session::move_in(TagStates::Running& running, RoomWait& wait, const Tags& tags,
                        Deadline deadline, SessionReport* report) {
  AMEM_TRY(running.run_exclusively(deadline));
  AMEM_TRY(restore_contexts(running, wait, deadline));
  Plan plan = plan_resume(context_.registry, tags);
  plan.is_switch = wait.waits();
  std::shared_ptr<const void> exported;
  Status fetched = ok_status();
  {
    const NvtxRange range("resume: create and copy");
    const auto share = [&] {  // while it is being filled
      exported = sharing_.exports().export_imported(tags);
      fetched = sharing_.imports().fetch(plan.imports, BackingState::dropped, deadline);
      step_point("resume_shared");
    };
    running.run_concurrently();
    AMEM_TRY(executor_.move_in(plan, std::bind_front(&RoomWait::wait_for_room, &wait), share,
                               deadline, &report->move));
  }
  wait.wait_for_pauses();
  step_point("resume_filled");
  const Phase phase("resume: peers", &report->peers_ms);
  AMEM_TRY(running.run_exclusively(deadline));
  // A resume without its imports fails, and calls of an importer would then wait on the GPU for a
  // process that is paused. No process waits for another one's restore here: fetches are answered
  // by the service thread.
  AMEM_TRY(std::move(fetched));
  const std::shared_ptr<Replies> restores = sharing_.exports().restore(tags, deadline);
  step_point("resume_told");
  AMEM_TRY(restores->wait(deadline, kResumeWaits));
  step_point("resume_done");
  return ok_status();
}

std::set<std::string> Session::gpus_of(const Plan& plan) {
  std::set<std::string> gpus;
  for (const auto& [device, bytes] : own_bytes(context_.registry, plan))
    gpus.insert(gpu_name(context_, device));
  return gpus;
}

/// For processes of its job that wait (RoomTicket).
void Session::note_ticket(bool resumed) {
  if (context_.resume_wait_ms > 0 || ticket_.belongs_to_job())
    ticket_.note(resumed, job_of(context_), paused_gpus(context_.clients.tags()));
}

/// The memory that failed calls have left on the GPUs, of these tags and all that are paused.
Plan Session::plan_leftovers(Tags tags) {
  for (const auto& [tag, state] : states())
    if (state == SessionState::paused) tags.insert(tag);
  return plan_pause(context_.registry, tags, /*only_leftovers=*/true);
}

void Session::note_leftovers(const std::vector<BackingId>& ids) {
  MutexLock lock(context_.registry.mutex);
  for (Backing* const backing : context_.registry.find_backings(ids)) backing->is_leftover = true;
}

/// Two processes that each hold memory while they wait would wait for each other.
Status Session::release_leftovers(TagStates::Running& running, const Selection& selection,
                                  const Tags& tags, bool were_trimmed) {
  were_trimmed = were_trimmed && context_memory_.returned_bytes().empty() && is_last(tags);
  if (plan_leftovers(tags).tags.empty() && !were_trimmed) return ok_status();
  Deadline deadline = Deadline::after_ms(timeout_ms(selection));
  AMEM_TRY(running.run_exclusively(deadline, /*without_pause=*/true));
  SessionReport report;
  Status status = ok_status();
  if (const Plan left = plan_leftovers(tags); !left.tags.empty()) {
    status = quiesce(selection, left.tags, &deadline, &report);
    if (status.ok()) status = sharing_.exports().revoke(left.tags, deadline);
    if (status.ok()) status = executor_.move_out(left, deadline, &report.move);
    pool_.lend();
  }
  if (status.ok() && were_trimmed) trim_contexts(deadline, &report);
  if (status.ok()) running.run_concurrently();
  return status;
}

Status Session::resume_in_turn(TagStates::Running& running, const Selection& selection,
                               const Tags& tags, SessionReport* report) {
  const long wait_ms = selection.wait_ms < 0 ? context_.resume_wait_ms : selection.wait_ms;
  const Deadline deadline = Deadline::after_ms(timeout_ms(selection) + wait_ms);
  step_point("resume_begun");
  if (wait_ms > 0) running.run_concurrently();
  const bool were_trimmed = !context_memory_.returned_bytes().empty();
  std::set<std::string> gpus = paused_gpus(tags);
  if (!gpus.empty()) gpus.merge(gpus_of(plan_leftovers(tags)));
  RoomWait wait(context_, ticket_, gpus, wait_ms, selection.cancelled);
  Status status = ok_status();
  do {
    status = wait.wait_for_turn(
        [&] { return release_leftovers(running, selection, tags, were_trimmed); },
        [&] { return missing_bytes(context_.registry, plan_resume(context_.registry, tags)); });
    if (status.ok()) status = move_in(running, wait, tags, deadline, report);
  } while (!status.ok() && wait.lost_turn());
  if (status.ok()) {
    if (!wait.in_queue()) note_ticket(true);
    wait.note_success(paused_gpus(context_.clients.tags()));
    return status;
  }
  constexpr long kMaxMs = 1000;
  if (were_trimmed && is_lack_of_memory(status.error()) && is_last(tags) &&
      running.run_exclusively(Deadline::after_ms(kMaxMs), /*without_pause=*/true).ok())
    trim_contexts(Deadline::after_ms(kMaxMs), report);
  std::map<int, size_t> wanted = context_memory_.returned_bytes();
  for (const auto& [device, bytes] :
       missing_bytes(context_.registry, plan_resume(context_.registry, tags)))
    wanted[device] += bytes;
  return resume_error(context_, status.error(), wanted);
}

Status Session::resume_uncounted(const Selection& selection) {
  const Deadline begins_by = Deadline::after_ms(timeout_ms(selection));
  const Running running = AMEM_TRY(begin(SessionState::resuming, selection, begins_by));
  // Tags whose memory was freed while it was paused: peers may wait for what comes next.
  if (const Tags freed = states_.activate_freed(context_.clients.tags()); !freed.empty()) {
    reopen(freed);
    (void)sharing_.exports().restore(freed, begins_by);
    note_ticket(true);
  }
  Tags tags;
  for (const Tag& tag : selected(selection))
    if (states_.of(tag) == SessionState::paused) tags.insert(tag);
  if (tags.empty() && !selection.tags.contains(kContextTag)) return ok_status();
  states_.set(tags, SessionState::resuming);
  const Plan plan = plan_resume(context_.registry, tags);
  constexpr long kMaxMs = 100;
  SessionReport report;
  report.moved_bytes = context_bytes();
  for (const auto& [gpu, bytes] : own_bytes(context_.registry, plan)) report.moved_bytes += bytes;
  Status status = ok_status();
  {
    const Phase phase("resume", &report.total_ms);
    status = resume_in_turn(*running, selection, tags, &report);
    // What a late reservation of an earlier pause holds. One that runs beside counts on its own.
    const bool is_alone = status.ok() || running->run_exclusively(Deadline::after_ms(kMaxMs)).ok();
    if (is_alone && !states_.is_pausing()) pool_.lend();
  }
  if (tags.empty()) return status;
  if (status.ok()) {
    reopen(tags);
    report.end_time_s = now_s();
    MutexLock lock(mutex_);
    ++counters_.resumes;
    counters_.last_resume = report;
    counters_.copied_bytes += report.move.copied_bytes;
  }
  if (!status.ok()) note_leftovers(plan.own);
  states_.set(tags, status.ok() ? SessionState::active : SessionState::paused);
  if (!status.ok()) status.error().message += "; " + text_of(tags) + " stays paused";
  if (status.ok())
    AMEM_LOG(info, -1,
             "resumed %s in %.3f s: %zu MiB restored, %zu MiB copied (create and copy %.1f ms, of "
             "which driver %.1f, peers %.1f)",
             text_of(tags).c_str(), report.total_ms / 1e3, report.moved_bytes >> 20,
             report.move.copied_bytes >> 20, report.move.copy_ms, report.move.memory_ms,
             report.peers_ms);
  return status;
}

// --- Host memory: pinned before a pause, and unpinned on request

void Session::prepare_host_memory(int device, size_t size_bytes) {
  (void)context_.devices.start({{device, [this, device, size_bytes] {
                                   const Status ready = pool_.prepare(size_bytes, device);
                                   if (!ready.ok())
                                     AMEM_LOG(warn, device, "%s", ready.error().message.c_str());
                                   return ok_status();
                                 }}});
}

Result<size_t> Session::trim_host_memory() {
  for (const auto& [tag, state] : states())
    if (state != SessionState::active && state != SessionState::paused)
      return misuse_error("%s", kHostMemoryInUse);
  return executor_.trim_host_memory(devices_in_use(context_.registry));
}

}  // namespace amem
