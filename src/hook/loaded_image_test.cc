// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "hook/loaded_image.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <limits.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

extern "C" int imported(int x);

namespace amem {
namespace {

using Function = int (*)(int);

int replacement(int x) { return x + 1000; }

/// "rw-p" and the like for the mapping that has `address`.
std::string protection_at(uintptr_t address) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[PATH_MAX + 128];
  std::string found;
  while (found.empty() && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long low = 0, high = 0;
    char mode[8] = "";
    if (sscanf(line, "%lx-%lx %7s", &low, &high, mode) == 3 && address >= low && address < high)
      found = mode;
  }
  fclose(maps);
  return found;
}

struct Probe {
  const char* name;
  uint32_t relocation;
  bool sealed;
};
std::ostream& operator<<(std::ostream& out, const Probe& probe) { return out << probe.name; }

/// One way in which a library can hold the address of imported(), loaded afresh for each test.
class RedirectImport : public testing::TestWithParam<Probe> {
 protected:
  RedirectImport() {
    path_ = std::string(AMEM_TEST_LIBRARIES) + "/libimport_" + GetParam().name + ".so";
    handle_ = dlopen(path_.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
  }
  ~RedirectImport() override {
    if (handle_ != nullptr) dlclose(handle_);
  }

  LoadedImage image() const {
    for (LoadedImage& image : loaded_images())
      if (image.path == path_) return std::move(image);
    ADD_FAILURE() << path_ << " is not among the loaded images";
    abort();
  }
  int use_imported(int x) const {
    return reinterpret_cast<Function>(dlsym(handle_, "use_imported"))(x);
  }
  uintptr_t slot() const {
    const LoadedImage probe = image();
    const auto relocations = probe.view.relocations_of("imported");
    return relocations.empty() ? 0 : probe.load_bias + relocations.front().address;
  }

  std::string path_;
  void* handle_;
};

TEST_P(RedirectImport, ProbeUsesTheRelocationItIsNamedAfter) {
  const auto relocations = image().view.relocations_of("imported");

  ASSERT_EQ(relocations.size(), 1u);
  EXPECT_EQ(relocations.front().type, GetParam().relocation);
  EXPECT_EQ(protection_at(slot()), GetParam().sealed ? "r--p" : "rw-p");
}

TEST_P(RedirectImport, CallsLandAndThePreviousFunctionIsTheRealOne) {
  void* previous = nullptr;
  const auto slots =
      redirect_import(image(), "imported", reinterpret_cast<void*>(&replacement), &previous);

  ASSERT_TRUE(slots.ok()) << slots.error().message;
  EXPECT_EQ(slots.value(), 1);
  EXPECT_EQ(use_imported(1), 1001);
  EXPECT_EQ(previous, reinterpret_cast<void*>(&imported));
  EXPECT_EQ(reinterpret_cast<Function>(previous)(1), 2);
  EXPECT_EQ(use_imported(1), 1001) << "calling the previous function must not bind the slot anew";
}

TEST_P(RedirectImport, WorksOnASlotThatWasUsedBefore) {
  EXPECT_EQ(use_imported(1), 2);

  void* previous = nullptr;
  const auto slots =
      redirect_import(image(), "imported", reinterpret_cast<void*>(&replacement), &previous);

  ASSERT_TRUE(slots.ok()) << slots.error().message;
  EXPECT_EQ(use_imported(1), 1001);
  EXPECT_EQ(previous, reinterpret_cast<void*>(&imported));
}

TEST_P(RedirectImport, PageGetsItsProtectionBack) {
  const std::string before = protection_at(slot());

  ASSERT_TRUE(
      redirect_import(image(), "imported", reinterpret_cast<void*>(&replacement), nullptr).ok());

  EXPECT_EQ(protection_at(slot()), before);
}

TEST_P(RedirectImport, SecondRedirectionLeavesPreviousAlone) {
  auto* target = reinterpret_cast<void*>(&replacement);
  void* previous = nullptr;
  ASSERT_TRUE(redirect_import(image(), "imported", target, &previous).ok());

  const auto again = redirect_import(image(), "imported", target, &previous);

  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again.value(), 1);
  EXPECT_EQ(previous, reinterpret_cast<void*>(&imported));
}

TEST_P(RedirectImport, ManyThreadsAtOnceLeaveOneAnswer) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        void* previous = reinterpret_cast<void*>(&imported);
        const auto slots =
            redirect_import(image(), "imported", reinterpret_cast<void*>(&replacement), &previous);
        if (!slots.ok() || slots.value() != 1) ++failures;
        if (previous != reinterpret_cast<void*>(&imported) || use_imported(2) != 1002) ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(failures, 0);
  EXPECT_EQ(protection_at(slot()), GetParam().sealed ? "r--p" : "rw-p");
}

TEST_P(RedirectImport, SymbolThatIsNotUsedHasNoSlots) {
  void* previous = &previous;
  const auto slots = redirect_import(image(), "imported_by_nobody",
                                     reinterpret_cast<void*>(&replacement), &previous);

  ASSERT_TRUE(slots.ok());
  EXPECT_EQ(slots.value(), 0);
  EXPECT_EQ(previous, &previous);
}

TEST_P(RedirectImport, ExportsAreFoundByTheHashTableTheProbeHas) {
  EXPECT_TRUE(image().view.exports("use_imported"));
  EXPECT_FALSE(image().view.exports("use_imporded"));
  EXPECT_FALSE(image().view.exports("imported")) << "wanting a symbol is not offering it";
}

#if defined(__x86_64__)
INSTANTIATE_TEST_SUITE_P(Probes, RedirectImport,
                         testing::Values(Probe{"lazy", R_X86_64_JUMP_SLOT, false},
                                         Probe{"now", R_X86_64_JUMP_SLOT, true},
                                         Probe{"noplt", R_X86_64_GLOB_DAT, true},
                                         Probe{"pointer", R_X86_64_64, true},
                                         Probe{"sysv", R_X86_64_JUMP_SLOT, false}),
                         [](const auto& param) { return std::string(param.param.name); });
#endif

TEST(LoadedImages, BeginWithTheExecutable) {
  const auto images = loaded_images();

  ASSERT_FALSE(images.empty());
  EXPECT_TRUE(images.front().is_executable);
  EXPECT_TRUE(images.front().contains(reinterpret_cast<void*>(&protection_at)));
  EXPECT_EQ(std::count_if(images.begin(), images.end(),
                          [](const LoadedImage& image) { return image.is_executable; }),
            1);
}

TEST(ImagesExporting, FindsTheOneThatDefinesTheSymbol) {
  const auto images = images_exporting("imported");

  ASSERT_EQ(images.size(), 1u);
  EXPECT_NE(images.front().path.find("libimport_target.so"), std::string::npos);
  EXPECT_TRUE(images.front().contains(reinterpret_cast<void*>(&imported)));
}

TEST(ImagesExporting, FindsNothingForAnUnknownSymbol) {
  EXPECT_TRUE(images_exporting("amem_no_such_symbol").empty());
}

TEST(ImagesExporting, LooksIntoTheVdsoToo) {
  // Its dynamic section is read-only and not relocated by the loader.
  EXPECT_FALSE(images_exporting("__vdso_gettimeofday").empty());
}

}  // namespace
}  // namespace amem
