// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem.h's functions for memory by tag.
#include <algorithm>
#include <cinttypes>

#include "api/calls.h"
#include "base/thread_value.h"
#include "driver/device_work.h"
#include "engine/statistics.h"
#include "engine/tag_switch.h"

namespace amem {
namespace {

/// Of tags separated by commas. `wait_ms`: of a resume.
Result<Selection> selection_of(const char* tags, uint64_t timeout_ms,
                               std::optional<uint64_t> wait_ms = std::nullopt) {
  AMEM_TRY(check_duration(std::max(timeout_ms, wait_ms.value_or(0))));
  Selection selection{{}, true, static_cast<long>(timeout_ms)};
  if (wait_ms) selection.wait_ms = static_cast<long>(*wait_ms);
  if (tags == nullptr) return selection;
  for (std::string_view rest = tags;;) {
    const size_t end = std::min(rest.find(','), rest.size());
    const Tag tag(rest.substr(0, end));
    if (!is_valid_tag(tag)) return invalid_tag(tag);
    selection.tags.insert(tag);
    if (end == rest.size()) return selection;
    rest.remove_prefix(end + 1);
  }
}

/// The maximum of AMEM_HOST_PREALLOC.
Status check_size(uint64_t bytes) {
  if (bytes <= uint64_t{1} << 50) return ok_status();
  return misuse_error("the size %" PRIu64 " is too large", bytes);
}

Status pause_tags(const char* tags, uint64_t timeout_ms) {
  return pause_process(AMEM_TRY(selection_of(tags, timeout_ms)));
}

Status resume_tags(const char* tags, uint64_t timeout_ms, std::optional<uint64_t> wait_ms) {
  return resume_process(AMEM_TRY(selection_of(tags, timeout_ms, wait_ms)));
}

Result<Kind> kind_of(amemKind_t kind) {
  static_assert(static_cast<int>(Kind::retain) == amemKindRetain && amemKindCount == 6);
  const int number = kind;
  if (number < 0 || number >= amemKindCount || kind == amemKindPersistent)
    return misuse_error(
        "the kind is not amemKindKeep, amemKindDiscard, amemKindDisk, amemKindZero or "
        "amemKindRetain");
  if (kind == amemKindDisk && AMEM_TRY(active_process())->session.backup_directory().path().empty())
    return misuse_error(
        "there is no directory for contents on disk: set AMEM_BACKUP_DIR or call "
        "amemSetBackupDirectory()");
  return static_cast<Kind>(kind);
}

int read_totals(const char* call, const char* tag, int device, int kind, amemTotals_t* totals) {
  return read_into(call, totals, [&](Process& process) -> Result<amemTotals_t> {
    int ignored = 0;
    // Before cuInit(), any device may exist.
    const bool exists =
        device == -1 || (device >= 0 && device < kMaxDevices &&
                         (process.engine.exiting || process.driver.cuDeviceGetAttribute(
                                                        &ignored, kAttributeMultiprocessors,
                                                        device) != driver_result::kInvalidDevice));
    if (tag != nullptr && !is_valid_tag(tag)) return invalid_tag(tag);
    if (!exists || kind < -1 || kind >= amemKindCount)
      return misuse_error("the driver has no device %d, or amemKind_t has no kind %d", device,
                          kind);
    return sum_of(take_statistics(process.registry),
                  tag != nullptr ? std::optional<std::string_view>(tag) : std::nullopt,
                  device >= 0 ? std::optional(device) : std::nullopt,
                  kind >= 0 ? std::optional(static_cast<Kind>(kind)) : std::nullopt);
  });
}

/// The texts that amemGetStatus() and amemGetAttribution() have returned to a thread. One type
/// needs one thread-local variable.
struct Copies {
  std::string status, attribution;
};

}  // namespace

Result<Region> region_of(const char* tag, amemKind_t kind) {
  Process& process = *AMEM_TRY(active_process());
  // Memory without a tag needs no directory.
  const Kind of_memory =
      AMEM_TRY(kind_of(tag == nullptr && kind == amemKindDisk ? amemKindKeep : kind));
  if (tag == nullptr) return Region{};
  AMEM_TRY(process.tensors.check_tag(tag));
  return Region{tag, of_memory};
}

}  // namespace amem

using namespace amem;

AMEM_API int amemMalloc(void** pointer, size_t size_bytes, const char* tag, amemKind_t kind) {
  return result_of("amemMalloc", [&]() -> Status {
    AMEM_TRY(check_pointer(pointer, "pointer"));
    *pointer = nullptr;
    TensorClient& client = AMEM_TRY(active_process())->tensors;
    const Kind of_memory = AMEM_TRY(kind_of(kind));
    const Tag name = tag == nullptr ? "" : tag;
    *pointer = reinterpret_cast<void*>(AMEM_TRY(client.allocate(size_bytes, name, of_memory)));
    return ok_status();
  });
}

AMEM_API int amemFree(void* pointer) {
  if (pointer == nullptr) return note_success(), 0;
  return with_process("amemFree", [&](Process& process) {
    return process.tensors.free(reinterpret_cast<DeviceAddress>(pointer));
  });
}

AMEM_API int amemBeginRegion(const char* tag, amemKind_t kind) {
  return result_of("amemBeginRegion", [&]() -> Status {
    open_region(AMEM_TRY(region_of(tag, kind)));
    return ok_status();
  });
}

// Here and below: only with a process, because in a forked child the lock may be held.
AMEM_API int amemEndRegion(void) {
  return with_process("amemEndRegion", [](Process&) -> Status {
    if (close_region()) return ok_status();
    return misuse_error("this thread has no open region");
  });
}

AMEM_API int amemOpenRegion(const char* tag, amemKind_t kind, int all_threads, uint64_t* number) {
  return result_of("amemOpenRegion", [&]() -> Status {
    AMEM_TRY(check_pointer(number, "number"));
    *number = open_region(AMEM_TRY(region_of(tag, kind)),
                          all_threads != 0 ? Threads::all : Threads::calling);
    return ok_status();
  });
}

AMEM_API int amemCloseRegion(uint64_t number) {
  return with_process("amemCloseRegion", [&](Process&) -> Status {
    if (close_region(number)) return ok_status();
    return misuse_error("the region %" PRIu64 " is not open", number);
  });
}

AMEM_API int amemSetProcessRegion(const char* tag, amemKind_t kind) {
  return with_process("amemSetProcessRegion", [&](Process&) -> Status {
    Region region = AMEM_TRY(region_of(tag, kind));
    set_process_region(tag == nullptr ? process_region_of_environment() : std::move(region));
    return ok_status();
  });
}

AMEM_API int amemReadBackup(void* to, const void* pointer, size_t size_bytes) {
  return with_process("amemReadBackup", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(to, "destination"));
    return process.tensors.read_saved(reinterpret_cast<DeviceAddress>(pointer), size_bytes, to);
  });
}

AMEM_API const void* amemGetBackup(const void* pointer, size_t size_bytes) {
  const void* saved = nullptr;
  read_into("amemGetBackup", &saved, [&](Process& process) {
    return process.tensors.saved(reinterpret_cast<DeviceAddress>(pointer), size_bytes);
  });
  return saved;
}

AMEM_API int amemSetUnusedRanges(const amemRange_t* ranges, size_t count) {
  return with_process("amemSetUnusedRanges", [&](Process& process) -> Status {
    process.tensors.set_unused(AMEM_TRY(ranges_of(ranges, count)));
    return ok_status();
  });
}

AMEM_API int amemPrepareHostMemory(uint64_t bytes) {
  return with_process("amemPrepareHostMemory", [&](Process& process) -> Status {
    AMEM_TRY(check_size(bytes));
    process.session.prepare_host_memory(AMEM_TRY(process.handles.device_of_caller()), bytes);
    return ok_status();
  });
}

AMEM_API int amemSetBackupDirectory(const char* path) {
  return with_process("amemSetBackupDirectory", [&](Process& process) -> Status {
    AMEM_TRY(check_pointer(path, "path"));
    return process.session.backup_directory().set(path);
  });
}

AMEM_API int amemResumeOnCall(int enable) {
  return with_process("amemResumeOnCall", [&](Process& process) {
    process.nccl.gate.resume_on_call(enable != 0);
    return ok_status();
  });
}

AMEM_API int amemRetainBackups(int retain) {
  return with_process("amemRetainBackups", [&](Process& process) {
    process.session.retain_backups(retain != 0);
    return ok_status();
  });
}

AMEM_API int amemSetMemoryMargin(size_t size_bytes) {
  return with_process("amemSetMemoryMargin", [&](Process& process) -> Status {
    AMEM_TRY(check_size(size_bytes));
    process.tensors.set_margin(size_bytes);
    return ok_status();
  });
}

AMEM_API int amemPause(const char* tags) {
  return result_of("amemPause", [&] { return pause_tags(tags, 0); });
}

AMEM_API int amemResume(const char* tags) {
  return result_of("amemResume", [&] { return resume_tags(tags, 0, std::nullopt); });
}

AMEM_API int amemPauseWithTimeout(const char* tags, uint64_t timeout_ms) {
  return result_of("amemPauseWithTimeout", [&] { return pause_tags(tags, timeout_ms); });
}

AMEM_API int amemResumeWithTimeout(const char* tags, uint64_t timeout_ms) {
  return result_of("amemResumeWithTimeout",
                   [&] { return resume_tags(tags, timeout_ms, std::nullopt); });
}

AMEM_API int amemResumeWait(const char* tags, uint64_t wait_ms, uint64_t timeout_ms) {
  return result_of("amemResumeWait", [&] { return resume_tags(tags, timeout_ms, wait_ms); });
}

AMEM_API int amemSwitch(const char* paused, const char* resumed, uint64_t wait_ms,
                        uint64_t timeout_ms) {
  return result_of("amemSwitch", [&]() -> Status {
    const Selection out = AMEM_TRY(selection_of(paused, timeout_ms));
    const Selection in = AMEM_TRY(selection_of(resumed, timeout_ms, wait_ms));
    Process& process = *AMEM_TRY(active_process());
    const Status status = switch_tags(process.session, out, in);
    if (status.ok()) process.remote.note_pause(out.tags);
    process.remote.note_resume();
    return status;
  });
}

AMEM_API const char* amemGetStatus(void) {
  const NoCancellation no_cancellation;
  std::string& copy = thread_value<Copies>().status;
  Process* const process = process_that_works();
  copy = process == nullptr ? "{}" : process->status_text(true);
  return copy.c_str();
}

AMEM_API const char* amemGetAttribution(void) {
  const NoCancellation no_cancellation;
  std::string& copy = thread_value<Copies>().attribution;
  Process* const process = process_that_works();
  copy = process == nullptr ? "{}" : process->attribution_text();
  return copy.c_str();
}

AMEM_API amemState_t amemGetTagState(const char* tag) {
  const NoCancellation no_cancellation;
  return state_of(tag == nullptr ? "" : tag);
}

AMEM_API int amemGetTagTotals(const char* tag, int device, int kind, amemTotals_t* totals) {
  const NoCancellation no_cancellation;
  return read_totals("amemGetTagTotals", tag, device, kind, totals);
}

AMEM_API int amemGetTotals(int device, int kind, amemTotals_t* totals) {
  const NoCancellation no_cancellation;
  return read_totals("amemGetTotals", nullptr, device, kind, totals);
}
