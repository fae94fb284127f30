// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/process.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "api/calls.h"
#include "base/architecture.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "driver/nvml.h"
#include "engine/statistics.h"
#include "interpose/image.h"

namespace amem {
namespace {

pthread_once_t g_once = PTHREAD_ONCE_INIT;
std::string* g_why_off = nullptr;  // set once, then constant

/// The file of another copy of this library that is active in the process, or "".
std::string other_active_copy() {
  std::vector<uintptr_t> found;
  visit_images([&](const Image& image) {
    const uintptr_t address = image.view.address_of("amemIsActive");
    if (address != 0 && !is_in_this_library(address)) found.push_back(address);
  });
  for (const uintptr_t address : found) {
    Dl_info other{};
    // A copy that the loader still relocates cannot be called: dladdr() waits for the loader.
    if (dladdr(reinterpret_cast<void*>(address), &other) != 0 &&
        reinterpret_cast<int (*)()>(address)() != 0)
      return other.dli_fname;
  }
  return {};
}

}  // namespace

std::optional<Region> process_region_of_environment() {
  const Tag& tag = environment().tensors;
  if (tag.empty()) return std::nullopt;
  return Region{tag, Kind::keep};
}

Process::Process(const Driver& found)
    : driver(found),
      devices(driver, exiting),
      engine{driver, registry, devices, exiting, random_instance_id()},
      memory(driver, registry, devices,
             {environment().timeout_ms, environment().slab, environment().release_multicast}),
      sharing(
          engine,
          [this](bool attribution) {
            return attribution ? attribution_text() : status_text(false);
          },
          [this](size_t bytes, int node) { return session.host_pool().offer(bytes, node); },
          [this](const Control& request, pid_t from) { return remote.answer(request, from); }),
      handles(memory, sharing),
      nccl(handles, engine.peer_table,
           {environment().gate_timeout_ms, environment().free_tag == 7,
            static_cast<size_t>(std::max(environment().host_prealloc_mib, 0L)) << 20}),
      tensors(handles, devices, environment().timeout_ms),
      symmetric(registry, devices, engine.peer_table, environment().gate_timeout_ms),
      session(engine, sharing, static_cast<size_t>(environment().host_limit_mib) << 20,
              static_cast<size_t>(environment().host_keep_mib) << 20),
      remote(engine, session, nccl.gate) {
  engine.clients = Clients{&nccl, &tensors, &symmetric};
  engine.group = static_cast<int32_t>(environment().group.number);
  engine.timeout_ms = environment().timeout_ms;
  engine.gate_timeout_ms = environment().gate_timeout_ms;
  engine.resume_wait_ms = environment().resume_wait_ms;
  if (!environment().job_key.empty()) engine.job_key = JobKey::read(environment().job_key);
  engine.interfaces = variable_now("NCCL_SOCKET_IFNAME");
  nccl.session = &session;
  nccl.gate.resume_on_call(environment().resume_on_call);
  set_process_region(process_region_of_environment());
  if (const std::string& path = environment().backup_directory; !path.empty())
    if (Status set = session.backup_directory().set(path); !set.ok())
      AMEM_LOG(warn, -1, "AMEM_BACKUP_DIR: %s", set.error().message.c_str());
}

void Process::set_active(bool is_active) {
  g_active<VirtualMemory>.store(is_active ? &memory : nullptr, std::memory_order_release);
  g_active<SharedHandles>.store(is_active ? &handles : nullptr, std::memory_order_release);
  g_active<CapturedGraphs>.store(is_active ? &graphs : nullptr, std::memory_order_release);
  g_active<TensorClient>.store(is_active ? &tensors : nullptr, std::memory_order_release);
  g_active<NcclClient>.store(is_active ? &nccl : nullptr, std::memory_order_release);
}

Process* Process::build() {
  for (const std::string& complaint : environment().complaints)
    AMEM_LOG(warn, -1, "%s", complaint.c_str());
  const std::string other = other_active_copy();
  Result<Driver> driver =
      other.empty() ? load_driver()
                    : make_error(ErrorKind::misuse, 0,
                                 "two copies of amem are in this process: %s is active, this one "
                                 "(version %s) is not: load only one of them",
                                 other.c_str(), AMEM_VERSION);
  if (!driver.ok()) {
    static std::string* const why_off = new std::string(driver.error().message);
    g_why_off = why_off;
    return nullptr;
  }
  static Process* const process = new Process(driver.value());
  static const pid_t pid = getpid();
  process->set_active(true);
  if constexpr (kIsAarch64)
    AMEM_LOG(info, -1, "amem for aarch64 is tested by emulation only: it has not run on a GPU");
  // It pauses between calls.
  const std::string cycles = beside_this_library("libamem_cycles.so");
  if (environment().cycle_every > 0 && dlopen(cycles.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    AMEM_LOG(warn, -1, "AMEM_CYCLE_EVERY: no pauses: %s", dlerror());
  pthread_atfork(nullptr, nullptr, [] {
    Process* self = made_.load();
    if (self == nullptr) return;
    self->set_active(false);
    UniqueFd::close_all();
  });
  atexit([] {
    Process* self = made_.load();
    if (self == nullptr) return;
    self->exiting.raise();
    // The locks of a child may be held, also of one that clone(2) has made.
    if (getpid() == pid) self->sharing.wake_imports();
    if (PeerService* peers = self->engine.peers.load()) peers->withdraw();
  });
  return process;
}

Process* Process::build_once() {
  const NoCancellation no_cancellation;
  if (!is_enabled()) return nullptr;
  pthread_once(&g_once, [] { made_.store(build(), std::memory_order_release); });
  return made_.load(std::memory_order_acquire);
}

std::string Process::why_off() {
  if (!is_enabled())
    return "amem is not enabled: import amem, or start the job with AMEM_ENABLE=1 (amem run does)";
  return g_why_off != nullptr ? *g_why_off : std::string();
}

std::string Process::status_text(bool with_details) {
  ProcessFacts facts{getpid(),
                     engine.group,
                     {},
                     session.context_bytes(),
                     [this](int device) { return gpu_uuid(driver, device); },
                     environment().group.name,
                     session.host_pool().use(),
                     session.counters(),
                     remote.json()};
  for (const auto& [tag, state] : session.states()) {
    MutexLock lock(engine.peer_table.mutex);
    facts.states[tag] = session_state_name(state);
    std::string awaited;
    engine.peer_table.visit(tag, [&](const InstanceId&, const auto& peer) {
      if (peer.is_away()) awaited += (awaited.empty() ? "" : ", ") + peer.text;
    });
    if (!awaited.empty()) facts.awaited[tag] = awaited;
  }
  if (with_details) facts.host_capacity_bytes = session.host_pool().capacity_bytes();
  return statistics_json(take_statistics(registry), facts);
}

}  // namespace amem
