// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "shim/nccl_search.h"

#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "shim/testdata/cache_bytes.h"

namespace amem {
namespace {

namespace fs = std::filesystem;

constexpr char kWheel[] = "nvidia/nccl/lib/libnccl.so.2";

/// A directory of its own for each test, with files that are, or are not, a NCCL.
class FindRealNccl : public testing::Test {
 protected:
  FindRealNccl() {
    std::string name = fs::temp_directory_path() / "amem-search-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) abort();
    root_ = name;
  }
  ~FindRealNccl() override { fs::remove_all(root_); }

  /// Copies `source` (the fake NCCL unless told) to `path` below the directory.
  std::string put(const std::string& path, const char* source = AMEM_TEST_FAKE_NCCL) {
    const fs::path to = root_ / path;
    fs::create_directories(to.parent_path());
    fs::copy_file(source, to);
    return to;
  }
  std::string put_text(const std::string& path, const std::string& text) {
    const fs::path to = root_ / path;
    fs::create_directories(to.parent_path());
    std::ofstream(to, std::ios::binary) << text;
    return to;
  }
  /// The fake NCCL with another number for its machine.
  std::string put_foreign(const std::string& path, uint16_t machine) {
    const std::string to = put(path);
    std::fstream file(to, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(offsetof(ElfW(Ehdr), e_machine));
    file.write(reinterpret_cast<const char*>(&machine), sizeof machine);
    return to;
  }
  static std::string message(const SearchPlaces& places) {
    const auto found = find_real_nccl(places);
    return found.ok() ? "found " + found.value() : found.error().message;
  }
  static std::string message_for(const std::string& chosen_path) {
    SearchPlaces places;
    places.chosen_path = chosen_path;
    return message(places);
  }

  fs::path root_;
};

TEST_F(FindRealNccl, LooksInTheDocumentedOrder) {
  const std::vector<std::string> in_order = {
      put("library_path/libnccl.so.2"),
      put("loaded/lib/python3.12/site-packages/" + std::string(kWheel)),
      put("debian/lib/python3/dist-packages/" + std::string(kWheel)),
      put("venv/lib/python3.12/site-packages/" + std::string(kWheel)),
      put("base/lib/python3.12/site-packages/" + std::string(kWheel)),
      put("active/lib64/python3.11/site-packages/" + std::string(kWheel)),
      put("cached/libnccl.so.2"),
      put("first/libnccl.so.2"),
      put("second/libnccl.so.2"),
  };
  put("base/bin/python3.12");
  fs::create_directories(root_ / "venv/bin");
  fs::create_symlink(root_ / "base/bin/python3.12", root_ / "venv/bin/python");
  const auto cache = cache_bytes({{"libnccl.so.2", in_order[6]}});
  SearchPlaces places;
  places.library_path = {root_ / "nowhere", root_ / "library_path"};
  places.loaded_objects = {"/usr/lib/libc.so.6",
                           root_ / "loaded/lib/python3.12/site-packages/torch/lib/libtorch.so",
                           root_ / "debian/lib/python3/dist-packages/numpy/core.so"};
  places.executable = root_ / "venv/bin/python";
  places.virtual_environment = root_ / "active";
  places.loader_cache = put_text("ld.so.cache", {cache.begin(), cache.end()});
  places.directories = {root_ / "first", root_ / "second"};

  for (const std::string& expected : in_order) {
    const auto found = find_real_nccl(places);
    ASSERT_TRUE(found.ok()) << found.error().message;
    EXPECT_EQ(found.value(), expected);
    fs::remove(expected);
  }
  EXPECT_NE(message(places).find("set AMEM_NCCL_PATH"), std::string::npos) << message(places);
}

TEST_F(FindRealNccl, ChosenPathIsTheOnlyCandidate) {
  SearchPlaces places;
  places.chosen_path = put("chosen/libnccl.so.2");
  places.library_path = {fs::path(put("other/libnccl.so.2")).parent_path()};
  EXPECT_EQ(find_real_nccl(places).value(), places.chosen_path);

  fs::remove(places.chosen_path);
  EXPECT_FALSE(find_real_nccl(places).ok());
}

TEST_F(FindRealNccl, PassesOverOurOwnLibraries) {
  put("a/libnccl.so.2", AMEM_TEST_SHIM);
  put("b/libnccl.so.2", AMEM_TEST_ENGINE);
  fs::create_directories(root_ / "c");
  fs::create_symlink(AMEM_TEST_SHIM, root_ / "c/libnccl.so.2");
  SearchPlaces places;
  places.library_path = {root_ / "a", root_ / "b", root_ / "c"};
  EXPECT_FALSE(find_real_nccl(places).ok());

  places.directories = {root_ / "d"};
  EXPECT_NE(message(places).find("found "), 0u);
  const std::string real = put("d/libnccl.so.2");
  EXPECT_EQ(message(places), "found " + real);
}

TEST_F(FindRealNccl, PassesOverWhatCannotBeLoadedAndSaysSo) {
  const std::string text = put_text("a/libnccl.so.2", "INPUT(libnccl.so.2.28)");
  const std::string foreign = put_foreign("b/libnccl.so.2", EM_AARCH64);
  SearchPlaces places;
  places.library_path = {root_ / "a", root_ / "b"};

  const std::string why = message(places);
  EXPECT_NE(why.find(text + " is not an ELF file"), std::string::npos) << why;
  EXPECT_NE(why.find(foreign + " is built for aarch64, this process runs on"), std::string::npos)
      << why;

  places.directories = {fs::path(put("c/libnccl.so.2")).parent_path()};
  EXPECT_EQ(message(places).find("found "), 0u);
}

TEST_F(FindRealNccl, RefusesOurOwnLibraryAsChosenPath) {
  for (const char* own : {AMEM_TEST_SHIM, AMEM_TEST_ENGINE}) {
    const std::string why = message_for(own);
    EXPECT_EQ(why.find("AMEM_NCCL_PATH=" + std::string(own) + " is amem's own library, not NCCL"),
              0u)
        << why;
  }
}

TEST_F(FindRealNccl, SaysWhyAChosenPathIsNotUsable) {
  const std::string missing = root_ / "missing.so";
  EXPECT_EQ(message_for(missing).find("AMEM_NCCL_PATH=" + missing +
                                      " cannot be read: No such file or directory"),
            0u);

  for (const auto& [machine, name] : {std::pair{EM_AARCH64, "aarch64"}, {EM_RISCV, "RISC-V"}}) {
    const std::string foreign = put_foreign(name, static_cast<uint16_t>(machine));
    EXPECT_EQ(message_for(foreign).find("AMEM_NCCL_PATH=" + foreign + " is built for " + name), 0u)
        << message_for(foreign);
  }

  const std::string text = put_text("text", "not a library");
  EXPECT_EQ(message_for(text).find("AMEM_NCCL_PATH=" + text + " is not an ELF file"), 0u);

  const std::string folder = root_;
  EXPECT_EQ(message_for(folder).find("AMEM_NCCL_PATH=" + folder + " is not a file"), 0u);

  const std::string other = put("other.so", AMEM_TEST_NOT_NCCL);
  EXPECT_EQ(message_for(other).find("AMEM_NCCL_PATH=" + other + " is not NCCL"), 0u);
  for (const std::string& path : {missing, text, folder, other})
    EXPECT_NE(message_for(path).find("unset it to have it looked for"), std::string::npos);
}

TEST_F(FindRealNccl, CharactersOfPatternsInAPathAreOrdinary) {
  const std::string real = put("we[i]rd*/lib/python3.12/site-packages/" + std::string(kWheel));
  SearchPlaces places;
  places.virtual_environment = root_ / "we[i]rd*";

  EXPECT_EQ(message(places), "found " + real);
}

TEST(SearchPlacesOfThisProcess, NameItsProgramAndItsImages) {
  const SearchPlaces places = search_places_of_this_process();

  EXPECT_TRUE(fs::equivalent(places.executable, "/proc/self/exe")) << places.executable;
  EXPECT_TRUE(std::any_of(places.loaded_objects.begin(), places.loaded_objects.end(),
                          [](const std::string& path) { return path.ends_with("/libc.so.6"); }));
  EXPECT_EQ(places.loader_cache, "/etc/ld.so.cache");
}

}  // namespace
}  // namespace amem
