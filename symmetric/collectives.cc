// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "symmetric/collectives.h"

#include <algorithm>
#include <cinttypes>

#include "symmetric/launch_shapes.h"

namespace amem::symmetric {

namespace layout = detail;

namespace {

constexpr size_t kAlignment = sizeof(Vector);

DeviceAddress address_of(const void* pointer) { return reinterpret_cast<DeviceAddress>(pointer); }

Result<size_t> bytes_of(size_t count, amemDataType_t type) {
  if (type != amemFloat32 && type != amemFloat16 && type != amemBfloat16)
    return make_error(ErrorKind::misuse, 0, "%d is not a type of amemDataType_t",
                      static_cast<int>(type));
  const size_t element_bytes = type == amemFloat32 ? 4 : 2;
  if (count > SIZE_MAX / element_bytes)
    return make_error(ErrorKind::misuse, 0, "the count %zu is too large", count);
  return count * element_bytes;
}

Status check_engine(amemEngine_t engine) {
  if (engine == amemKernels || engine == amemCopyEngines) return ok_status();
  return make_error(ErrorKind::misuse, 0, "%d is not an engine of amemEngine_t",
                    static_cast<int>(engine));
}

}  // namespace

Arguments SymmetricCall::arguments() const {
  Arguments arguments{};
  arguments.view = handle.view;
  arguments.is_synchronized = 1;
  arguments.timeout_ns = static_cast<uint64_t>(timeout_ms) * 1'000'000;
  arguments.multicast = reinterpret_cast<unsigned char*>(handle.multicast.address());
  return arguments;
}

Status SymmetricCall::launch(DriverKernel kernel, size_t blocks, unsigned threads,
                             const Arguments& arguments) const {
  // The driver copies the parameters.
  void* parameters[] = {const_cast<Arguments*>(&arguments)};
  return driver_status(driver,
                       driver.cuLaunchKernel(kernel, static_cast<unsigned>(blocks), 1, 1, threads,
                                             1, 1, 0, stream, parameters, nullptr),
                       "cuLaunchKernel(%zu blocks)", blocks);
}

// --- Synchronization

Status SymmetricCall::check_channel(int channel, size_t count) const {
  if (channel >= 0 && static_cast<size_t>(channel) < count) return ok_status();
  return make_error(ErrorKind::misuse, 0, "channel %d: channels are 0 to %zu", channel, count - 1);
}

Status SymmetricCall::barrier(int channel) const {
  AMEM_TRY(check_channel(channel, kChannels));
  Arguments all = arguments();
  all.channel = static_cast<uint32_t>(channel);
  return launch(handle.kernels->barrier, 1, kBarrierThreads, all);
}

Status SymmetricCall::signal(DriverKernel kernel, int peer, int channel) const {
  if (peer < 0 || static_cast<uint32_t>(peer) >= handle.world_size())
    return make_error(ErrorKind::misuse, 0, "peer %d: ranks are 0 to %u", peer,
                      handle.world_size() - 1);
  AMEM_TRY(
      check_channel(channel, handle.signal_pad_bytes / sizeof(uint32_t) / handle.world_size()));
  Arguments all = arguments();
  all.peer = static_cast<uint32_t>(peer);
  all.channel = static_cast<uint32_t>(channel);
  return launch(kernel, 1, kBarrierThreads, all);
}

Status SymmetricCall::put_signal(int peer, int channel) const {
  return signal(handle.kernels->put_signal, peer, channel);
}

Status SymmetricCall::wait_signal(int peer, int channel) const {
  return signal(handle.kernels->wait_signal, peer, channel);
}

Status SymmetricCall::check_words(DeviceAddress address, size_t count) const {
  const auto contains = [&](const void* begin, size_t size_bytes) {
    const DeviceAddress offset = address - address_of(begin);
    return offset < size_bytes && count <= (size_bytes - offset) / sizeof(uint32_t);
  };
  bool is_inside = false;
  for (uint32_t rank = 0; rank < handle.world_size(); ++rank)
    is_inside = is_inside || contains(handle.buffers[rank], handle.view.buffer_bytes) ||
                contains(handle.signal_pads[rank], handle.signal_pad_bytes);
  if (is_inside && address % sizeof(uint32_t) == 0) return ok_status();
  return make_error(ErrorKind::misuse, 0,
                    "%zu words at 0x%" PRIx64 " are not in a buffer or signal pad of the handle",
                    count, address);
}

Status SymmetricCall::write_value(const void* address, uint32_t value) const {
  const DeviceAddress to = address_of(address);
  AMEM_TRY(check_words(to, 1));
  return driver_status(driver, driver.cuStreamWriteValue32_v2(stream, to, value, 0),
                       "cuStreamWriteValue32()");
}

Status SymmetricCall::fill(const void* address, uint32_t value, size_t count) const {
  const DeviceAddress to = address_of(address);
  AMEM_TRY(check_words(to, count));
  if (count == 0) return ok_status();
  return driver_status(driver, driver.cuMemsetD32Async(to, value, count, stream),
                       "cuMemsetD32Async(%zu words)", count);
}

Status SymmetricCall::clear_signal_pad() const {
  return fill(handle.signal_pads[handle.rank()], 0, handle.signal_pad_bytes / sizeof(uint32_t));
}

// --- Collectives

Status SymmetricCall::check_sizes(const void* output, size_t output_bytes, size_t offset_bytes,
                                  size_t inputs) const {
  if (output == nullptr) return make_error(ErrorKind::misuse, 0, "the input or output is null");
  if (offset_bytes % kAlignment != 0 || inputs % kAlignment != 0 ||
      output_bytes % kAlignment != 0 || address_of(output) % kAlignment != 0)
    return make_error(ErrorKind::misuse, 0,
                      "offset %zu, %zu bytes of the buffer, %zu bytes at 0x%" PRIx64
                      ": all must be multiples of %zu",
                      offset_bytes, inputs, output_bytes, address_of(output), kAlignment);
  const size_t buffer_bytes = handle.view.buffer_bytes;
  if (offset_bytes > buffer_bytes || inputs > buffer_bytes - offset_bytes)
    return make_error(ErrorKind::misuse, 0,
                      "%zu bytes at offset %zu are not inside the buffer of %zu bytes", inputs,
                      offset_bytes, buffer_bytes);
  return ok_status();
}

Status SymmetricCall::check_outside(const void* output, size_t output_bytes, size_t offset_bytes,
                                    size_t inputs) const {
  const DeviceAddress input = handle.buffer + offset_bytes, to = address_of(output);
  if (to >= input + inputs || to + output_bytes <= input) return ok_status();
  return make_error(ErrorKind::misuse, 0, "the output overlaps the input");
}

Status SymmetricCall::all_reduce(void* output, size_t offset_bytes, size_t count,
                                 amemDataType_t type, amemAllReduce_t algorithm) const {
  const size_t bytes = AMEM_TRY(bytes_of(count, type));
  if (algorithm < amemAllReduceAuto || algorithm > amemAllReduceMultimem)
    return make_error(ErrorKind::misuse, 0, "%d is not an algorithm of amemAllReduce_t",
                      static_cast<int>(algorithm));
  AMEM_TRY(check_sizes(output, bytes, offset_bytes, bytes));
  const bool in_place = address_of(output) == handle.buffer + offset_bytes;
  const bool is_small = bytes <= layout::kSmallBytes;
  if (algorithm == amemAllReduceMultimem) AMEM_TRY(check_multicast());
  bool one_shot = is_small, multimem = !is_small && handle.multicast.address() != 0;
  if (algorithm != amemAllReduceAuto) {
    one_shot = algorithm == amemAllReduceOneShot;
    multimem = algorithm == amemAllReduceMultimem;
  }
  if (!in_place) AMEM_TRY(check_outside(output, bytes, offset_bytes, bytes));
  if (bytes == 0) return ok_status();

  Arguments all = arguments();
  all.offset_bytes = offset_bytes;
  all.size_bytes = bytes;
  all.output = in_place && !one_shot ? nullptr : static_cast<unsigned char*>(output);
  if (multimem) return multimem_all_reduce(all, type);
  if (!one_shot) return two_shot(all, type);
  if (is_small)
    return launch(handle.kernels->small_all_reduce[type],
                  (bytes + kSmallBlockBytes - 1) / kSmallBlockBytes, kSmallThreads, all);
  if (in_place)
    return make_error(ErrorKind::misuse, 0,
                      "a one-shot all-reduce in place has at most %zu bytes, not %zu",
                      layout::kSmallBytes, bytes);
  return launch(handle.kernels->sum[type], blocks_for(bytes), kThreads, all);
}

Status SymmetricCall::two_shot(Arguments all, amemDataType_t type) const {
  const size_t most = launch_bytes_of(all.size_bytes, handle.world_size(), handle.scratch_bytes);
  for (size_t left = all.size_bytes; left > 0; left -= all.size_bytes) {
    all.size_bytes = std::min(left, most);
    all.part_bytes = part_bytes_of(all.size_bytes, handle.world_size());
    const Shape shape = two_shot_shape(all.size_bytes, handle.world_size(), handle.multiprocessors);
    AMEM_TRY(launch(handle.kernels->two_shot[type], shape.blocks, shape.threads, all));
    all.offset_bytes += all.size_bytes;
    if (all.output != nullptr) all.output += all.size_bytes;
  }
  return ok_status();
}

Status SymmetricCall::multimem_all_reduce(Arguments all, amemDataType_t type) const {
  all.part_bytes = part_bytes_of(all.size_bytes, handle.world_size());
  return launch(handle.kernels->multimem.all_reduce[type], blocks_for(all.part_bytes), kThreads,
                all);
}

Status SymmetricCall::check_multicast() const {
  if (handle.multicast.address() != 0) return ok_status();
  return make_error(ErrorKind::misuse, 0,
                    "the handle has no multicast: it needs AMEM_MULTICAST=1 on all ranks, and a "
                    "GPU with multicast for each");
}

Status SymmetricCall::multimem_all_gather(const void* input, size_t offset_bytes,
                                          size_t size_bytes) const {
  AMEM_TRY(check_multicast());
  const size_t world_size = handle.world_size(), own = handle.rank() * size_bytes;
  if (size_bytes > SIZE_MAX / world_size)
    return make_error(ErrorKind::misuse, 0, "the size %zu is too large", size_bytes);
  AMEM_TRY(check_sizes(input, size_bytes, offset_bytes, size_bytes * world_size));
  if (address_of(input) != handle.buffer + offset_bytes + own)
    AMEM_TRY(check_outside(input, size_bytes, offset_bytes, size_bytes * world_size));
  if (size_bytes == 0) return ok_status();
  Arguments all = arguments();
  all.input = static_cast<const unsigned char*>(input);
  all.offset_bytes = offset_bytes + own;
  all.size_bytes = size_bytes;
  return launch(handle.kernels->multimem.all_gather, blocks_for(size_bytes), kThreads, all);
}

Status SymmetricCall::barrier_of_copies() const {
  Arguments all = arguments();
  all.channel = kChannels;
  return launch(handle.kernels->barrier, 1, kBarrierThreads, all);
}

Status SymmetricCall::copy_from_all(unsigned char* to, size_t offset_bytes,
                                    size_t size_bytes) const {
  AMEM_TRY(barrier_of_copies());
  for (uint32_t i = 0; i < handle.world_size(); ++i) {
    const uint32_t from = (handle.rank() + i) % handle.world_size();
    AMEM_TRY(driver_status(driver,
                           driver.cuMemcpyDtoDAsync_v2(
                               address_of(to) + from * size_bytes,
                               address_of(handle.buffers[from]) + offset_bytes, size_bytes, stream),
                           "cuMemcpyDtoDAsync(%zu bytes)", size_bytes));
  }
  return barrier_of_copies();
}

Status SymmetricCall::gather(void* output, size_t offset_bytes, size_t size_bytes,
                             size_t stride_bytes, amemEngine_t engine) const {
  const size_t world_size = handle.world_size();
  AMEM_TRY(check_engine(engine));
  if (size_bytes > SIZE_MAX / world_size)
    return make_error(ErrorKind::misuse, 0, "the size %zu is too large", size_bytes);
  const size_t inputs = stride_bytes == 0 ? size_bytes : size_bytes * world_size;
  AMEM_TRY(check_sizes(output, size_bytes, offset_bytes, inputs));
  AMEM_TRY(check_outside(output, size_bytes * world_size, offset_bytes, inputs));
  if (size_bytes == 0) return ok_status();
  const size_t own_offset = offset_bytes + handle.rank() * stride_bytes;
  auto* const to = static_cast<unsigned char*>(output);
  if (engine == amemCopyEngines) return copy_from_all(to, own_offset, size_bytes);
  Arguments all = arguments();
  all.output = to;
  all.offset_bytes = own_offset;
  all.size_bytes = size_bytes;
  return launch(handle.kernels->gather, blocks_for(size_bytes), kThreads, all);
}

Status SymmetricCall::reduce_scatter(void* output, size_t offset_bytes, size_t count,
                                     amemDataType_t type, amemEngine_t engine,
                                     void* scratch) const {
  const size_t bytes = AMEM_TRY(bytes_of(count, type)), world_size = handle.world_size();
  AMEM_TRY(check_engine(engine));
  if (bytes > SIZE_MAX / world_size)
    return make_error(ErrorKind::misuse, 0, "the count %zu is too large", count);
  AMEM_TRY(check_sizes(output, bytes, offset_bytes, bytes * world_size));
  AMEM_TRY(check_outside(output, bytes, offset_bytes, bytes * world_size));
  const bool copies = engine == amemCopyEngines;
  if (copies && (scratch == nullptr || address_of(scratch) % kAlignment != 0))
    return make_error(ErrorKind::misuse, 0,
                      "with copy engines, the scratch memory must be a multiple of %zu, not 0",
                      kAlignment);
  if (copies)
    AMEM_TRY(check_outside(scratch, bytes * world_size, offset_bytes, bytes * world_size));
  if (bytes == 0) return ok_status();

  Arguments all = arguments();
  all.output = static_cast<unsigned char*>(output);
  all.offset_bytes = offset_bytes + handle.rank() * bytes;
  all.size_bytes = bytes;
  if (copies) {
    auto* const parts = static_cast<unsigned char*>(scratch);
    AMEM_TRY(copy_from_all(parts, all.offset_bytes, bytes));
    for (uint32_t rank = 0; rank < world_size; ++rank)
      all.view.buffers[rank] = parts + rank * bytes;
    all.view.buffer_bytes = bytes;
    all.offset_bytes = 0;
    all.is_synchronized = 0;
  }
  return launch(handle.kernels->sum[type], blocks_for(bytes), kThreads, all);
}

}  // namespace amem::symmetric
