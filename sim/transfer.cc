// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/transfer.h"

#include <algorithm>
#include <cstring>

#include "sim/address_space.h"
#include "sim/capture.h"
#include "sim/context.h"
#include "sim/host_memory.h"
#include "sim/sparse_copy.h"

namespace amem::sim {
namespace {

enum class Place { kDevice, kPinned, kPageable, kNowhere };

Place place_of(CuDevicePtr address, size_t size_bytes, int wanted_flags,
               std::optional<CuDevice> device = std::nullopt) {
  switch (AddressSpace::instance().reach(address, size_bytes, wanted_flags, device)) {
    case AddressSpace::Reach::kAccessible:
      return Place::kDevice;
    case AddressSpace::Reach::kInaccessible:
      return Place::kNowhere;
    case AddressSpace::Reach::kOutside:
      break;
  }
  const auto pinned = HostMemory::instance().find(address);
  if (!pinned) return address == 0 ? Place::kNowhere : Place::kPageable;
  return address + size_bytes <= pinned->base + pinned->size_bytes ? Place::kPinned
                                                                   : Place::kPageable;
}

struct Places {
  Place to;
  Place from;
};

// Between two devices, one of them has access.
Places places_of(const Copy& copy) {
  const bool with_host =
      copy.direction == Direction::kHostToDevice || copy.direction == Direction::kDeviceToHost;
  const std::optional<CuDevice> device = with_host ? copy.device : std::nullopt;
  return {place_of(copy.to, copy.size_bytes, kAccessReadWrite, device),
          place_of(copy.from, copy.size_bytes, kAccessRead, device)};
}

bool legal(const Places& places, Direction direction) {
  const bool to_device =
      direction == Direction::kHostToDevice || direction == Direction::kDeviceToDevice;
  const bool from_device =
      direction == Direction::kDeviceToHost || direction == Direction::kDeviceToDevice;
  return places.to != Place::kNowhere && places.from != Place::kNowhere &&
         !(to_device && places.to == Place::kPageable) &&
         !(from_device && places.from == Place::kPageable);
}

CuResult run_copy(const Copy& copy) {
  if (!legal(places_of(copy), copy.direction)) return kErrorIllegalAddress;
  sparse_move(copy.to, copy.from, copy.size_bytes);
  return kSuccess;
}

CuResult run_fill(const Fill& fill) {
  const size_t size_bytes = fill.count * fill.value_bytes;
  const Place place = place_of(fill.to, size_bytes, kAccessReadWrite);
  if (place != Place::kDevice && place != Place::kPinned) return kErrorIllegalAddress;
  if (fill.value == 0) {
    sparse_zero(fill.to, size_bytes);
  } else if (fill.value_bytes == 1) {
    std::memset(reinterpret_cast<void*>(fill.to), static_cast<int>(fill.value), fill.count);
  } else {
    std::fill_n(reinterpret_cast<uint32_t*>(fill.to), fill.count, fill.value);
  }
  return kSuccess;
}

// The pageable source may be reused as soon as the call returns.
Operation copy_from_snapshot(const Copy& copy) {
  const auto* bytes = reinterpret_cast<const char*>(copy.from);
  auto taken = std::make_shared<std::vector<char>>(bytes, bytes + copy.size_bytes);
  return {[copy, taken] {
    const auto from = reinterpret_cast<CuDevicePtr>(taken->data());
    return run_copy({copy.to, from, copy.size_bytes, copy.direction, copy.device});
  }};
}

}  // namespace

CuResult submit_copy(const StreamRef& stream, Copy copy) {
  if (copy.size_bytes == 0) return kSuccess;
  copy.device = stream->context().device();
  if (capture_status(*stream).status != kCaptureStatusNone) {
    return submit(stream, {[copy] { return run_copy(copy); }});
  }
  const Places places = places_of(copy);
  if (!legal(places, copy.direction)) return kErrorInvalidValue;
  if (places.from == Place::kPageable) return submit(stream, copy_from_snapshot(copy));
  const CuResult submitted = submit(stream, {[copy] { return run_copy(copy); }});
  if (submitted != kSuccess || places.to != Place::kPageable) return submitted;
  stream->synchronize();
  return stream->context().failure();
}

CuResult submit_fill(const StreamRef& stream, const Fill& fill) {
  if (fill.count == 0) return kSuccess;
  if (fill.to % fill.value_bytes != 0) return kErrorInvalidValue;
  if (capture_status(*stream).status == kCaptureStatusNone) {
    const Place place = place_of(fill.to, fill.count * fill.value_bytes, kAccessReadWrite);
    if (place != Place::kDevice && place != Place::kPinned) return kErrorInvalidValue;
  }
  return submit(stream, {[fill] { return run_fill(fill); }});
}

}  // namespace amem::sim
