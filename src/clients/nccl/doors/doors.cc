// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/doors/doors.h"

#include <utility>
#include <vector>

#include "base/last_error.h"
#include "clients/nccl/doors/making.h"
#include "clients/nccl/doors/passage.h"
#include "clients/nccl/hook_context.h"

namespace amem {
namespace {

// --- Work on communicators
// --------------------------------------------------------------------------------------------

#define AMEM_NCCL_GATED(name, parameters, arguments)                            \
  template <int kCopy>                                                          \
  int door_##name parameters {                                                  \
    auto* const real = call_through<int parameters>(kCopy, NcclFunction::name); \
    NcclClient* const client = client_for_calls();                              \
    if (client == nullptr) [[unlikely]]                                         \
      return real arguments;                                                    \
    return inside(*client, kCopy, #name, comm, [&] { return real arguments; }); \
  }
#define AMEM_NCCL_DOOR(name)
#include "clients/nccl/doors/nccl_functions.def"
#undef AMEM_NCCL_GATED
#undef AMEM_NCCL_DOOR

// --- Groups
// -----------------------------------------------------------------------------------------------------------

template <int kCopy>
int door_ncclGroupStart() {
  auto* const real = call_through<int()>(kCopy, NcclFunction::ncclGroupStart);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real();
  note_call_passed();
  const int result = real();
  if (result == ncclSuccess) client->gate().group_started("ncclGroupStart");
  return result;
}

/// Ends the calling thread's innermost group by `end`.
template <typename End>
int end_group(NcclClient& client, int copy, const char* name, End end) {
  note_call_passed();
  return client.gate().end_group(name, [&] {
    const int result = end();
    if (result == ncclInProgress) client.note_in_progress();
    // Whoever waits for the group to leave the gate may go by which communicators there are.
    if (client.gate().is_in_outermost_group()) end_making_in_group(client, copy, result);
    return result;
  });
}

template <int kCopy>
int door_ncclGroupEnd() {
  auto* const real = call_through<int()>(kCopy, NcclFunction::ncclGroupEnd);
  NcclClient* const client = client_for_calls();
  return client == nullptr ? real() : end_group(*client, kCopy, "ncclGroupEnd", real);
}

/// Estimates how long the group's work would take, and ends the group without doing any.
template <int kCopy>
int door_ncclGroupSimulateEnd(void* info) {
  auto* const real = call_through<int(void*)>(kCopy, NcclFunction::ncclGroupSimulateEnd);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(info);
  return end_group(*client, kCopy, "ncclGroupSimulateEnd", [&] { return real(info); });
}

// --- Communicators begin
// --------------------------------------------------------------------------------------

template <int kCopy>
int door_ncclGetUniqueId(ncclUniqueId* id) {
  if (client_for_calls() != nullptr) choose_cumem();
  return call_through<int(ncclUniqueId*)>(kCopy, NcclFunction::ncclGetUniqueId)(id);
}

template <int kCopy>
int door_ncclCommInitRank(Comm* comm, int ranks, ncclUniqueId id, int rank) {
  auto* const real =
      call_through<int(Comm*, int, ncclUniqueId, int)>(kCopy, NcclFunction::ncclCommInitRank);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(comm, ranks, id, rank);
  return make_communicator(*client, kCopy, "ncclCommInitRank", nullptr, comm,
                           named_by(&id, sizeof id), [&] { return real(comm, ranks, id, rank); });
}

template <int kCopy>
int door_ncclCommInitRankConfig(Comm* comm, int ranks, ncclUniqueId id, int rank, void* config) {
  auto* const real = call_through<int(Comm*, int, ncclUniqueId, int, void*)>(
      kCopy, NcclFunction::ncclCommInitRankConfig);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(comm, ranks, id, rank, config);
  return make_communicator(*client, kCopy, "ncclCommInitRankConfig", nullptr, comm,
                           named_by(&id, sizeof id),
                           [&] { return real(comm, ranks, id, rank, config); });
}

template <int kCopy>
int door_ncclCommInitRankScalable(Comm* comm, int ranks, int rank, int ids, ncclUniqueId* id,
                                  void* config) {
  auto* const real = call_through<int(Comm*, int, int, int, ncclUniqueId*, void*)>(
      kCopy, NcclFunction::ncclCommInitRankScalable);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(comm, ranks, rank, ids, id, config);
  const size_t size_bytes = id == nullptr || ids < 0 ? 0 : sizeof *id * static_cast<size_t>(ids);
  return make_communicator(*client, kCopy, "ncclCommInitRankScalable", nullptr, comm,
                           named_by(id, size_bytes),
                           [&] { return real(comm, ranks, rank, ids, id, config); });
}

template <int kCopy>
int door_ncclCommInitAll(Comm* comms, int devices, const int* list) {
  auto* const real =
      call_through<int(Comm*, int, const int*)>(kCopy, NcclFunction::ncclCommInitAll);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(comms, devices, list);
  prepare_to_make();
  return inside(*client, kCopy, "ncclCommInitAll", nullptr, [&] {
    const int result = real(comms, devices, list);
    if ((result != ncclSuccess && result != ncclInProgress) || comms == nullptr) return result;
    // All ranks are in this client, so any name that nobody else has will do.
    const InstanceId unique = random_instance_id();
    for (int i = 0; i < devices; ++i) {
      client->gate().add_communicator(comms[i], CommunicatorId{unique.bits});
      add_async(*client, kCopy, comms[i]);
    }
    return result;
  });
}

template <int kCopy>
int door_ncclCommSplit(Comm parent, int color, int key, Comm* comm, void* config) {
  auto* const real =
      call_through<int(Comm, int, int, Comm*, void*)>(kCopy, NcclFunction::ncclCommSplit);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(parent, color, key, comm, config);
  const auto name = [=](const CommunicatorId& id) {
    return client->derived_communicators().split(parent, id, color);
  };
  // A rank without a color gets no communicator.
  Comm* const slot = color < 0 ? nullptr : comm;
  return make_communicator(*client, kCopy, "ncclCommSplit", parent, slot,
                           derived_from(*client, parent, name),
                           [&] { return real(parent, color, key, comm, config); });
}

template <int kCopy>
int door_ncclCommShrink(Comm parent, int* excluded, int count, Comm* comm, void* config,
                        int flags) {
  auto* const real =
      call_through<int(Comm, int*, int, Comm*, void*, int)>(kCopy, NcclFunction::ncclCommShrink);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(parent, excluded, count, comm, config, flags);
  const auto name = [=](const CommunicatorId& id) {
    std::vector<int> ranks;
    if (excluded != nullptr && count > 0) ranks.assign(excluded, excluded + count);
    return client->derived_communicators().shrink(parent, id, std::move(ranks));
  };
  return make_communicator(*client, kCopy, "ncclCommShrink", parent, comm,
                           derived_from(*client, parent, name),
                           [&] { return real(parent, excluded, count, comm, config, flags); });
}

/// A rank that joins has no parent, and of the others only one has the unique id: no identity can
/// be derived alike by all.
template <int kCopy>
int door_ncclCommGrow(Comm parent, int ranks, const ncclUniqueId* id, int rank, Comm* comm,
                      void* config) {
  auto* const real = call_through<int(Comm, int, const ncclUniqueId*, int, Comm*, void*)>(
      kCopy, NcclFunction::ncclCommGrow);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(parent, ranks, id, rank, comm, config);
  return make_communicator(
      *client, kCopy, "ncclCommGrow", parent, comm, [] { return kNameless; },
      [&] { return real(parent, ranks, id, rank, comm, config); });
}

// --- Communicators end
// --------------------------------------------------------------------------------------

/// Ending a communicator is legal at any time: while its memory is away, the end works on amem's
/// tables alone.
int end_communicator(Comm comm, int (*end)(Comm)) {
  if (NcclClient* const client = client_for_calls()) {
    client->async_communicators().forget(comm);
    client->derived_communicators().forget(comm);
  }
  return end(comm);
}

template <int kCopy>
int door_ncclCommDestroy(Comm comm) {
  return end_communicator(comm, call_through<int(Comm)>(kCopy, NcclFunction::ncclCommDestroy));
}

template <int kCopy>
int door_ncclCommAbort(Comm comm) {
  return end_communicator(comm, call_through<int(Comm)>(kCopy, NcclFunction::ncclCommAbort));
}

// --- What amem asks itself
// --------------------------------------------------------------------------------------

template <int kCopy>
int door_ncclCommCount(Comm comm, int* count) {
  return call_through<int(Comm, int*)>(kCopy, NcclFunction::ncclCommCount)(comm, count);
}

// --- The application's own memory, and what went wrong
// -------------------------------------------------------------------------------------

template <int kCopy>
int door_ncclMemAlloc(void** pointer, size_t size_bytes) {
  auto* const real = call_through<int(void**, size_t)>(kCopy, NcclFunction::ncclMemAlloc);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(pointer, size_bytes);
  choose_cumem();
  return inside(*client, kCopy, "ncclMemAlloc", nullptr, [&] {
    const UserAllocationScope scope;
    return real(pointer, size_bytes);
  });
}

template <int kCopy>
int door_ncclCommGetAsyncError(Comm comm, int* state) {
  auto* const real = call_through<int(Comm, int*)>(kCopy, NcclFunction::ncclCommGetAsyncError);
  NcclClient* const client = client_for_calls();
  if (client == nullptr) return real(comm, state);
  return client->async_communicators().ask(real, comm, state);
}

template <int kCopy>
const char* door_ncclGetLastError(Comm comm) {
  auto* const real = call_through<const char*(Comm)>(kCopy, NcclFunction::ncclGetLastError);
  return last_call_was_refused() ? last_error_text() : real(comm);
}

// --- The doors of all copies
// --------------------------------------------------------------------------------

using DoorsOfCopy = std::array<const void*, kNcclFunctions>;

template <int kCopy>
DoorsOfCopy doors_of() {
  return {
#define AMEM_NCCL_GATED(name, parameters, arguments) \
  reinterpret_cast<const void*>(&door_##name<kCopy>),
#define AMEM_NCCL_DOOR(name) reinterpret_cast<const void*>(&door_##name<kCopy>),
#include "clients/nccl/doors/nccl_functions.def"
#undef AMEM_NCCL_GATED
#undef AMEM_NCCL_DOOR
  };
}

template <int... kCopies>
std::array<DoorsOfCopy, sizeof...(kCopies)> doors_of_all(std::integer_sequence<int, kCopies...>) {
  return {doors_of<kCopies>()...};
}

}  // namespace

const void* door_of(int copy, NcclFunction function) {
  static const auto doors = doors_of_all(std::make_integer_sequence<int, kMostCopies>());
  return doors[static_cast<size_t>(copy)][static_cast<size_t>(function)];
}

}  // namespace amem
