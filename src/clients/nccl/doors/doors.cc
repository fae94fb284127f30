// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <atomic>
#include <utility>
#include <vector>

#include "base/active.h"
#include "base/last_error.h"
#include "base/log.h"
#include "clients/nccl/doors/passage.h"

namespace amem {
namespace {

std::vector<int> ranks_of(const int* ranks, int count) {
  return ranks == nullptr || count <= 0 ? std::vector<int>() : std::vector(ranks, ranks + count);
}

/// Ends the calling thread's innermost group by `end`.
template <typename End>
int end_group(NcclClient& client, int copy, const char* name, End end) {
  t_refused = false;
  return client.gate.end_group(name, [&] {
    const int result = end();
    if (result == ncclInProgress) client.note_in_progress();
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
  static std::atomic<bool> told{false};
  if (client->handles.memory().slabs().enabled() && !told.exchange(true))
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
  return inside(*client, kCopy, "ncclCommInitAll", nullptr, [&] {
    const int result = real(comms, devices, list);
    if ((result != ncclSuccess && result != ncclInProgress) || comms == nullptr) return result;
    // All ranks are in this process, so any unique identity is sufficient.
    const InstanceId unique = random_instance_id();
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
