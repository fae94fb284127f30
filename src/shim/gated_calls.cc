// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/gated_calls.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "amem_nccl_abi.h"
#include "base/thread_value.h"
#include "registry/communicator_id.h"
#include "shim/call_path.h"

namespace amem {
namespace {

// --- Work on communicators
// --------------------------------------------------------------------------------------------

#define AMEM_NCCL_WORK(name, parameters, arguments, stream)        \
  AMEM_REAL(name, parameters)                                      \
  [[gnu::noinline]] int long_##name parameters {                   \
    if (process().forked()) return g_real_##name.load() arguments; \
    return inside(#name, comm, [&] {                               \
      process().note_stream(stream);                               \
      return g_real_##name.load() arguments;                       \
    });                                                            \
  }                                                                \
  [[gnu::hot]] int gated_##name parameters {                       \
    if (is_in_real_nccl(AMEM_CALLER)) [[unlikely]]                 \
      return g_real_##name.load() arguments;                       \
    GateThread* const thread = enter_quickly(#name, comm);         \
    if (thread == nullptr) [[unlikely]]                            \
      return long_##name arguments;                                \
    return leave_quickly(*thread, g_real_##name.load() arguments); \
  }
#define AMEM_NCCL_COMM(name, parameters, arguments)                             \
  AMEM_REAL(name, parameters)                                                   \
  int gated_##name parameters {                                                 \
    if (passes(AMEM_CALLER)) return g_real_##name.load() arguments;             \
    return inside(#name, comm, [&] { return g_real_##name.load() arguments; }); \
  }
#include "shim/nccl_functions.def"
#undef AMEM_NCCL_WORK
#undef AMEM_NCCL_COMM

// --- Groups
// -----------------------------------------------------------------------------------------------------------

/// Communicators whose making waits for the end of the calling thread's group.
struct PendingCommunicator {
  Comm* slot;
  CommunicatorId id;
};
using PendingCommunicators = std::vector<PendingCommunicator>;

/// How many there are, of all threads.
std::atomic<size_t> g_pending_communicators{0};

/// A communicator was made. One that is not `ready` may not be asked yet.
void add_communicator(Comm comm, const CommunicatorId& id, bool ready) {
  process().gate().add_communicator(comm, id);
  const Result<void*> symbol = real_nccl_symbol("ncclCommCount");
  if (!ready || !symbol.ok() || symbol.value() == nullptr) return;
  int ranks = 0;
  if (reinterpret_cast<int (*)(Comm, int*)>(symbol.value())(comm, &ranks) == ncclSuccess)
    process().engine().members.add(id, ranks);
}

[[gnu::cold, gnu::noinline]] void add_pending(bool ready) {
  auto& all = thread_value<PendingCommunicators>();
  for (const PendingCommunicator& pending : all) {
    // Of a communicator with a parent that does not block, NCCL fills the slot some time later, and
    // the split may have returned ncclSuccess (init.cc of NCCL 2.31).
    if (*pending.slot != nullptr)
      add_communicator(*pending.slot, pending.id, ready);
    else
      process().gate().add_unseen(pending.id);
  }
  g_pending_communicators -= all.size();
  all.clear();
}

AMEM_REAL(ncclGroupStart, ())
/// A group is no work, and applications put one around what is legal at any time: the end of many
/// communicators. So a closed gate does not refuse it, but the calls in it that start work.
[[gnu::noinline]] int long_ncclGroupStart() {
  if (process().forked()) return g_real_ncclGroupStart.load()();
  const bool let_in = enter_the_long_way("ncclGroupStart", nullptr).ok();
  note_call_passed();
  const int result = g_real_ncclGroupStart.load()();
  if (result == ncclSuccess) process().gate().group_started();
  if (let_in) process().gate().leave();
  return result;
}
[[gnu::hot]] int gated_ncclGroupStart() {
  if (is_in_real_nccl(AMEM_CALLER)) [[unlikely]]
    return g_real_ncclGroupStart.load()();
  GateThread* const thread = process().gate().enter_quickly("ncclGroupStart", nullptr);
  if (thread == nullptr) [[unlikely]]
    return long_ncclGroupStart();
  note_call_passed();
  const int result = g_real_ncclGroupStart.load()();
  if (result == ncclSuccess) [[likely]]
    CallGate::group_started_inside(*thread);
  process().gate().leave_quickly(*thread);
  return result;
}

/// Before a counted group is left, whose end gave `result`: whoever waits for that may go by which
/// communicators there are.
inline void note_end(int result, bool is_outermost) {
  if (result != ncclSuccess) [[unlikely]]
    note_failure(result);
  if (is_outermost && g_pending_communicators.load(std::memory_order_relaxed) > 0) [[unlikely]]
    add_pending(result == ncclSuccess);
}

/// Ends the calling thread's innermost group by `end`.
/// REQUIRES: the call does not pass.
template <typename End>
int ending_group(const char* name, End end) {
  CallGate& gate = process().gate();
  const int counted = gate.counted_groups();
  int result = ncclSuccess;
  if (counted > 0) {
    gate.enter_with_group(name);
    note_call_passed();
    result = end();
    note_end(result, counted == 1);
    gate.leave();
  } else {
    result = end();
  }
  gate.group_ended();
  return result;
}

AMEM_REAL(ncclGroupEnd, ())
[[gnu::noinline]] int long_ncclGroupEnd() {
  const auto real = g_real_ncclGroupEnd.load();
  return process().forked() ? real() : ending_group("ncclGroupEnd", real);
}
[[gnu::hot]] int gated_ncclGroupEnd() {
  if (is_in_real_nccl(AMEM_CALLER)) [[unlikely]]
    return g_real_ncclGroupEnd.load()();
  GateThread* const thread = process().gate().enter_end_quickly("ncclGroupEnd");
  if (thread == nullptr) [[unlikely]]
    return long_ncclGroupEnd();
  note_call_passed();
  const int result = g_real_ncclGroupEnd.load()();
  note_end(result, thread->group_depth <= 1);
  process().gate().leave_end_quickly(*thread);
  return result;
}

/// Tells how long the group's work would take, and ends it without doing any.
AMEM_REAL(ncclGroupSimulateEnd, (void* info))
int gated_ncclGroupSimulateEnd(void* info) {
  const auto real = g_real_ncclGroupSimulateEnd.load();
  if (passes(AMEM_CALLER)) return real(info);
  return ending_group("ncclGroupSimulateEnd", [&] { return real(info); });
}

// --- Communicators begin and end
// --------------------------------------------------------------------------------------

/// Runs `make`, which fills `slot`, and remembers the new communicator's identity, which
/// `identify` gives.
/// REQUIRES: the call does not pass.
template <typename Identify, typename Make>
int making(const char* name, Comm parent, Comm* slot, Identify identify, Make make) {
  return inside(name, parent, [&] {
    process().meet_neighbours();
    // Here, for a call that was refused is none.
    const CommunicatorId id = identify();
    const int result = make();
    if ((result != ncclSuccess && result != ncclInProgress) || slot == nullptr) return result;
    thread_value<PendingCommunicators>().push_back({slot, id});
    ++g_pending_communicators;
    if (process().gate().counted_groups() == 0) add_pending(result == ncclSuccess);
    return result;
  });
}

/// Whose unique ids these are.
auto named_by(const void* unique_ids, size_t size_bytes) {
  return [=] { return communicator_from_bytes(unique_ids, size_bytes); };
}

/// Whose identity `name` derives from that of `parent`; none if that has none.
template <typename Name>
auto derived_from(Comm parent, Name name) {
  return [=] {
    CommunicatorId id;
    const bool named = process().gate().find_communicator(parent, &id) && id != kNameless;
    return named ? name(id) : kNameless;
  };
}

AMEM_REAL(ncclCommInitRank, (Comm * comm, int ranks, ncclUniqueId id, int rank))
int gated_ncclCommInitRank(Comm* comm, int ranks, ncclUniqueId id, int rank) {
  if (passes(AMEM_CALLER)) return g_real_ncclCommInitRank.load()(comm, ranks, id, rank);
  return making("ncclCommInitRank", nullptr, comm, named_by(&id, sizeof id),
                [&] { return g_real_ncclCommInitRank.load()(comm, ranks, id, rank); });
}

AMEM_REAL(ncclCommInitRankConfig, (Comm * comm, int ranks, ncclUniqueId id, int rank, void* config))
int gated_ncclCommInitRankConfig(Comm* comm, int ranks, ncclUniqueId id, int rank, void* config) {
  if (passes(AMEM_CALLER))
    return g_real_ncclCommInitRankConfig.load()(comm, ranks, id, rank, config);
  return making("ncclCommInitRankConfig", nullptr, comm, named_by(&id, sizeof id), [&] {
    return g_real_ncclCommInitRankConfig.load()(comm, ranks, id, rank, config);
  });
}

AMEM_REAL(ncclCommInitRankScalable,
          (Comm * comm, int ranks, int rank, int ids, ncclUniqueId* id, void* config))
int gated_ncclCommInitRankScalable(Comm* comm, int ranks, int rank, int ids, ncclUniqueId* id,
                                   void* config) {
  if (passes(AMEM_CALLER))
    return g_real_ncclCommInitRankScalable.load()(comm, ranks, rank, ids, id, config);
  const size_t size_bytes = id == nullptr || ids < 0 ? 0 : sizeof *id * static_cast<size_t>(ids);
  return making("ncclCommInitRankScalable", nullptr, comm, named_by(id, size_bytes), [&] {
    return g_real_ncclCommInitRankScalable.load()(comm, ranks, rank, ids, id, config);
  });
}

AMEM_REAL(ncclCommInitAll, (Comm * comms, int devices, const int* list))
int gated_ncclCommInitAll(Comm* comms, int devices, const int* list) {
  if (passes(AMEM_CALLER)) return g_real_ncclCommInitAll.load()(comms, devices, list);
  return inside("ncclCommInitAll", nullptr, [&] {
    const int result = g_real_ncclCommInitAll.load()(comms, devices, list);
    if (result != ncclSuccess || comms == nullptr) return result;
    // All ranks are in this process, so any name that nobody else has will do.
    const InstanceId unique = random_instance_id();
    for (int i = 0; i < devices; ++i) add_communicator(comms[i], CommunicatorId{unique.bits}, true);
    return result;
  });
}

AMEM_REAL(ncclCommSplit, (Comm parent, int color, int key, Comm* comm, void* config))
int gated_ncclCommSplit(Comm parent, int color, int key, Comm* comm, void* config) {
  if (passes(AMEM_CALLER)) return g_real_ncclCommSplit.load()(parent, color, key, comm, config);
  const auto name = [=](const CommunicatorId& id) {
    return process().derived_communicators().split(parent, id, color);
  };
  // Whoever is of no colour gets no communicator.
  Comm* const slot = color < 0 ? nullptr : comm;
  return making("ncclCommSplit", parent, slot, derived_from(parent, name),
                [&] { return g_real_ncclCommSplit.load()(parent, color, key, comm, config); });
}

AMEM_REAL(ncclCommShrink,
          (Comm parent, int* excluded, int count, Comm* comm, void* config, int flags))
int gated_ncclCommShrink(Comm parent, int* excluded, int count, Comm* comm, void* config,
                         int flags) {
  if (passes(AMEM_CALLER))
    return g_real_ncclCommShrink.load()(parent, excluded, count, comm, config, flags);
  const auto name = [=](const CommunicatorId& id) {
    std::vector<int> ranks;
    if (excluded != nullptr && count > 0) ranks.assign(excluded, excluded + count);
    return process().derived_communicators().shrink(parent, id, std::move(ranks));
  };
  return making("ncclCommShrink", parent, comm, derived_from(parent, name), [&] {
    return g_real_ncclCommShrink.load()(parent, excluded, count, comm, config, flags);
  });
}

/// Whoever joins has no parent, and of the others only one has the unique id: no identity can be
/// derived alike by all.
AMEM_REAL(ncclCommGrow,
          (Comm parent, int ranks, const ncclUniqueId* id, int rank, Comm* comm, void* config))
int gated_ncclCommGrow(Comm parent, int ranks, const ncclUniqueId* id, int rank, Comm* comm,
                       void* config) {
  if (passes(AMEM_CALLER)) return g_real_ncclCommGrow.load()(parent, ranks, id, rank, comm, config);
  const auto nameless = [] { return kNameless; };
  return making("ncclCommGrow", parent, comm, nameless,
                [&] { return g_real_ncclCommGrow.load()(parent, ranks, id, rank, comm, config); });
}

/// Ending a communicator is legal at any time: while it runs it works on the tables alone if its
/// memory is away.
int ending(const void* caller, Comm comm, int (*end)(Comm)) {
  if (passes(caller)) return end(comm);
  process().async_communicators().forget(comm);
  process().derived_communicators().forget(comm);
  return end(comm);
}

AMEM_REAL(ncclCommDestroy, (Comm comm))
int gated_ncclCommDestroy(Comm comm) {
  return ending(AMEM_CALLER, comm, g_real_ncclCommDestroy.load());
}

AMEM_REAL(ncclCommAbort, (Comm comm))
int gated_ncclCommAbort(Comm comm) {
  return ending(AMEM_CALLER, comm, g_real_ncclCommAbort.load());
}

// --- The application's own memory
// -------------------------------------------------------------------------------------

AMEM_REAL(ncclMemAlloc, (void** pointer, size_t size_bytes))
int gated_ncclMemAlloc(void** pointer, size_t size_bytes) {
  // NCCL calls it for itself too, through its own public symbol (RMA and CE windows).
  if (passes(AMEM_CALLER)) return g_real_ncclMemAlloc.load()(pointer, size_bytes);
  return inside("ncclMemAlloc", nullptr, [&] {
    const UserAllocationScope scope;
    return g_real_ncclMemAlloc.load()(pointer, size_bytes);
  });
}

// --- What went wrong
// --------------------------------------------------------------------------------

AMEM_REAL(ncclCommGetAsyncError, (Comm comm, int* state))
int gated_ncclCommGetAsyncError(Comm comm, int* state) {
  const auto real = g_real_ncclCommGetAsyncError.load();
  if (passes(AMEM_CALLER)) return real(comm, state);
  return process().async_communicators().ask(real, comm, state);
}

using Real_ncclGetLastError = const char* (*)(Comm);
std::atomic<Real_ncclGetLastError> g_real_ncclGetLastError{nullptr};
const char* gated_ncclGetLastError(Comm comm) {
  return last_call_was_refused() ? last_error_text() : g_real_ncclGetLastError.load()(comm);
}

struct Wrapper {
  const char* name;
  void* wrapper;
  void (*keep_real)(void* real);
};

#define AMEM_WRAPPER(name)                        \
  {#name, reinterpret_cast<void*>(&gated_##name), \
   [](void* real) { g_real_##name.store(reinterpret_cast<Real_##name>(real)); }},
const Wrapper kWrappers[] = {
#define AMEM_NCCL_WORK(name, parameters, arguments, stream) AMEM_WRAPPER(name)
#define AMEM_NCCL_COMM(name, parameters, arguments) AMEM_WRAPPER(name)
#include "shim/nccl_functions.def"
#undef AMEM_NCCL_WORK
#undef AMEM_NCCL_COMM
    AMEM_WRAPPER(ncclGroupStart) AMEM_WRAPPER(ncclGroupEnd) AMEM_WRAPPER(ncclGroupSimulateEnd)
        AMEM_WRAPPER(ncclCommInitRank) AMEM_WRAPPER(ncclCommInitRankConfig)
            AMEM_WRAPPER(ncclCommInitRankScalable) AMEM_WRAPPER(ncclCommInitAll)
                AMEM_WRAPPER(ncclCommSplit) AMEM_WRAPPER(ncclCommShrink) AMEM_WRAPPER(ncclCommGrow)
                    AMEM_WRAPPER(ncclCommDestroy) AMEM_WRAPPER(ncclCommAbort)
                        AMEM_WRAPPER(ncclMemAlloc) AMEM_WRAPPER(ncclCommGetAsyncError)
                            AMEM_WRAPPER(ncclGetLastError)};

}  // namespace

void* gated_call(const char* name, void* real) {
  for (const Wrapper& wrapper : kWrappers) {
    if (strcmp(wrapper.name, name) != 0) continue;
    wrapper.keep_real(real);
    return wrapper.wrapper;
  }
  return real;
}

}  // namespace amem
