// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// amem.h's functions for memory by tag.
#include <algorithm>

#include "api/calls.h"
#include "base/thread_value.h"
#include "clients/tensors/host.h"
#include "engine/statistics.h"

namespace amem {
namespace {

/// Of tags separated by commas.
Result<Selection> selection_of(const char* tags) {
  Selection selection{{}, true};
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

Status pause(const char* tags) {
  const Result<Selection> selection = selection_of(tags);
  if (!selection.ok()) return Error(selection.error());
  return pause_process(selection.value());
}

Status resume(const char* tags) {
  const Result<Selection> selection = selection_of(tags);
  if (!selection.ok()) return Error(selection.error());
  return resume_process(selection.value());
}

Result<Kind> kind_of(amemKind_t kind) {
  if (kind == amemKindKeep) return Kind::keep;
  if (kind == amemKindDiscard) return Kind::discard;
  if (kind == amemKindZero) return Kind::zero;
  if (kind != amemKindDisk)
    return make_error(
        ErrorKind::misuse, 0,
        "the kind is not amemKindKeep, amemKindDiscard, amemKindDisk or amemKindZero");
  Process* const process = process_that_works();
  if (process == nullptr) return why_inactive();
  if (process->session().backup_directory().path().empty())
    return make_error(ErrorKind::misuse, 0,
                      "there is no directory for contents on disk: set AMEM_BACKUP_DIR or call "
                      "amemSetBackupDirectory()");
  return Kind::disk;
}

Result<DeviceAddress> allocate(size_t size_bytes, const char* tag, amemKind_t kind) {
  const Result<Kind> of_memory = kind_of(kind);
  if (!of_memory.ok()) return Error(of_memory.error());
  return allocate_tagged(size_bytes, tag == nullptr ? "" : tag, of_memory.value());
}

/// A null tag: memory that is not paused.
Result<Region> region_of(const char* tag, amemKind_t kind) {
  Process* const process = process_that_works();
  if (process == nullptr) return why_inactive();
  if (tag == nullptr) return Region{};
  const Result<Kind> of_memory = kind_of(kind);
  if (!of_memory.ok()) return Error(of_memory.error());
  AMEM_TRY(process->tensors().check_tag(tag));
  return Region{tag, of_memory.value()};
}

Status begin_region(const char* tag, amemKind_t kind) {
  Result<Region> region = region_of(tag, kind);
  if (!region.ok()) return std::move(region.error());
  open_region(std::move(region.value()));
  return ok_status();
}

Status end_region() {
  if (close_region()) return ok_status();
  return make_error(ErrorKind::misuse, 0, "this thread has no open region");
}

Status begin_process_region(const char* tag, amemKind_t kind) {
  if (tag == nullptr) {
    set_process_region(process_region_of_environment());
    return ok_status();
  }
  Result<Region> region = region_of(tag, kind);
  if (!region.ok()) return std::move(region.error());
  set_process_region(std::optional(std::move(region.value())));
  return ok_status();
}

}  // namespace

TensorClient* tensor_client() {
  Process* const process = process_that_works();
  return process == nullptr ? nullptr : &process->tensors();
}

Result<DeviceAddress> allocate_tagged(size_t size_bytes, const Tag& tag, Kind kind) {
  Process* const process = process_that_works();
  if (process == nullptr) return why_inactive();
  const Result<int> device = device_of_caller(*process);
  if (!device.ok()) return Error(device.error());
  return process->tensors().allocate(size_bytes, device.value(), tag, kind);
}

Result<DeviceAddress> open_tagged(const IpcHandleBytes& handle) {
  Process* const process = process_that_works();
  if (process == nullptr) return why_inactive();
  const Result<int> device = device_of_caller(*process);
  if (!device.ok()) return Error(device.error());
  auto address = process->tensors().open(handle, device.value());
  if (!address.has_value())
    return make_error(ErrorKind::misuse, 0, "this is not a handle of amem's memory");
  return std::move(*address);
}

}  // namespace amem

AMEM_API int amemMalloc(void** pointer, size_t size_bytes, const char* tag, amemKind_t kind) {
  using namespace amem;
  if (pointer == nullptr)
    return result_of("amemMalloc", make_error(ErrorKind::misuse, 0, "the pointer is null"));
  *pointer = nullptr;
  const Result<DeviceAddress> address = allocate(size_bytes, tag, kind);
  if (!address.ok()) return result_of("amemMalloc", address.error());
  *pointer = reinterpret_cast<void*>(address.value());
  return 0;
}

AMEM_API int amemFree(void* pointer) {
  using namespace amem;
  if (pointer == nullptr) return 0;
  Process* const process = process_that_works();
  if (process == nullptr) return result_of("amemFree", why_inactive());
  return result_of("amemFree", process->tensors().free(reinterpret_cast<DeviceAddress>(pointer)));
}

AMEM_API int amemBeginRegion(const char* tag, amemKind_t kind) {
  return amem::result_of("amemBeginRegion", amem::begin_region(tag, kind));
}

AMEM_API int amemEndRegion(void) { return amem::result_of("amemEndRegion", amem::end_region()); }

AMEM_API int amemSetProcessRegion(const char* tag, amemKind_t kind) {
  return amem::result_of("amemSetProcessRegion", amem::begin_process_region(tag, kind));
}

AMEM_API int amemReadBackup(void* to, const void* pointer, size_t size_bytes) {
  using namespace amem;
  TensorClient* const client = tensor_client();
  if (client == nullptr) return result_of("amemReadBackup", why_inactive());
  return result_of("amemReadBackup",
                   client->read_saved(reinterpret_cast<DeviceAddress>(pointer), size_bytes, to));
}

AMEM_API const void* amemGetBackup(const void* pointer, size_t size_bytes) {
  amem::TensorClient* const client = amem::tensor_client();
  const auto address = reinterpret_cast<amem::DeviceAddress>(pointer);
  return client == nullptr ? nullptr : client->saved(address, size_bytes);
}

AMEM_API int amemPrepareHostMemory(uint64_t bytes) {
  using namespace amem;
  Process* const process = process_that_works();
  if (process == nullptr) return result_of("amemPrepareHostMemory", why_inactive());
  const Result<int> device = device_of_caller(*process);
  if (!device.ok()) return result_of("amemPrepareHostMemory", Error(device.error()));
  process->session().prepare_host_memory(device.value(), bytes);
  return 0;
}

AMEM_API int amemSetBackupDirectory(const char* path) {
  using namespace amem;
  Process* const process = process_that_works();
  if (process == nullptr) return result_of("amemSetBackupDirectory", why_inactive());
  if (path == nullptr)
    return result_of("amemSetBackupDirectory",
                     make_error(ErrorKind::misuse, 0, "the path is null"));
  return result_of("amemSetBackupDirectory", process->session().backup_directory().set(path));
}

AMEM_API int amemRetainBackups(int retain) {
  using namespace amem;
  Process* const process = process_that_works();
  if (process == nullptr) return result_of("amemRetainBackups", why_inactive());
  process->session().retain_backups(retain != 0);
  return 0;
}

AMEM_API int amemSetMemoryMargin(size_t size_bytes) {
  using namespace amem;
  TensorClient* const client = tensor_client();
  if (client == nullptr) return result_of("amemSetMemoryMargin", why_inactive());
  client->set_margin(size_bytes);
  return 0;
}

AMEM_API int amemPause(const char* tags) { return amem::result_of("amemPause", amem::pause(tags)); }

AMEM_API int amemResume(const char* tags) {
  return amem::result_of("amemResume", amem::resume(tags));
}

AMEM_API const char* amemGetStatus(void) {
  struct Copy {
    std::string text;
  };
  std::string& copy = amem::thread_value<Copy>().text;
  amem::Process* const process = amem::process_that_works();
  copy = process == nullptr ? "{}" : process->status_text();
  return copy.c_str();
}

AMEM_API amemState_t amemGetTagState(const char* tag) {
  amem::Process* const process = amem::process_that_works();
  if (process == nullptr || tag == nullptr) return amemOff;
  return static_cast<amemState_t>(process->session().state(tag));
}

AMEM_API int amemGetTagTotals(const char* tag, int device, int kind, amemTotals_t* totals) {
  using namespace amem;
  if (device < -1 || kind < -1 || kind >= amemKindCount) return -1;
  std::optional<std::string_view> of_tag;
  std::optional<int> of_device;
  std::optional<Kind> of_kind;
  if (tag != nullptr) of_tag = tag;
  if (device >= 0) of_device = device;
  if (kind >= 0) of_kind = static_cast<Kind>(kind);
  return read_into(totals, [&](Process& process) {
    return sum_of(take_statistics(process.registry()), of_tag, of_device, of_kind);
  });
}

AMEM_API int amemGetTotals(int device, int kind, amemTotals_t* totals) {
  return amemGetTagTotals(nullptr, device, kind, totals);
}
