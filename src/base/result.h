// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace amem {

/// What went wrong, by who has to act on it.
enum class ErrorKind {
  driver,       ///< a CUDA driver call failed; `code` is its CUresult
  os,           ///< a system call failed; `code` is its errno
  protocol,     ///< a peer sent what no amem of this version sends
  peer,         ///< a peer refused or died
  timeout,      ///< a deadline passed
  misuse,       ///< the caller may not do this now; nothing was changed
  unsupported,  ///< this machine, NCCL or setting cannot do it; nothing was changed
};

/// A failure as the caller will read it: the exact failed call, its arguments with units, the cause
/// known.
struct Error {
  ErrorKind kind;
  int code = 0;
  std::string message;
};

/// Builds an Error from a printf format.
[[gnu::format(printf, 3, 4)]] Error make_error(ErrorKind kind, int code, const char* format, ...);

/// Appends the text of errno `code` to the message: "bind(@amem-…): Address already in use".
[[gnu::format(printf, 2, 3)]] Error os_error(int code, const char* format, ...);

/// A value or an Error: the part of std::expected (C++23) that we use.
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

/// Returns the Error of `expression` (a Status or Result) from the enclosing function, if it is
/// one.
#define AMEM_TRY(expression)                                                              \
  do {                                                                                    \
    if (auto amem_try = (expression); !amem_try.ok()) return std::move(amem_try.error()); \
  } while (false)
