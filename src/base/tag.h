// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"

namespace amem {

/// The name of memory that is paused and resumed together.
using Tag = std::string;
using Tags = std::set<Tag>;

/// The tag of memory that all ranks of a group map.
inline constexpr char kSymmetricTag[] = "symmetric";

inline constexpr size_t kMaxTagBytes = 64;
/// Maximum number of tags in a message.
inline constexpr size_t kMaxTags = 256;

/// 1 to 64 letters, digits, '_', '-', '.', ':' or '/'. The name is used in JSON, in messages and on
/// command lines.
inline bool is_valid_tag(std::string_view tag) {
  return !tag.empty() && tag.size() <= kMaxTagBytes &&
         std::all_of(tag.begin(), tag.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("_-.:/").find(c) != std::string_view::npos;
         });
}

/// The error for an invalid tag: misuse.
inline Error invalid_tag(const Tag& tag) {
  return misuse_error(
      "'%s' is not a valid tag: use 1 to 64 letters, digits, '_', '-', '.', ':' or '/'",
      tag.c_str());
}

/// "kv_cache, weights", for messages.
inline std::string text_of(const Tags& tags) {
  std::string text;
  for (const Tag& tag : tags) text += (text.empty() ? "" : ", ") + tag;
  return text;
}

}  // namespace amem
