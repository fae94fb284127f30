// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "sim/minccl/reduction.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace amem::minccl {
namespace {

// Integers wrap around, as on the GPU; unsigned arithmetic is what C++ defines to do so.
template <typename T, bool = std::is_integral_v<T>>
struct Arithmetic {
  using Type = T;
};
template <typename T>
struct Arithmetic<T, true> {
  using Type = std::conditional_t<sizeof(T) < 4, unsigned, std::make_unsigned_t<T>>;
};
template <typename T>
using Wide = typename Arithmetic<T>::Type;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
};
struct Maximum {
  template <typename T>
  static T apply(T a, T b) {
    return std::max(a, b);
  }
};
struct Minimum {
  template <typename T>
  static T apply(T a, T b) {
    return std::min(a, b);
  }
};

template <typename T, typename Op>
void reduce(std::byte* out, const std::byte* a, const std::byte* b, size_t elements) {
  auto* to = reinterpret_cast<T*>(out);
  auto* left = reinterpret_cast<const T*>(a);
  auto* right = reinterpret_cast<const T*>(b);
  for (size_t i = 0; i < elements; ++i) to[i] = Op::apply(left[i], right[i]);
}

template <typename T>
void divide(std::byte* values, size_t elements, int divisor) {
  auto* value = reinterpret_cast<T*>(values);
  for (size_t i = 0; i < elements; ++i)
    value[i] = static_cast<T>(value[i] / static_cast<T>(divisor));
}

template <typename T>
ReduceFunction for_operation(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
    case ncclAvg:
      return reduce<T, Sum>;
    case ncclProd:
      return reduce<T, Product>;
    case ncclMax:
      return reduce<T, Maximum>;
    case ncclMin:
      return reduce<T, Minimum>;
  }
  return nullptr;
}

// Calls `visit` with a value of the C++ type that `type` names.
template <typename Visit>
auto with_type(ncclDataType_t type, Visit visit) -> decltype(visit(int8_t{})) {
  switch (type) {
    case ncclInt8:
      return visit(int8_t{});
    case ncclUint8:
      return visit(uint8_t{});
    case ncclInt32:
      return visit(int32_t{});
    case ncclUint32:
      return visit(uint32_t{});
    case ncclInt64:
      return visit(int64_t{});
    case ncclUint64:
      return visit(uint64_t{});
    case ncclFloat32:
      return visit(float{});
    case ncclFloat64:
      return visit(double{});
    case ncclFloat16:
    case ncclBfloat16:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

size_t element_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

ReduceFunction reduce_function(ncclDataType_t type, ncclRedOp_t op) {
  return with_type(
      type, [op](auto value) -> ReduceFunction { return for_operation<decltype(value)>(op); });
}

DivideFunction divide_function(ncclDataType_t type) {
  return with_type(type, [](auto value) -> DivideFunction { return divide<decltype(value)>; });
}

}  // namespace amem::minccl
