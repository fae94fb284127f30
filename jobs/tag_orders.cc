// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/tag_orders.h"

#include <stdexcept>

#include "amem.h"

namespace jobs {

namespace {

void check_amem(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + ": " + amemGetLastError());
}

/// The next word; all tags where there is none.
const char* tag_or_all(Words& words, std::string* tag) {
  return words >> *tag ? tag->c_str() : nullptr;
}

std::string pause(Words& words) {
  std::string tag;
  const char* const which = tag_or_all(words, &tag);
  return std::to_string(seconds_of([&] { check_amem(amemPause(which), "amemPause"); }));
}

std::string resume(Words& words) {
  std::string tag;
  const char* const which = tag_or_all(words, &tag);
  return std::to_string(seconds_of([&] { check_amem(amemResume(which), "amemResume"); }));
}

/// The state of a tag and its allocated, resident, released and saved bytes, on the host and on
/// disk.
std::string totals(Words& words) {
  std::string tag;
  words >> tag;
  amemTotals_t totals{};
  check_amem(amemGetTagTotals(tag.c_str(), -1, -1, &totals), "amemGetTagTotals");
  return std::to_string(amemGetTagState(tag.c_str())) + " " +
         std::to_string(totals.allocated_bytes) + " " + std::to_string(totals.resident_bytes) +
         " " + std::to_string(totals.released_bytes) + " " + std::to_string(totals.saved_bytes) +
         " " + std::to_string(totals.disk_bytes);
}

/// The words of a piece: some stretches are all zero, others are not.
std::vector<unsigned> contents(size_t size_bytes, unsigned pattern) {
  constexpr size_t kStretchWords = (512 << 10) / sizeof(unsigned);
  std::vector<unsigned> words(size_bytes / sizeof(unsigned));
  for (size_t i = 0; i < words.size(); ++i)
    if (i / kStretchWords % 8 != 1) words[i] = pattern * 2654435761U + static_cast<unsigned>(i);
  return words;
}

}  // namespace

amemKind_t kind_of(const std::string& name) {
  if (name == "retain") return amemKindRetain;
  return name == "discard" ? amemKindDiscard : name == "disk" ? amemKindDisk : amemKindKeep;
}

std::vector<unsigned> TagOrders::Piece::contents() const {
  std::vector<unsigned> words = jobs::contents(size_bytes, pattern);
  for (const auto& [index, value] : changes) words[index] = value;
  return words;
}

/// tag_malloc TAG keep|discard|disk|retain BYTES
std::string TagOrders::allocate(Words& words) {
  std::string tag, kind;
  Piece piece{0, 0, next_pattern_++, {}};
  words >> tag >> kind >> piece.size_bytes;
  void* pointer = nullptr;
  check_amem(amemMalloc(&pointer, piece.size_bytes, tag.c_str(), kind_of(kind)), "amemMalloc");
  piece.address = reinterpret_cast<Address>(pointer);
  pieces_[tag].push_back(piece);
  return std::to_string(piece.address);
}

void TagOrders::write(const Piece& piece) {
  const std::vector<unsigned> all = piece.contents();
  JOB_CUDA(to_device(piece.address, all.data(), all.size() * sizeof(unsigned)));
  JOB_CUDA(stream_synchronize(nullptr));  // as in write_word(): an importer may read it next
}

/// tag_write TAG: all memory of the tag; tag_write_last TAG: what was allocated last
std::string TagOrders::write(Words& words, bool only_last) {
  std::string tag;
  words >> tag;
  const std::vector<Piece>& pieces = pieces_[tag];
  for (size_t i = only_last ? pieces.size() - 1 : 0; i < pieces.size(); ++i) write(pieces[i]);
  return "";
}

/// tag_change TAG WORD...: gives these words of each piece other values, not zero.
std::string TagOrders::change(Words& words) {
  std::string tag;
  words >> tag;
  for (size_t index = 0; words >> index;)
    for (Piece& piece : pieces_[tag]) {
      const unsigned value = piece.changes[index] = next_pattern_++;
      JOB_CUDA(to_device(piece.address + index * sizeof value, &value, sizeof value));
    }
  JOB_CUDA(stream_synchronize(nullptr));
  return "";
}

/// tag_switch OUT IN WAIT_MS
std::string switch_tags(Words& words) {
  std::string out, in;
  uint64_t wait_ms = 0;
  words >> out >> in >> wait_ms;
  check_amem(amemSwitch(out.c_str(), in.c_str(), wait_ms, 0), "amemSwitch");
  return "";
}

/// The bytes that the last pause has copied, and those that were unchanged.
std::string copied(Words&) {
  amemTimes_t times{};
  check_amem(amemGetTimes(&times), "amemGetTimes");
  return std::to_string(times.pause_copied_bytes) + " " +
         std::to_string(times.pause_unchanged_bytes);
}

/// Every word of the tag's memory is what was written. The answer is how many bytes were read.
std::string TagOrders::check(Words& words) {
  std::string tag;
  words >> tag;
  size_t checked = 0;
  for (const Piece& piece : pieces_[tag]) {
    const std::vector<unsigned> wanted = piece.contents();
    std::vector<unsigned> found(wanted.size());
    JOB_CUDA(to_host(found.data(), piece.address, found.size() * sizeof(unsigned)));
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i] != wanted[i])
        throw std::runtime_error("word " + std::to_string(i) + " of " + tag + " is " +
                                 std::to_string(found[i]) + ", not " + std::to_string(wanted[i]));
    checked += piece.size_bytes;
  }
  return std::to_string(checked);
}

std::string TagOrders::free(Words& words) {
  std::string tag;
  words >> tag;
  for (const Piece& piece : pieces_[tag])
    check_amem(amemFree(reinterpret_cast<void*>(piece.address)), "amemFree");
  pieces_.erase(tag);
  return "";
}

Orders TagOrders::orders() {
  return {
      {"tag_malloc", [this](Words& words) { return allocate(words); }},
      {"tag_write", [this](Words& words) { return write(words, false); }},
      {"tag_write_last", [this](Words& words) { return write(words, true); }},
      {"tag_change", [this](Words& words) { return change(words); }},
      {"tag_copied", copied},
      {"tag_check", [this](Words& words) { return check(words); }},
      {"tag_free", [this](Words& words) { return free(words); }},
      {"tag_pause", pause},
      {"tag_resume", resume},
      {"tag_switch", switch_tags},
      {"tag_totals", totals},
  };
}

}  // namespace jobs
