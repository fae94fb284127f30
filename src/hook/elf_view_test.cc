// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/elf_view.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace amem {
namespace {

std::vector<std::byte> read_probe(const std::string& name) {
  std::ifstream file(std::string(AMEM_TEST_LIBRARIES) + "/libimport_" + name + ".so",
                     std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

template <typename T>
void put(std::vector<std::byte>& file, size_t offset, T value) {
  memcpy(file.data() + offset, &value, sizeof value);
}

std::string why_not(const std::vector<std::byte>& file) {
  const auto view = ElfView::of_file(file);
  return view.ok() ? "usable" : view.error().message;
}

TEST(ElfView, ReadsAFileLikeAnImage) {
  for (const char* name : {"lazy", "now", "noplt", "pointer", "sysv"}) {
    const auto file = read_probe(name);
    const auto view = ElfView::of_file(file);

    ASSERT_TRUE(view.ok()) << name << " " << view.error().message;
    EXPECT_TRUE(view.value().exports("use_imported")) << name;
    EXPECT_FALSE(view.value().exports("imported")) << name;
    EXPECT_EQ(view.value().relocations_of("imported").size(), 1u) << name;
  }
}

TEST(ElfView, SaysWhatAFileIsInstead) {
  auto file = read_probe("lazy");

  EXPECT_EQ(why_not({}), "is not an ELF file");
  EXPECT_EQ(why_not(std::vector<std::byte>(4096)), "is not an ELF file");

  auto foreign = file;
  put<uint16_t>(foreign, offsetof(ElfW(Ehdr), e_machine), EM_RISCV);
  EXPECT_EQ(why_not(foreign).find("is built for RISC-V, this process runs on"), 0u);

  auto narrow = file;
  put<uint8_t>(narrow, EI_CLASS, ELFCLASS32);
  EXPECT_EQ(why_not(narrow), "is not a 64-bit little-endian ELF file");

  auto object = file;
  put<uint16_t>(object, offsetof(ElfW(Ehdr), e_type), ET_REL);
  EXPECT_EQ(why_not(object), "is an ELF file, but not a shared library");

  EXPECT_NE(why_not({file.begin(), file.begin() + 256}).find("cut off"), std::string::npos);
}

/// Reads everything there is to read; the sanitizers and the memory protection judge.
void read_all(std::span<const std::byte> file) {
  const auto view = ElfView::of_file(file);
  if (!view.ok()) return;
  (void)view.value().exports("use_imported");
  (void)view.value().exports("absent");
  (void)view.value().relocations_of("imported");
}

TEST(ElfView, SurvivesFilesThatAreCutOff) {
  for (const char* name : {"lazy", "sysv"}) {
    const auto file = read_probe(name);
    for (size_t size = 0; size < file.size(); size += 37) {
      const std::vector<std::byte> cut(file.begin(), file.begin() + static_cast<long>(size));
      read_all(cut);
    }
  }
}

TEST(ElfView, SurvivesDamagedFiles) {
  std::mt19937 random(20260101);
  for (const char* name : {"lazy", "sysv"}) {
    const auto file = read_probe(name);
    for (int round = 0; round < 3000; ++round) {
      auto damaged = file;
      for (int i = 0; i < 8; ++i) {
        // The headers, the dynamic section and the tables are what is read: aim at the file's
        // first kilobytes half of the time.
        const size_t range = round % 2 == 0 ? std::min<size_t>(1024, file.size()) : file.size();
        damaged[random() % range] = static_cast<std::byte>(random());
      }
      put<ElfW(Half)>(damaged, offsetof(ElfW(Ehdr), e_machine), kElfMachine);
      read_all(damaged);
    }
  }
}

}  // namespace
}  // namespace amem
