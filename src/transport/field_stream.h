// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/identity.h"
#include "base/tag.h"

namespace amem {

/// Writes fields to bytes, or reads them from untrusted bytes, so that one function defines a
/// layout for both directions. Values are little-endian, without padding; lists and texts follow
/// their length. Does not write or read beyond its bounds: ok() is false from the first value that
/// does not fit. Writing changes no field except a sentence.
class FieldStream {
 public:
  /// Writes.
  FieldStream() = default;
  /// Reads these bytes.
  explicit FieldStream(std::span<const uint8_t> bytes) : reads_(true), rest_(bytes) {}

  template <typename... Fields>
  void fields(Fields&... values) {
    (field(values), ...);
  }
  /// Integers and ids.
  template <typename T>
  requires std::integral<T> || requires(T id) { id.bits; }
  void field(T& value) { raw(&value, sizeof value); }
  void field(bool& value) {
    auto byte = static_cast<uint8_t>(value);
    field(byte);
    require(byte <= 1);
    value = byte == 1;
  }
  /// "" for none.
  void field(Tag& tag) {
    document(tag, kMaxTagBytes);
    require(tag.empty() || is_valid_tag(tag));
  }
  template <typename Enum>
  void choice(Enum& value, Enum last) {
    auto byte = static_cast<uint8_t>(value);
    field(byte);
    require(byte <= static_cast<uint8_t>(last));
    if (ok_) value = static_cast<Enum>(byte);
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, size_t most, Each each) {
    const size_t count = length(values.size(), most);
    for (size_t i = 0; ok_ && i < count; ++i) each(reads_ ? values.emplace_back() : values[i]);
  }
  template <typename T>
  void list(std::vector<T>& values, size_t most) {
    list(values, most, [this](T& value) { field(value); });
  }
  /// A sentence for a log line: cut to `most` bytes, control characters become spaces.
  void sentence(std::string& text, size_t most) {
    if (!reads_) {
      text.resize(std::min(text.size(), most));
      std::replace_if(text.begin(), text.end(), is_control, ' ');
    }
    document(text, most);
    require(std::none_of(text.begin(), text.end(), is_control));
  }
  /// A document, which is not cut.
  void document(std::string& text, size_t most) {
    const size_t count = length(text.size(), most);
    if (!ok_ || (reads_ && !has(count))) return;
    text.resize(count);
    raw(text.data(), count);
  }

  /// False if a field was missing or exceeded its bounds.
  bool ok() const { return ok_; }
  /// True if all bytes have been read.
  bool at_end() const { return rest_.empty(); }
  /// What has not been read.
  std::span<const uint8_t> rest() const { return rest_; }
  /// The written bytes.
  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  static bool is_control(char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7f; }

  /// The bytes of the value, in the order of this machine, which is the one of the wire.
  static_assert(std::endian::native == std::endian::little);
  void raw(void* value, size_t size_bytes) {
    if (!reads_) {
      const auto* const bytes = static_cast<const uint8_t*>(value);
      bytes_.insert(bytes_.end(), bytes, bytes + size_bytes);
    } else if (has(size_bytes)) {
      std::copy_n(rest_.begin(), size_bytes, static_cast<uint8_t*>(value));
      rest_ = rest_.subspan(size_bytes);
    }
  }
  void require(bool holds) { ok_ = ok_ && holds; }
  bool has(size_t size_bytes) {
    require(rest_.size() >= size_bytes);
    return ok_;
  }
  /// The length of a list or text; `own` when writing.
  size_t length(size_t own, size_t most) {
    require(reads_ || own <= most);
    auto count = static_cast<uint16_t>(own);
    field(count);
    require(count <= most);
    return count;
  }

  const bool reads_ = false;
  std::span<const uint8_t> rest_;
  std::vector<uint8_t> bytes_;
  bool ok_ = true;
};

}  // namespace amem
