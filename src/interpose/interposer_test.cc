// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Interception in processes of its own: it lasts as long as a process.
#include "interpose/interposer.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>

#include "tests/slowdown.h"

namespace amem {
namespace {

const std::string kProbe = AMEM_TEST_LIBRARIES "/libimport_now.so";

/// The exit status of a fork of this process that runs `body`.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A client without targets.
const Interception kClient{[](const Image&) { return Interception::Adoption::none; },
                           [](uintptr_t) -> const void* { return nullptr; },
                           [] {},
                           [](const char*) {},
                           [](const char*) { return false; },
                           [](void*, const char*) -> void* { return nullptr; }};

int replacement(int x) { return x + 1000; }

TEST(InterceptNames, ServesAnyNumberOfThem) {
  constexpr size_t kMany = 20;
  static std::array<NamedFunctions, kMany> functions;
  static std::array<std::string, kMany> texts;
  static std::array<const char*, kMany> names;
  for (size_t i = 0; i < kMany; ++i) {
    texts[i] = i + 1 < kMany ? "amem_no_such_" + std::to_string(i) : "imported";
    names[i] = texts[i].c_str();
    functions[i].names = {&names[i], 1};
    functions[i].entry = [](size_t, uintptr_t, const Image*) {
      return reinterpret_cast<const void*>(&replacement);
    };
  }
  EXPECT_EQ(in_child([] {
              for (int time = 0; time < 2; ++time)
                for (NamedFunctions& each : functions) intercept_names(each);
              start_interposition(kClient);
              void* const probe = dlopen(kProbe.c_str(), RTLD_NOW);
              scan_images();
              const auto use = reinterpret_cast<int (*)(int)>(dlsym(probe, "use_imported"));
              return use(1) == 1001 ? 0 : 1;
            }),
            0);
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST(ScanImages, CostsLittleBesideTheLoaderWithManyLibraries) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer makes the scans slower, and not the loader";
  constexpr int kLibraries = 1500;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("amem-images-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto path_of = [&](int number) {
    return (folder / ("lib" + std::to_string(number) + ".so")).string();
  };
  for (int i = 0; i < kLibraries; ++i) std::filesystem::copy_file(kProbe, path_of(i));
  const int status = in_child([&] {
    start_interposition(kClient);
    double loader = 0, scans = 0;
    for (int i = 0; i < kLibraries; ++i) {
      const double begin = cpu_seconds();
      if (dlopen(path_of(i).c_str(), RTLD_LAZY) == nullptr) return 2;
      const double loaded = cpu_seconds();
      scan_images();
      loader += loaded - begin;
      scans += cpu_seconds() - loaded;
    }
    printf("%d libraries: loader %.3f s, scans %.3f s\n", kLibraries, loader, scans);
    fflush(stdout);
    return scans < 3 * loader + 0.1 ? 0 : 1;
  });
  std::filesystem::remove_all(folder);
  EXPECT_EQ(status, 0);
}

// Scans know an image by its place. A library that is closed moves the others.
TEST(ScanImages, SeesALibraryThatTakesThePlaceOfAnother) {
  static constexpr const char* kNames[] = {"imported"};
  static NamedFunctions functions;
  functions.names = kNames;
  functions.entry = [](size_t, uintptr_t, const Image*) {
    return reinterpret_cast<const void*>(&replacement);
  };
  EXPECT_EQ(in_child([] {
              intercept_names(functions);
              start_interposition(kClient);
              const std::string first = AMEM_TEST_LIBRARIES "/libimport_lazy.so";
              for (int time = 0; time < 3; ++time) {
                void* const other = dlopen(first.c_str(), RTLD_LAZY);
                scan_images();
                void* const probe = dlopen(kProbe.c_str(), RTLD_NOW);
                scan_images();
                const auto use = reinterpret_cast<int (*)(int)>(dlsym(probe, "use_imported"));
                if (use(1) != 1001) return 1;
                dlclose(other);
                dlclose(probe);
                void* const again = dlopen(kProbe.c_str(), RTLD_NOW);
                scan_images();
                const auto use_again = reinterpret_cast<int (*)(int)>(dlsym(again, "use_imported"));
                if (use_again(1) != 1001) return 2;
                dlclose(again);
              }
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace amem
