// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace amem {

/// Categories of errors.
enum class ErrorKind {
  driver,       ///< a CUDA driver call failed; `code` is its CUresult
  os,           ///< a system call failed; `code` is its errno
  protocol,     ///< a peer sent an invalid message
  peer,         ///< a peer refused the request or ended
  timeout,      ///< a deadline passed
  misuse,       ///< the call is not allowed in this state; nothing was changed
  unsupported,  ///< this machine, library or setting does not support it; nothing was changed
};

/// An error for the caller: the call that failed, its arguments with units, and the known cause.
struct Error {
  ErrorKind kind;
  int code = 0;
  std::string message;
  std::string shortage = {};  ///< of GPU memory, as JSON (amemGetShortage)
};

/// Creates an Error from a printf format.
[[gnu::format(printf, 3, 4)]] Error make_error(ErrorKind kind, int code, const char* format, ...);

/// Creates an Error of one kind, which has no code: `misuse_error("the size is 0")`.
struct MakeError {
  ErrorKind kind;
  [[gnu::format(printf, 2, 3)]] Error operator()(const char* format, ...) const;
};
inline constexpr MakeError misuse_error{ErrorKind::misuse},
    unsupported_error{ErrorKind::unsupported}, timeout_error{ErrorKind::timeout},
    peer_error{ErrorKind::peer}, protocol_error{ErrorKind::protocol};

/// The same for errno `code`, whose text is appended: "bind(@amem-…): Address already in use".
[[gnu::format(printf, 2, 3)]] Error os_error(int code, const char* format, ...);

/// A value or an Error: a subset of std::expected (C++23).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  /// REQUIRES: ok().
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  /// REQUIRES: !ok().
  Error& error() { return *std::get_if<1>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success, or an Error.
using Status = Result<std::monostate>;

inline Status ok_status() { return std::monostate{}; }

}  // namespace amem

/// The value of `expression` (a Result or Status). If it is an Error, returns it from the enclosing
/// function: `const int device = AMEM_TRY(device_of(address));`. Not in a list of members in
/// braces: GCC 12 and Clang 14 return without a destructor call for the members before it.
#define AMEM_TRY(expression)                                \
  ({                                                        \
    auto amem_try = (expression);                           \
    if (!amem_try.ok()) return std::move(amem_try.error()); \
    std::move(amem_try.value());                            \
  })
