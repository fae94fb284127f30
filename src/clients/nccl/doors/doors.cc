// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/active.h"
#include "base/environment.h"
#include "base/last_error.h"
#include "base/log.h"
#include "base/thread_value.h"
#include "clients/nccl/doors/nccl_copies.h"
#include "clients/nccl/doors/nccl_result.h"
#include "clients/nccl/gate/communicator_id.h"
#include "clients/nccl/nccl_client.h"

namespace amem {
namespace {

// --- The path of a call

/// A function of an NCCL library, or nullptr.
template <typename Function>
Function* real_function(int copy, NcclFunction function) {
  return reinterpret_cast<Function*>(
      g_nccl_copies[static_cast<size_t>(copy)].real[static_cast<size_t>(function)]);
}

/// The function behind a door. Counts the call.
template <typename Function>
Function* call_through(int copy, NcclFunction function) {
  auto& calls = g_nccl_copies[static_cast<size_t>(copy)].calls[static_cast<size_t>(function)];
  // Relaxed: a number for reports; nothing is ordered by it.
  calls.store(calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return real_function<Function>(copy, function);
}

/// Records a communicator that a pause may have to query.
void add_async(NcclClient& client, int copy, Comm comm) {
  client.async_communicators.add(comm, real_function<AsyncCommunicators::AskFunction>(
                                           copy, NcclFunction::ncclCommGetAsyncError));
}

/// Runs `call` inside the gate of `comm`, or inside the gate of the process if `comm` is nullptr.
template <typename Call>
int inside(NcclClient& client, int copy, const char* name, Comm comm, Call call,
           bool ignore_ended = false) {
  const CallGate::Entry entry(client.gate, name, comm, client.settings.gate_timeout_ms,
                              ignore_ended);
  if (!entry.is_inside()) [[unlikely]]
    return report_error(name, entry.refusal());
  t_refused = false;
  const int result = call();
  if (result == ncclInProgress) [[unlikely]]
    client.async_communicators.note_in_progress();
  if (client.async_communicators.any()) [[unlikely]]
    add_async(client, copy, comm);
  return result;
}

/// `result` of a call that starts work on `comm`, or of the end of a group if it is nullptr, unless
/// the function of amemOnNcclCall() fails it.
int observed(NcclClient& client, Comm comm, int result) {
  // Relaxed: tell_observer() loads it again, sequentially consistent.
  if (g_nccl_observer.load(std::memory_order_relaxed) == nullptr) [[likely]]
    return result;
  const bool succeeded = result == ncclSuccess || result == ncclInProgress;
  const int failed = client.tell_observer(succeeded ? comm : nullptr);
  return failed != 0 ? failed : result;
}

// --- Communicators that are created

/// Sets NCCL_CUMEM_ENABLE, which NCCL reads when it creates its first communicator. Many launchers
/// and frameworks set it to 0, some of them after amem was loaded. With 0, NCCL's memory cannot be
/// released.
void choose_cumem() {
  if (environment().cumem == CumemMode::respect) return;
  if (strcmp(variable_now("NCCL_CUMEM_ENABLE"), "1") != 0) setenv("NCCL_CUMEM_ENABLE", "1", 1);
}

/// To be called before a communicator is created. Also patches images that were loaded since the
/// last scan.
void prepare_to_make() {
  scan_images();
  log_nccl_copies();
  choose_cumem();
}

/// A communicator whose address NCCL stores in `slot` when the calling thread's group ends, or
/// later, while `parent` is in progress. `slot` is nullptr on a rank that gets none.
struct PendingCommunicator {
  Comm parent;
  Comm* slot;
  Identify identify;
};
using PendingCommunicators = std::vector<PendingCommunicator>;

// Read at the end of each group.
constinit thread_local bool t_has_pending = false;

/// The number of ranks limits which processes may be members. A communicator that is still being
/// created may not be queried.
void add_member_count(NcclClient& client, int copy, Comm comm, const CommunicatorId& id,
                      int result) {
  auto* const count = result == ncclSuccess
                          ? real_function<int(Comm, int*)>(copy, NcclFunction::ncclCommCount)
                          : nullptr;
  int ranks = -1;
  if (count != nullptr && count(comm, &ranks) == ncclSuccess) client.peers.members.add(id, ranks);
}

/// The calling thread's last group is about to end, and `result` is the result of its end: the
/// communicators that were created in it now exist.
void end_making_in_group(NcclClient& client, int copy, int result) {
  if (!t_has_pending) return;
  t_has_pending = false;
  auto& all = thread_value<PendingCommunicators>();
  for (const PendingCommunicator& pending : all) {
    Comm* const slot = pending.slot;
    Comm const comm =
        slot == nullptr ? nullptr : std::atomic_ref(*slot).load(std::memory_order_acquire);
    // A group that fails may leave communicators, which the application aborts.
    const bool succeeded = result == ncclSuccess || result == ncclInProgress;
    if (!succeeded && (comm == nullptr || pending.parent != nullptr)) continue;
    const CommunicatorId id = pending.identify();
    if (slot == nullptr) continue;
    add_async(client, copy, comm != nullptr ? comm : pending.parent);
    // A parent that does not block is in progress until NCCL has filled the slot.
    if (comm == nullptr) {
      client.async_communicators.note_in_progress();
      client.async_communicators.expect_child(pending.parent, slot, id);
      continue;
    }
    client.gate.add_communicator(comm, id);
    add_member_count(client, copy, comm, id, result);
  }
  all.clear();
}

/// The identity of a communicator that has no parent.
Identify identity(const CommunicatorId& id) {
  return [id] { return id; };
}

/// Runs `make`, which fills `slot`, and records the communicator and its identity.
/// `ignore_ended`: see CallGate::Entry.
template <typename Make>
int make_communicator(NcclClient& client, int copy, const char* name, Comm parent, Comm* slot,
                      Identify identify, Make make, bool ignore_ended = false) {
  prepare_to_make();
  const auto call = [&] {
    client.handles.exchange().start_service();
    const int result = make();
    if (result != ncclSuccess && result != ncclInProgress) return result;
    thread_value<PendingCommunicators>().push_back({parent, slot, std::move(identify)});
    t_has_pending = true;
    if (!client.gate.caller_is_in_group()) end_making_in_group(client, copy, result);
    return result;
  };
  return inside(client, copy, name, parent, call, ignore_ended);
}

std::vector<int> ranks_of(const int* ranks, int count) {
  return ranks == nullptr || count <= 0 ? std::vector<int>() : std::vector(ranks, ranks + count);
}

/// Ends the calling thread's innermost group by `end`.
template <typename End>
int end_group(NcclClient& client, int copy, const char* name, End end) {
  t_refused = false;
  return client.gate.end_group(name, [&] {
    const int result = end();
    if (result == ncclInProgress) client.async_communicators.note_in_progress();
    // A pause that waits for the group to leave the gate uses the list of communicators.
    if (client.gate.is_in_outermost_group()) end_making_in_group(client, copy, result);
    return result;
  });
}

/// NCCL's own suspend or resume of a communicator, which `call` does. It is refused in a paused
/// process, also if other calls resume the process.
template <typename Call>
int suspend_or_resume(NcclClient& client, int copy, const char* name, Comm comm, Call call) {
  const Status open = client.gate.check_open(name);
  return open.ok() ? inside(client, copy, name, comm, call) : report_error(name, open.error());
}

// --- Doors that are generated from their rows

#define AMEM_DOOR(name, parameters, arguments, ...)                             \
  template <int kCopy>                                                          \
  int door_##name parameters {                                                  \
    auto* const real = call_through<int parameters>(kCopy, NcclFunction::name); \
    NcclClient* const client = active<NcclClient>();                            \
    if (client == nullptr) [[unlikely]]                                         \
      return real arguments;                                                    \
    __VA_ARGS__                                                                 \
  }
#define AMEM_DOOR_gated(name, parameters, arguments) \
  AMEM_DOOR(name, parameters, arguments,             \
            return inside(*client, kCopy, #name, comm, [&] { return real arguments; });)
#define AMEM_DOOR_launches(name, parameters, arguments) \
  AMEM_DOOR(name, parameters, arguments,                \
            return observed(*client, comm,              \
                            inside(*client, kCopy, #name, comm, [&] { return real arguments; }));)
#define AMEM_DOOR_windows(name, parameters, arguments)                  \
  AMEM_DOOR(name, parameters, arguments,                                \
            client->handles.memory().slabs().keep_single_slots_apart(); \
            return inside(*client, kCopy, #name, comm, [&] { return real arguments; });)
#define AMEM_DOOR_creates(name, parameters, arguments, parent, slot, identify, ...) \
  AMEM_DOOR(name, parameters, arguments,                                            \
            return make_communicator(*client, kCopy, #name, parent, slot, identify, \
                                     [&] { return real arguments; } __VA_OPT__(, ) __VA_ARGS__);)
#define AMEM_DOOR_joins(name, parameters, arguments, parent, slot, identify) \
  AMEM_DOOR(name, parameters, arguments, {                                   \
    const Identify id_of = identify;                                         \
    client->handles.exchange().join(id_of(), ranks, rank);                   \
    return make_communicator(*client, kCopy, #name, parent, slot, id_of,     \
                             [&] { return real arguments; });                \
  })
#define AMEM_DOOR_shrinks(...) AMEM_DOOR_creates(__VA_ARGS__, true)
#define AMEM_DOOR_ends_group(name, parameters, arguments) \
  AMEM_DOOR(name, parameters, arguments,                  \
            return observed(*client, nullptr,             \
                            end_group(*client, kCopy, #name, [&] { return real arguments; }));)
#define AMEM_DOOR_ends(name, parameters, arguments) \
  AMEM_DOOR(name, parameters, arguments, client->communicator_ends(comm); return real arguments;)
#define AMEM_DOOR_forwarded(name, parameters, arguments) \
  AMEM_DOOR(name, parameters, arguments, return real arguments;)
#define AMEM_DOOR_written(name, ...)

#define AMEM_NCCL_FUNCTION(name, kind, ...) AMEM_DOOR_##kind(name, __VA_ARGS__)
#include "clients/nccl/doors/nccl_functions.def"
#undef AMEM_NCCL_FUNCTION

// --- Handwritten doors

AMEM_DOOR(ncclGroupStart, (), (), {
  t_refused = false;
  const int result = real();
  if (result == ncclSuccess) client->gate.group_started("ncclGroupStart");
  return result;
})

AMEM_DOOR(ncclCommSuspend, (Comm comm, int flags), (comm, flags), {
  static std::atomic<bool> warned{false};
  if (client->handles.memory().slabs().enabled() && !warned.exchange(true))
    AMEM_LOG(warn, -1,
             "ncclCommSuspend() frees almost no GPU memory, because amem keeps the slabs that hold "
             "NCCL's buffers: call ncclPause(), or set AMEM_SLAB=0 and start again");
  return suspend_or_resume(*client, kCopy, "ncclCommSuspend", comm,
                           [&] { return real(comm, flags); });
})

AMEM_DOOR(ncclCommResume, (Comm comm), (comm), {
  return suspend_or_resume(*client, kCopy, "ncclCommResume", comm, [&] { return real(comm); });
})

AMEM_DOOR(ncclGetUniqueId, (ncclUniqueId * id), (id), {
  choose_cumem();
  return real(id);
})

AMEM_DOOR(ncclCommAbort, (Comm comm), (comm),
          { return client->abort_communicator(comm, [&] { return real(comm); }); })

AMEM_DOOR(ncclCommInitAll, (Comm * comms, int devices, const int* list), (comms, devices, list), {
  prepare_to_make();
  // All ranks are in this process, so any unique identity is sufficient.
  const InstanceId unique = random_instance_id();
  client->handles.exchange().join(CommunicatorId{unique.bits}, 1, 0);
  return inside(*client, kCopy, "ncclCommInitAll", nullptr, [&] {
    const int result = real(comms, devices, list);
    if ((result != ncclSuccess && result != ncclInProgress) || comms == nullptr) return result;
    client->peers.members.add(CommunicatorId{unique.bits}, devices);
    for (int i = 0; i < devices; ++i) {
      client->gate.add_communicator(comms[i], CommunicatorId{unique.bits});
      add_async(*client, kCopy, comms[i]);
    }
    return result;
  });
})

AMEM_DOOR(ncclMemAlloc, (void** pointer, size_t size_bytes), (pointer, size_bytes), {
  choose_cumem();
  return inside(*client, kCopy, "ncclMemAlloc", nullptr, [&] {
    t_in_mem_alloc = true;
    const int result = real(pointer, size_bytes);
    t_in_mem_alloc = false;
    return result;
  });
})

AMEM_DOOR(ncclCommGetAsyncError, (Comm comm, int* state), (comm, state),
          { return client->async_communicators.ask(real, comm, state); })

template <int kCopy>
const char* door_ncclGetLastError(Comm comm) {
  auto* const real = call_through<const char*(Comm)>(kCopy, NcclFunction::ncclGetLastError);
  return t_refused ? last_error_text() : real(comm);
}

// --- The doors of all copies

using DoorsOfCopy = std::array<const void*, kNcclFunctions>;

template <int kCopy>
DoorsOfCopy doors_of() {
  return {
#define AMEM_NCCL_FUNCTION(name, ...) reinterpret_cast<const void*>(&door_##name<kCopy>),
#include "clients/nccl/doors/nccl_functions.def"
#undef AMEM_NCCL_FUNCTION
  };
}

template <int... kCopies>
std::array<DoorsOfCopy, sizeof...(kCopies)> doors_of_all(std::integer_sequence<int, kCopies...>) {
  return {doors_of<kCopies>()...};
}

}  // namespace

const void* door_of(int copy, NcclFunction function) {
  static const auto doors = doors_of_all(std::make_integer_sequence<int, kMaxCopies>());
  return doors[static_cast<size_t>(copy)][static_cast<size_t>(function)];
}

}  // namespace amem
