// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/environment.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "base/tag.h"

namespace amem {
namespace {

/// A row of environment.def.
struct Row {
  std::string_view name;
  const char* range;
};

constexpr Row kRows[] = {
#define AMEM_VARIABLE(audience, field, name, standard, range, meaning) {#name, range},
#include "base/environment.def"
#undef AMEM_VARIABLE
};

bool is_known(std::string_view name) {
  return std::any_of(std::begin(kRows), std::end(kRows),
                     [&](const Row& row) { return row.name == name; });
}

using Complaints = std::vector<std::string>;

/// Reads an integer in the row's range. On error `out` does not change, and a complaint is added.
void read(const Row& row, const char* text, long& out, Complaints& complaints) {
  char* end = nullptr;
  errno = 0;
  const long value = strtol(text, &end, 10);
  long low = 0, high = 0;
  sscanf(row.range, "%ld%*[^0-9]%ld", &low, &high);
  if (end != text && *end == '\0' && errno == 0 && value >= low && value <= high)
    out = value;
  else
    complaints.push_back(std::string(row.name) + "=" + text + " is not a number from " +
                         std::to_string(low) + " to " + std::to_string(high) + "; using " +
                         std::to_string(out));
}

void read(const Row& row, const char* text, bool& out, Complaints& complaints) {
  const std::optional<bool> flag = flag_of(text);
  if (!flag)
    complaints.push_back(std::string(row.name) + "=" + text +
                         " is neither 1, true, yes or on, nor 0, false, no or off; using " +
                         (out ? "1" : "0"));
  out = flag.value_or(out);
}

/// One of the words of the row's range, in the order of the enumerators. The first is the default.
template <typename Enum>
requires std::is_enum_v<Enum>
void read(const Row& row, const char* text, Enum& out, Complaints& complaints) {
  int number = 0;
  for (std::string_view rest = row.range; !rest.empty(); ++number) {
    const std::string_view word = rest.substr(0, rest.find(", "));
    if (word == text) {
      out = static_cast<Enum>(number);
      return;
    }
    rest.remove_prefix(std::min(word.size() + 2, rest.size()));
  }
  std::string words = row.range;
  const std::string standard = words.substr(0, words.find(','));
  complaints.push_back(std::string(row.name) + "=" + text + " is neither " +
                       words.replace(words.rfind(", "), 2, " nor ") + "; using " + standard);
}

void read(const Row& row, const char* text, std::string& out, Complaints& complaints) {
  const bool is_tag = strstr(row.range, "a tag") != nullptr;
  const bool can_be_flag = *row.range == '0';
  const std::string setting = std::string(row.name) + "=" + text;
  if ((is_tag || strcmp(row.range, "a name") == 0) && !is_valid_tag(text))
    complaints.push_back(setting +
                         " is not a name of 1 to 64 letters, digits, '_', '-', '.', ':' or '/'; "
                         "using none");
  else if (can_be_flag && !flag_of(text) && text[strspn(text, "0123456789")] == '\0')
    complaints.push_back(setting + " is neither 0 nor 1 nor a tag; using 0");
  else if (is_tag && is_reserved_tag(text))
    complaints.push_back(setting + " is a reserved tag; using none");
  else
    out = text;
}

void read(const Row& row, const char* text, Group& out, Complaints& complaints) {
  const char* const digits = *text == '-' ? text + 1 : text;
  if (digits[strspn(digits, "0123456789")] == '\0')
    read({row.name, "0 to 2147483647"}, text, out.number, complaints);
  else
    read({row.name, "a name"}, text, out.name, complaints);
}

/// The text after "name=", or nullptr.
const char* value_of(const char* const* environ_block, std::string_view name) {
  for (; environ_block != nullptr && *environ_block != nullptr; ++environ_block) {
    const std::string_view entry(*environ_block);
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
      return *environ_block + name.size() + 1;
  }
  return nullptr;
}

/// A number, or "".
std::string rank_in(const char* const* environ_block) {
  for (const char* const name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* const text = value_of(environ_block, name);
    if (text == nullptr || *text == '\0' || text[strspn(text, "0123456789")] != '\0') continue;
    const char* const number = text + strspn(text, "0");
    return *number == '\0' ? "0" : number;
  }
  return "";
}

std::optional<long> number_of(long value) { return value; }
template <typename T>
requires(!std::is_convertible_v<T, long>) std::optional<long> number_of(const T&) {
  return std::nullopt;
}

}  // namespace

bool is_reserved_tag(std::string_view tag) {
  return tag == "nccl" || tag == "symmetric" || tag == "context";
}

std::optional<bool> flag_of(const char* text) {
  constexpr const char* kWords[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
  for (size_t i = 0; text != nullptr && i < std::size(kWords); ++i)
    if (strcasecmp(text, kWords[i]) == 0) return i % 2 == 1;
  return std::nullopt;
}

Environment read_environment(const char* const* environ_block) {
  Environment out;
  out.rank = rank_in(environ_block);
#define AMEM_VARIABLE(audience, field, name, standard, range, meaning)                     \
  if (const char* const text = value_of(environ_block, #name); text != nullptr && *text) { \
    read({#name, range}, text, out.field, out.complaints);                                 \
    if (std::string_view(meaning).starts_with("deprecated"))                               \
      out.complaints.push_back(#name " is " meaning);                                      \
  }
#include "base/environment.def"
#undef AMEM_VARIABLE
  for (; environ_block != nullptr && *environ_block != nullptr; ++environ_block) {
    const std::string_view entry(*environ_block);
    const std::string_view name = entry.substr(0, entry.find('='));
    // AMEM_SIM_* belong to the simulated GPU and AMEM_TEST_* to the tests.
    if (name.size() < entry.size() && name.starts_with("AMEM_") && !is_known(name) &&
        !name.starts_with("AMEM_SIM_") && !name.starts_with("AMEM_TEST_"))
      out.complaints.push_back("unknown variable " + std::string(name) +
                               " is ignored (amem env --help lists all)");
  }
  return out;
}

const char* variable_now(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr ? value : "";
}

const Environment& environment() {
  static const Environment* const instance = new Environment(read_environment(environ));
  return *instance;
}

std::optional<long> number_setting(std::string_view name) {
#define AMEM_VARIABLE(audience, field, variable, standard, range, meaning) \
  if (name == #variable) return number_of(environment().field);
#include "base/environment.def"
#undef AMEM_VARIABLE
  return std::nullopt;
}

}  // namespace amem
