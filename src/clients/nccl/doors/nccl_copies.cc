// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/doors/nccl_copies.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "clients/nccl/doors/added_functions.h"
#include "clients/nccl/driver_calls/descriptor_requests.h"
#include "clients/nccl/driver_calls/lookup.h"
#include "clients/nccl/forwarder/forwarder.h"
#include "interpose/slots.h"

namespace amem {

constinit std::array<NcclCopy, kMaxCopies> g_nccl_copies{};

namespace {

using Adoption = Interception::Adoption;

/// NCCL exports each function under a second name for profilers, with this prefix: "pncclSend".
constexpr const char* kProfilingNames[] = {
#define AMEM_NCCL_FUNCTION(name, ...) "p" #name,
#include "clients/nccl/doors/nccl_functions.def"
#undef AMEM_NCCL_FUNCTION
};

constexpr char kLate[] =
    "amem was loaded after NCCL had been initialized; import amem before the first communicator is "
    "made, or start the job with amem run";
constexpr char kNotWritable[] =
    "the system refuses to make its symbol table or its slots writable (mprotect)";
constexpr char kNoLookUps[] =
    "it does not look up the driver's functions by dlsym or cudaGetDriverEntryPoint";

constinit std::atomic<size_t> g_count{0};
constinit std::atomic<bool> g_too_many{false};

// --- In visit_images()

/// NCCL keeps the addresses of the driver's functions in its data once it is initialized: a word
/// there that is the address of cuMemCreate says that it was.
bool was_initialized(const Image& nccl) {
  const uintptr_t create = first_definition("cuMemCreate");
  return create != 0 && replace_variables(nccl, create, create);
}

/// Patches NCCL's own slots: those of its functions get the originals, before the symbols are
/// redirected; those of look-ups and of requests for descriptors get amem's. Returns why memory or
/// calls cannot be caught, or nullptr.
const char* bind_own_slots(int index, const Image& nccl) {
  bool finds_driver = false, stored = true;
  visit_slots(nccl, [&](const Slot& slot) {
    const bool is_ours = is_in_this_library(slot.function);
    const uintptr_t function = slot.is_unbound || is_ours ? 0 : slot.function;
    if (const void* entry = look_up_entry(slot.symbol, index, function)) {
      finds_driver |= strcmp(slot.symbol, "dlvsym") != 0;
      stored &= set_slot(nccl, slot, entry);
    } else if (const void* call = descriptor_request_entry(slot.symbol)) {
      stored &= set_slot(nccl, slot, call);
    } else if (slot.is_unbound || is_in_forwarder(slot.function) || is_ours) {  // another's door
      if (const uintptr_t own = nccl.view.address_of(slot.symbol))
        stored &= set_slot(nccl, slot, reinterpret_cast<const void*>(own));
    }
  });
  return !stored ? kNotWritable : finds_driver ? nullptr : kNoLookUps;
}

/// Makes the symbol `name` of the image mean `function`.
bool redirect_symbol(const Image& image, const char* name, const void* function) {
  const ElfW(Sym)* const symbol = image.view.definition(name);
  if (symbol == nullptr) return true;
  auto* const value = reinterpret_cast<uintptr_t*>(const_cast<ElfW(Addr)*>(&symbol->st_value));
  return store_word(image, value, reinterpret_cast<uintptr_t>(function) - image.load_bias);
}

void fill(int index, const Image& image) {
  NcclCopy& copy = g_nccl_copies[static_cast<size_t>(index)];
  strncpy(copy.path, image.path, sizeof copy.path - 1);
  copy.begin = image.begin;
  copy.end = image.end;
  for (size_t i = 0; i < kNcclFunctions; ++i)
    copy.real[i] =
        reinterpret_cast<void*>(image.view.address_of(name_of(static_cast<NcclFunction>(i))));
  if (was_initialized(image)) copy.refusal = kLate;
  if (const char* failure = bind_own_slots(index, image)) {
    copy.refusal = failure;
    if (failure == kNotWritable) return;  // its own calls would pass the doors
  }
  for (size_t i = 0; i < kNcclFunctions; ++i) {
    if (copy.real[i] == nullptr) continue;
    const void* const door = door_of(index, static_cast<NcclFunction>(i));
    if (!redirect_symbol(image, name_of(static_cast<NcclFunction>(i)), door) ||
        !redirect_symbol(image, kProfilingNames[i], door))
      copy.refusal = kNotWritable;
  }
}

bool defines_nccl(const ElfView& view) {
  return view.definition("ncclCommInitRank") != nullptr &&
         view.definition("pncclCommInitRank") != nullptr;
}

const NcclCopy* copy_at(uintptr_t address) {
  for (const NcclCopy& copy : nccl_copies())
    if (address >= copy.begin && address < copy.end) return &copy;
  return nullptr;
}

Adoption adopt(const Image& image) {
  if (!is_nccl(image)) return Adoption::none;
  if (copy_at(image.begin) != nullptr) return Adoption::target;
  if (!image.is_relocated()) return Adoption::not_ready;
  const size_t index = g_count.load(std::memory_order_relaxed);  // stored in visit_images() only
  if (index == kMaxCopies) {
    g_too_many = true;
    return Adoption::none;
  }
  fill(static_cast<int>(index), image);
  g_count.store(index + 1, std::memory_order_release);
  return Adoption::target;
}

const void* replacement(uintptr_t function) {
  const NcclCopy* const copy = copy_at(function);
  if (copy == nullptr) return nullptr;
  const auto found =
      std::find(copy->real.begin(), copy->real.end(), reinterpret_cast<void*>(function));
  if (found == copy->real.end()) return nullptr;
  return door_of(static_cast<int>(copy - g_nccl_copies.data()),
                 static_cast<NcclFunction>(found - copy->real.begin()));
}

// --- With no lock held

/// The copies that were filled since the last call with this number, which counts them.
std::span<NcclCopy> new_copies(std::atomic<size_t>& known) {
  const auto copies = nccl_copies();
  return copies.subspan(std::min(known.exchange(copies.size()), copies.size()));
}

void targets_found() {
  static constinit std::atomic<size_t> kept{0};
  for (const NcclCopy& copy : new_copies(kept)) {
    // Doors and tables lead to it for as long as the process lives.
    if (dlopen(copy.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) (void)dlerror();
  }
}

/// The path of an NCCL library that dlmopen(3) has loaded; "" when there is none.
std::string nccl_elsewhere() {
  char path[PATH_MAX] = "";
  visit_other_namespaces([&](const char* its_path, const ElfView& view) {
    if (defines_nccl(view)) strncpy(path, its_path, sizeof path - 1);
  });
  return path;
}

/// The functions that amem adds are found on every handle of an NCCL library, and by RTLD_DEFAULT.
void* answer(void* handle, const char* name) {
  if (nccl_copies().empty()) return nullptr;
  if (handle != RTLD_DEFAULT && real_dlsym()(handle, "pncclCommInitRank") == nullptr)
    return nullptr;
  return added_function(name);
}

bool adds(const char* name) { return added_function(name) != nullptr; }

constexpr Interception kInterception{adopt,          replacement, targets_found,
                                     before_look_up, adds,        answer};

}  // namespace

bool is_nccl(const Image& image) { return defines_nccl(image.view) && !is_forwarder(image); }

const char* name_of(NcclFunction function) {
  return kProfilingNames[static_cast<size_t>(function)] + 1;
}

std::span<NcclCopy> nccl_copies() {
  return std::span(g_nccl_copies).first(g_count.load(std::memory_order_acquire));
}

void log_nccl_copies() {
  static constinit std::atomic<size_t> logged{0};
  for (const NcclCopy& copy : new_copies(logged)) {
    AMEM_LOG(debug, -1, "catching the calls of %s", copy.path);
    if (copy.refusal != nullptr)
      AMEM_LOG(warn, -1, "this process cannot pause: %s: %s", copy.path, copy.refusal);
  }
}

void catch_nccl() { start_interposition(kInterception); }

Status check_nccl_copies() {
  const auto refusal = [](const std::string& why) { return unsupported_error("%s", why.c_str()); };
  scan_images(true);
  if (g_too_many)
    return refusal("this process has loaded more than " + std::to_string(kMaxCopies) +
                   " NCCL libraries");
  if (const std::string path = nccl_elsewhere(); !path.empty())
    return refusal(path +
                   " was loaded into a namespace of its own (dlmopen), where amem sees no calls");
  if (left_out_images())
    return refusal(
        "this process has loaded more libraries than amem can look at (about 4000): some of "
        "them may call NCCL without amem");
  for (const NcclCopy& copy : nccl_copies())
    if (copy.refusal != nullptr) return refusal(std::string(copy.path) + ": " + copy.refusal);
  return ok_status();
}

}  // namespace amem
