// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/context.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "base/thread_value.h"
#include "sim/address_space.h"
#include "sim/host_memory.h"
#include "sim/machine.h"
#include "sim/registry.h"

namespace amem::sim {
namespace {

struct Primary {
  Context* context = nullptr;
  uint64_t references = 0;
  unsigned flags = 0;
};

struct Known {
  std::mutex mutex;
  std::array<Primary, kMaxDevices> primaries;
  std::unordered_map<const Context*, std::unique_ptr<Context>> contexts;
  uint64_t next_id = 1;
};

Known& known() {
  static auto* all = new Known;  // outlives every thread of the process
  return *all;
}

// REQUIRES: known().mutex.
CuResult make_context_locked(CuDevice device, unsigned flags, Context** context) {
  auto fresh = std::make_unique<Context>(device, flags, known().next_id++);
  const CuResult sized = fresh->set_stack(LocalMemory::kInitialStackBytes);
  if (sized != kSuccess) return sized;
  *context = fresh.get();
  known().contexts.emplace(*context, std::move(fresh));
  return kSuccess;
}

}  // namespace

void Context::fail(CuResult failure) {
  CuResult none = kSuccess;
  failure_.compare_exchange_strong(none, failure);
}

StreamRef Context::add_stream(unsigned flags) {
  auto stream = std::make_shared<Stream>(*this, flags);
  std::lock_guard guard(mutex_);
  streams_.push_back(stream);
  return stream;
}

void Context::remove_stream(const StreamRef& stream) {
  stream->close();
  std::lock_guard guard(mutex_);
  std::erase_if(streams_, [](const StreamRef& one) { return one->finished(); });
}

StreamRef Context::null_stream() {
  std::lock_guard guard(mutex_);
  if (null_stream_ == nullptr) null_stream_ = std::make_shared<Stream>(*this, kStreamDefault);
  return null_stream_;
}

std::vector<StreamRef> Context::streams() {
  std::lock_guard guard(mutex_);
  std::erase_if(streams_, [](const StreamRef& one) { return one->finished(); });
  std::vector<StreamRef> all = streams_;
  if (null_stream_ != nullptr) all.push_back(null_stream_);
  return all;
}

void Context::synchronize() {
  struct Mark {
    StreamRef stream;
    uint64_t position;
  };
  std::vector<Mark> marks;  // all of them before the first wait, or later work would be waited for
  for (const StreamRef& stream : streams()) marks.push_back({stream, stream->position()});
  for (const Mark& mark : marks) mark.stream->wait_for(mark.position);
}

bool Context::idle() {
  const std::vector<StreamRef> all = streams();
  return std::all_of(all.begin(), all.end(), [](const StreamRef& one) { return one->idle(); });
}

CuResult Context::enqueue(Stream& stream, Operation operation) {
  std::lock_guard guard(submission_);
  const CuResult fits = local_memory_.fit_stack(operation.stack_bytes);
  if (fits == kSuccess) stream.enqueue(std::move(operation));
  return fits;
}

CuResult Context::when_idle(const std::function<CuResult()>& body) {
  std::lock_guard guard(submission_);
  synchronize();
  return body();
}

uint64_t Context::stack_bytes() {
  std::lock_guard guard(submission_);
  return local_memory_.stack_bytes();
}

CuResult Context::set_stack(uint64_t stack_bytes) {
  return when_idle([&] {
    const CuResult failed = failure();
    return failed == kSuccess ? local_memory_.set_stack(stack_bytes) : failed;
  });
}

void Context::destroy() {
  alive_ = false;
  for (const StreamRef& stream : streams()) {
    Registry<Stream>::instance().remove(stream.get());
    stream->close();
  }
  HostMemory::instance().end_of(id());
  AddressSpace::instance().remove_allocations_of(id());
  local_memory_.release();
}

CuResult Context::revive(uint64_t id) {
  {
    std::lock_guard guard(mutex_);
    null_stream_ = nullptr;
    peers_ = 0;
  }
  failure_ = kSuccess;
  id_ = id;
  const CuResult sized = set_stack(LocalMemory::kInitialStackBytes);
  alive_ = sized == kSuccess;
  return sized;
}

bool Context::enable_peer(CuDevice peer) {
  std::lock_guard guard(mutex_);
  const bool fresh = (peers_ & (1u << peer)) == 0;
  peers_ |= 1u << peer;
  return fresh;
}

bool Context::disable_peer(CuDevice peer) {
  std::lock_guard guard(mutex_);
  const bool enabled = (peers_ & (1u << peer)) != 0;
  peers_ &= ~(1u << peer);
  return enabled;
}

CuResult make_context(CuDevice device, unsigned flags, Context** context) {
  std::lock_guard guard(known().mutex);
  return make_context_locked(device, flags, context);
}

Context* context_of(CuContext handle) {
  auto* context = reinterpret_cast<Context*>(handle);
  std::lock_guard guard(known().mutex);
  return known().contexts.contains(context) ? context : nullptr;
}

std::vector<Context*> all_contexts() {
  std::lock_guard guard(known().mutex);
  std::vector<Context*> all;
  for (const auto& [context, owned] : known().contexts) all.push_back(owned.get());
  return all;
}

CuContext handle_of(Context* context) { return reinterpret_cast<CuContext>(context); }

CuResult retain_primary(CuDevice device, Context** context) {
  std::lock_guard guard(known().mutex);
  Primary& primary = known().primaries[static_cast<size_t>(device)];
  if (primary.references == 0) {
    const CuResult made = primary.context == nullptr
                              ? make_context_locked(device, primary.flags, &primary.context)
                              : primary.context->revive(known().next_id++);
    if (made != kSuccess) return made;
  }
  primary.references += 1;
  *context = primary.context;
  return kSuccess;
}

bool release_primary(CuDevice device) {
  Context* ended = nullptr;
  {
    std::lock_guard guard(known().mutex);
    Primary& primary = known().primaries[static_cast<size_t>(device)];
    if (primary.references == 0) return false;
    if (--primary.references == 0) ended = primary.context;
  }
  if (ended != nullptr) ended->destroy();
  return true;
}

void reset_primary(CuDevice device) {
  Context* ended = nullptr;
  {
    std::lock_guard guard(known().mutex);
    Primary& primary = known().primaries[static_cast<size_t>(device)];
    if (std::exchange(primary.references, 0) != 0) ended = primary.context;
  }
  if (ended != nullptr) ended->destroy();
}

Context* active_primary(CuDevice device) {
  std::lock_guard guard(known().mutex);
  const Primary& primary = known().primaries[static_cast<size_t>(device)];
  return primary.references == 0 ? nullptr : primary.context;
}

unsigned primary_flags(CuDevice device) {
  std::lock_guard guard(known().mutex);
  return known().primaries[static_cast<size_t>(device)].flags;
}

void set_primary_flags(CuDevice device, unsigned flags) {
  std::lock_guard guard(known().mutex);
  known().primaries[static_cast<size_t>(device)].flags = flags;
}

std::vector<Context*>& current_contexts() {
  struct Stack {
    std::vector<Context*> contexts;
  };
  return thread_value<Stack>().contexts;  // exit handlers call the driver
}

CuResult current_context(Context** context) {
  const auto& stack = current_contexts();
  if (stack.empty() || stack.back() == nullptr) return kErrorInvalidContext;
  if (!stack.back()->alive()) return kErrorContextIsDestroyed;
  *context = stack.back();
  return kSuccess;
}

}  // namespace amem::sim
