// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Streams and events.
#include "sim/api.h"
#include "sim/capture.h"
#include "sim/context.h"
#include "sim/event.h"
#include "sim/registry.h"

using namespace amem::sim;

namespace {

CuResult create_stream(CuStream* handle, unsigned flags) {
  Context* context = nullptr;
  if (handle == nullptr || (flags & ~kStreamNonBlocking) != 0) return kErrorInvalidValue;
  if (const CuResult current = current_context(&context); current != kSuccess) return current;
  StreamRef stream = context->add_stream(flags);
  *handle = static_cast<CuStream>(Registry<Stream>::instance().add(std::move(stream)));
  return kSuccess;
}

// Runs the body with the objects that the handles mean.
template <typename Body>
CuResult with_event(CuEvent handle, Body body) {
  const std::shared_ptr<Event> event = Registry<Event>::instance().find(handle);
  return event == nullptr ? kErrorInvalidHandle : body(*event);
}

template <typename Body>
CuResult with_stream(CuStream handle, Body body) {
  StreamRef stream;
  const CuResult known = stream_of(handle, &stream);
  return known == kSuccess ? body(stream) : known;
}

CuResult elapsed_time(float* milliseconds, CuEvent start, CuEvent end) {
  if (milliseconds == nullptr) return kErrorInvalidValue;
  return with_event(start, [&](Event& from) {
    return with_event(end, [&](Event& to) { return Event::elapsed(from, to, milliseconds); });
  });
}

}  // namespace

AMEM_SIM_API CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  return driver_call(Function::cuStreamCreate, [&] { return create_stream(stream, flags); });
}

AMEM_SIM_API CuResult cuStreamCreateWithPriority(CuStream* stream, unsigned flags, int) {
  return driver_call(Function::cuStreamCreateWithPriority,
                     [&] { return create_stream(stream, flags); });
}

AMEM_SIM_API CuResult cuStreamDestroy_v2(CuStream handle) {
  return driver_call(Function::cuStreamDestroy_v2, [&] {
    const StreamRef stream = Registry<Stream>::instance().remove(handle);
    if (stream == nullptr) return kErrorInvalidHandle;
    forget_capture(*stream);
    stream->context().remove_stream(stream);
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuStreamSynchronize(CuStream handle) {
  return driver_call(Function::cuStreamSynchronize, [&] {
    return with_stream(handle, [](const StreamRef& stream) {
      const CuResult forbidden = forbid_synchronizing(*stream);
      if (forbidden != kSuccess) return forbidden;
      stream->synchronize();
      return stream->context().failure();
    });
  });
}

AMEM_SIM_API CuResult cuStreamQuery(CuStream handle) {
  return driver_call(Function::cuStreamQuery, [&] {
    return with_stream(handle, [](const StreamRef& stream) {
      const CuResult forbidden = forbid_synchronizing(*stream);
      if (forbidden != kSuccess) return forbidden;
      return stream->idle() ? stream->context().failure() : kErrorNotReady;
    });
  });
}

AMEM_SIM_API CuResult cuStreamWaitEvent(CuStream handle, CuEvent event_handle, unsigned) {
  return driver_call(Function::cuStreamWaitEvent, [&] {
    return with_stream(handle, [&](const StreamRef& stream) {
      return with_event(event_handle, [&](Event& event) { return event.make_wait(stream); });
    });
  });
}

AMEM_SIM_API CuResult cuStreamGetCtx(CuStream handle, CuContext* context) {
  return driver_call(Function::cuStreamGetCtx, [&] {
    if (context == nullptr) return kErrorInvalidValue;
    return with_stream(handle, [&](const StreamRef& stream) {
      *context = handle_of(&stream->context());
      return kSuccess;
    });
  });
}

AMEM_SIM_API CuResult cuLaunchHostFunc(CuStream handle, CuHostFn function, void* data) {
  return driver_call(Function::cuLaunchHostFunc, [&] {
    if (function == nullptr) return kErrorInvalidValue;
    return with_stream(handle, [&](const StreamRef& stream) {
      return submit(stream, {[function, data] {
                      function(data);
                      return kSuccess;
                    }});
    });
  });
}

AMEM_SIM_API CuResult cuEventCreate(CuEvent* handle, unsigned flags) {
  return driver_call(Function::cuEventCreate, [&] {
    Context* context = nullptr;
    if (handle == nullptr) return kErrorInvalidValue;
    if (const CuResult current = current_context(&context); current != kSuccess) return current;
    auto event = std::make_shared<Event>(flags);
    *handle = static_cast<CuEvent>(Registry<Event>::instance().add(std::move(event)));
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuEventRecord(CuEvent handle, CuStream stream_handle) {
  return driver_call(Function::cuEventRecord, [&] {
    return with_event(handle, [&](Event& event) {
      return with_stream(stream_handle,
                         [&](const StreamRef& stream) { return event.record(stream); });
    });
  });
}

AMEM_SIM_API CuResult cuEventQuery(CuEvent handle) {
  return driver_call(Function::cuEventQuery, [&] {
    return with_event(handle, [](Event& event) { return event.query(); });
  });
}

AMEM_SIM_API CuResult cuEventSynchronize(CuEvent handle) {
  return driver_call(Function::cuEventSynchronize, [&] {
    return with_event(handle, [](Event& event) { return event.synchronize(); });
  });
}

AMEM_SIM_API CuResult cuEventDestroy_v2(CuEvent handle) {
  return driver_call(Function::cuEventDestroy_v2, [&] {
    return Registry<Event>::instance().remove(handle) ? kSuccess : kErrorInvalidHandle;
  });
}

AMEM_SIM_API CuResult cuEventElapsedTime(float* milliseconds, CuEvent start, CuEvent end) {
  return driver_call(Function::cuEventElapsedTime,
                     [&] { return elapsed_time(milliseconds, start, end); });
}

AMEM_SIM_API CuResult cuEventElapsedTime_v2(float* milliseconds, CuEvent start, CuEvent end) {
  return driver_call(Function::cuEventElapsedTime_v2,
                     [&] { return elapsed_time(milliseconds, start, end); });
}
