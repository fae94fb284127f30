// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "api/interposition_report.h"

#include <cstring>
#include <vector>

#include "clients/nccl/doors/nccl_copies.h"
#include "interpose/slots.h"

namespace amem {
namespace {

constexpr size_t kMaxRows = 4096;

struct Row {
  char path[512];
  char symbol[64];
  unsigned count;
};

/// Does not allocate while the loader's list is locked.
std::vector<Row> patched_slots() {
  std::vector<Row> rows(kMaxRows);
  size_t used = 0;
  visit_images([&](const Image& image) {
    if (is_in_this_library(image.begin)) return;
    const size_t first = used;
    visit_slots(image, [&](const Slot& slot) {
      if (!is_in_this_library(slot.function)) return;
      size_t at = first;
      while (at < used && strcmp(rows[at].symbol, slot.symbol) != 0) ++at;
      if (at == rows.size()) return;
      if (at == used) {
        strncpy(rows[at].path, image.path, sizeof rows[at].path - 1);
        strncpy(rows[at].symbol, slot.symbol, sizeof rows[at].symbol - 1);
        ++used;
      }
      ++rows[at].count;
    });
  });
  rows.resize(used);
  return rows;
}

std::string quoted(const char* text) {
  std::string out = "\"";
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') out += '\\';
    out += static_cast<unsigned char>(*text) < ' ' ? ' ' : *text;
  }
  return out + "\"";
}

std::string nccl_json(const NcclCopy& copy) {
  std::string calls;
  for (size_t i = 0; i < kNcclFunctions; ++i)
    if (const uint64_t count = copy.calls[i].load(std::memory_order_relaxed); count > 0)
      calls += (calls.empty() ? "" : ", ") + quoted(name_of(static_cast<NcclFunction>(i))) + ": " +
               std::to_string(count);
  return "{\"path\": " + quoted(copy.path) +
         ", \"refusal\": " + quoted(copy.refusal != nullptr ? copy.refusal : "") +
         ", \"calls\": {" + calls + "}}";
}

}  // namespace

std::string interposition_json() {
  std::string copies, slots;
  for (const NcclCopy& copy : nccl_copies())
    copies += (copies.empty() ? "" : ", ") + nccl_json(copy);
  for (const Row& row : patched_slots())
    slots += (slots.empty() ? "" : ", ") + ("{\"path\": " + quoted(row.path)) +
             ", \"symbol\": " + quoted(row.symbol) + ", \"count\": " + std::to_string(row.count) +
             "}";
  return "{\"nccl\": [" + copies + "], \"slots\": [" + slots + "]}";
}

}  // namespace amem
