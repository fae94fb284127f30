// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "interpose/slots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <limits.h>
#include <sys/auxv.h>

#include <cstdio>
#include <cstring>
#include <string>

extern "C" int imported(int x);

namespace amem {
namespace {

using Function = int (*)(int);

int replacement(int x) { return x + 1000; }

/// "rw-p" and the like for the mapping that has `address`.
std::string protection_at(const void* address) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[PATH_MAX + 128];
  std::string found;
  while (found.empty() && fgets(line, sizeof line, maps) != nullptr) {
    unsigned long low = 0, high = 0;
    char mode[8] = "";
    const auto value = reinterpret_cast<uintptr_t>(address);
    if (sscanf(line, "%lx-%lx %7s", &low, &high, mode) == 3 && value >= low && value < high)
      found = mode;
  }
  fclose(maps);
  return found;
}

struct Probe {
  const char* name;
  bool is_unbound;
  bool is_sealed;
};
std::ostream& operator<<(std::ostream& out, const Probe& probe) { return out << probe.name; }

/// One way in which a library can hold the address of imported(), loaded afresh for each test.
class SlotOfAProbe : public testing::TestWithParam<Probe> {
 protected:
  SlotOfAProbe() {
    path_ = std::string(AMEM_TEST_LIBRARIES) + "/libimport_" + GetParam().name + ".so";
    handle_ = dlopen(path_.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
  }
  ~SlotOfAProbe() override {
    if (handle_ != nullptr) dlclose(handle_);
  }
  template <typename Visit>
  void with_image(Visit visit) const {
    int images = 0;
    visit_images([&](const Image& image) {
      if (path_ != image.path) return;
      ++images;
      visit(image);
    });
    EXPECT_EQ(images, 1);
  }
  /// The probe's only slot of imported(). For a pointer, the linker for aarch64 adds one that
  /// nothing uses.
  Slot slot() const {
    Slot found{};
    int slots = 0;
    with_image([&](const Image& image) {
      visit_slots(image, [&](const Slot& slot) {
        if (strcmp(slot.symbol, "imported") != 0) return;
        if (kIsAarch64 && slot.is_unbound && GetParam().is_sealed) return;
        found = slot;
        ++slots;
      });
    });
    EXPECT_EQ(slots, 1);
    return found;
  }
  bool set(const void* function) const {
    bool done = false;
    const Slot of_imported = slot();
    with_image([&](const Image& image) { done = set_slot(image, of_imported, function); });
    return done;
  }
  int use_imported(int x) const {
    return reinterpret_cast<Function>(dlsym(handle_, "use_imported"))(x);
  }

  std::string path_;
  void* handle_;
};

TEST_P(SlotOfAProbe, HoldsTheFunctionOrIsUnbound) {
  const Slot before = slot();
  EXPECT_EQ(before.is_unbound, GetParam().is_unbound);
  if (!before.is_unbound) {
    EXPECT_EQ(before.function, reinterpret_cast<uintptr_t>(&imported));
  }
  EXPECT_EQ(protection_at(before.word), GetParam().is_sealed ? "r--p" : "rw-p");

  EXPECT_EQ(use_imported(1), 2);

  EXPECT_FALSE(slot().is_unbound);
  EXPECT_EQ(slot().function, reinterpret_cast<uintptr_t>(&imported));
}

TEST_P(SlotOfAProbe, CallsLandInWhatItIsSetTo) {
  const std::string protection = protection_at(slot().word);

  ASSERT_TRUE(set(reinterpret_cast<void*>(&replacement)));

  EXPECT_EQ(use_imported(1), 1001);
  EXPECT_EQ(slot().function, reinterpret_cast<uintptr_t>(&replacement));
  EXPECT_EQ(protection_at(slot().word), protection);
}

TEST_P(SlotOfAProbe, CanBeSetAfterItWasBound) {
  EXPECT_EQ(use_imported(1), 2);

  ASSERT_TRUE(set(reinterpret_cast<void*>(&replacement)));

  EXPECT_EQ(use_imported(1), 1001);
}

TEST_P(SlotOfAProbe, RelocatedImageSaysSo) {
  with_image([](const Image& image) { EXPECT_TRUE(image.is_relocated()); });
}

TEST_P(SlotOfAProbe, DefinitionsAreFoundByTheHashTableTheProbeHas) {
  with_image([](const Image& image) {
    EXPECT_NE(image.view.definition("use_imported"), nullptr);
    EXPECT_EQ(image.view.definition("use_imporded"), nullptr);
    EXPECT_EQ(image.view.definition("imported"), nullptr)
        << "to refer to a symbol is not to define it";
  });
}

TEST_P(SlotOfAProbe, SymbolOfTheProbeCanBeRedirected) {
  with_image([](const Image& image) {
    auto* symbol = const_cast<ElfW(Sym)*>(image.view.definition("use_imported"));
    EXPECT_TRUE(store_word(image, &symbol->st_value,
                           reinterpret_cast<uintptr_t>(&replacement) - image.load_bias));
  });

  EXPECT_EQ(dlsym(handle_, "use_imported"), reinterpret_cast<void*>(&replacement));
}

INSTANTIATE_TEST_SUITE_P(Probes, SlotOfAProbe,
                         testing::Values(Probe{"lazy", true, false}, Probe{"now", false, true},
                                         Probe{"noplt", false, true}, Probe{"pointer", false, true},
                                         Probe{"sysv", true, false}),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(VisitImages, BeginsWithTheExecutable) {
  int images = 0;
  visit_images([&](const Image& image) {
    if (images++ > 0) return;
    EXPECT_TRUE(image.contains(reinterpret_cast<uintptr_t>(&protection_at)));
  });
  EXPECT_GT(images, 3);
}

TEST(VisitImages, ReadsTheVdsoToo) {
  if (getauxval(AT_SYSINFO_EHDR) == 0) GTEST_SKIP() << "this system has no vDSO, as qemu-user 7.2";
  // Its dynamic section is read-only and not relocated by the loader.
  bool found = false;
  const char* const name = kIsAarch64 ? "__kernel_clock_gettime" : "__vdso_gettimeofday";
  visit_images([&](const Image& image) { found |= image.view.definition(name) != nullptr; });
  EXPECT_TRUE(found);
}

TEST(FirstDefinition, IsThatOfTheGlobalScopeOutsideThisImage) {
  EXPECT_EQ(first_definition("imported"), reinterpret_cast<uintptr_t>(&imported));
  EXPECT_EQ(first_definition("amem_no_such_symbol"), 0u);
}

TEST(IsInThisLibrary, TellsThisImageFromOthers) {
  EXPECT_TRUE(is_in_this_library(reinterpret_cast<uintptr_t>(&replacement)));
  EXPECT_FALSE(is_in_this_library(first_definition("malloc")));
}

TEST(ImageChanges, CountLoadsAndUnloads) {
  const unsigned long long before = image_changes();
  void* handle = dlopen(AMEM_TEST_LIBRARIES "/libimport_lazy.so", RTLD_LAZY | RTLD_LOCAL);
  EXPECT_EQ(image_changes(), before + 1);
  dlclose(handle);
  EXPECT_EQ(image_changes(), before + 2);
}

}  // namespace
}  // namespace amem
