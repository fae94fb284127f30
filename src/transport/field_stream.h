// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/identity.h"
#include "base/tag.h"

namespace amem {

// Two classes with the same face, so that a layout is said once and serves both ways: every value
// little-endian and without padding, lists and texts behind their length. Neither writes or reads
// past its bounds; a value that does not fit makes ok() false for good.

/// Appends fields to a byte string.
class FieldWriter {
 public:
  template <std::integral T>
  void number(T value) {
    auto rest = static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
    for (size_t i = 0; i < sizeof(T); ++i, rest >>= 8)
      bytes_.push_back(static_cast<uint8_t>(rest & 0xff));
  }
  template <typename Tag>
  void id(const Id128<Tag>& id) {
    for (uint64_t word : id.bits) number(word);
  }
  void flag(bool value) { number<uint8_t>(value ? 1 : 0); }
  template <typename Enum>
  void choice(Enum value, Enum last) {
    if (value > last) ok_ = false;
    number(static_cast<uint8_t>(value));
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, size_t most, Each each) {
    if (values.size() > most) {
      ok_ = false;
      return;
    }
    number(static_cast<uint16_t>(values.size()));
    for (T& value : values) each(value);
  }
  /// A sentence for a log line: cut to `most` bytes, control characters become spaces.
  void sentence(const std::string& text, size_t most) {
    const size_t length = std::min(text.size(), most);
    number(static_cast<uint16_t>(length));
    for (size_t i = 0; i < length; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      bytes_.push_back(is_control(byte) ? uint8_t{' '} : byte);
    }
  }
  /// "" for none.
  void tag(const Tag& tag) {
    if (!tag.empty() && !is_valid_tag(tag)) ok_ = false;
    document(tag, kMaxTagBytes);
  }
  /// A document, of which a part would be worth nothing.
  void document(const std::string& text, size_t most) {
    if (text.size() > most) {
      ok_ = false;
      return;
    }
    number(static_cast<uint16_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }

  bool ok() const { return ok_; }
  std::vector<uint8_t> take() { return std::move(bytes_); }

  static bool is_control(uint8_t byte) { return byte < 0x20 || byte == 0x7f; }

 private:
  std::vector<uint8_t> bytes_;
  bool ok_ = true;
};

/// Takes fields off bytes that anybody may have written.
class FieldReader {
 public:
  explicit FieldReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  template <std::integral T>
  void number(T& value) {
    if (!has(sizeof(T))) return;
    uint64_t got = 0;
    for (size_t i = sizeof(T); i-- > 0;) got = got << 8 | rest_[i];
    rest_ = rest_.subspan(sizeof(T));
    value = static_cast<T>(static_cast<std::make_unsigned_t<T>>(got));
  }
  template <typename Tag>
  void id(Id128<Tag>& id) {
    for (uint64_t& word : id.bits) number(word);
  }
  void flag(bool& value) {
    uint8_t byte = 0;
    number(byte);
    if (byte > 1) ok_ = false;
    value = byte == 1;
  }
  template <typename Enum>
  void choice(Enum& value, Enum last) {
    uint8_t byte = 0;
    number(byte);
    if (byte > static_cast<uint8_t>(last)) {
      ok_ = false;
    } else {
      value = static_cast<Enum>(byte);
    }
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, size_t most, Each each) {
    uint16_t count = 0;
    number(count);
    if (count > most) ok_ = false;
    for (size_t i = 0; ok_ && i < count; ++i) each(values.emplace_back());
  }
  void sentence(std::string& text, size_t most) {
    document(text, most);
    for (char c : text)
      if (FieldWriter::is_control(static_cast<uint8_t>(c))) ok_ = false;
  }
  void tag(Tag& tag) {
    document(tag, kMaxTagBytes);
    if (!tag.empty() && !is_valid_tag(tag)) ok_ = false;
  }
  void document(std::string& text, size_t most) {
    uint16_t length = 0;
    number(length);
    if (length > most || !has(length)) {
      ok_ = false;
      return;
    }
    text.assign(rest_.begin(), rest_.begin() + length);
    rest_ = rest_.subspan(length);
  }

  /// False when a field was missing or out of its bounds.
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  bool has(size_t size_bytes) {
    if (rest_.size() < size_bytes) ok_ = false;
    return ok_;
  }

  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

}  // namespace amem
