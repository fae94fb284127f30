// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <dlfcn.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <set>
#include <string>

#include "amem_nccl_abi.h"
#include "interpose/relocation_types.h"

/// What an interposer relies on in the stock library (nccl-memory 0.8, 1.4) and finds in this one.
namespace amem::minccl {
namespace {

const link_map* loaded_nccl() {
  Dl_info info{};
  link_map* map = nullptr;
  void* address = dlsym(RTLD_DEFAULT, "mincclFindConnection");
  if (address == nullptr ||
      dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return nullptr;
  return map;
}

ElfW(Addr) dynamic_value(const link_map* map, ElfW(Sxword) tag) {
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == tag) return entry->d_un.d_ptr;
  return 0;
}

std::set<std::string> jump_slots(const link_map* map) {
  auto* slots = reinterpret_cast<const ElfW(Rela)*>(dynamic_value(map, DT_JMPREL));
  auto* symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic_value(map, DT_SYMTAB));
  auto* names = reinterpret_cast<const char*>(dynamic_value(map, DT_STRTAB));
  std::set<std::string> found;
  for (size_t i = 0; i < dynamic_value(map, DT_PLTRELSZ) / sizeof *slots; ++i)
    if (ELF64_R_TYPE(slots[i].r_info) == kRelocations.jump_slot)
      found.insert(names + symbols[ELF64_R_SYM(slots[i].r_info)].st_name);
  return found;
}

TEST(Linkage, CallsDlsymAndItsOwnFunctionsThroughThePlt) {
  const link_map* map = loaded_nccl();
  ASSERT_NE(map, nullptr);

  std::set<std::string> slots = jump_slots(map);

  for (const char* name :
       {"dlsym", "dlopen", "ncclMemAlloc", "ncclMemFree", "ncclGetUniqueId", "ncclGetVersion"})
    EXPECT_TRUE(slots.contains(name)) << name;
}

TEST(Linkage, IsNeitherSymbolicNorBoundAtLoad) {
  const link_map* map = loaded_nccl();
  ASSERT_NE(map, nullptr);

  EXPECT_EQ(dynamic_value(map, DT_SYMBOLIC), 0u);
  EXPECT_EQ(dynamic_value(map, DT_FLAGS) & (DF_SYMBOLIC | DF_BIND_NOW), 0u);
  EXPECT_EQ(dynamic_value(map, DT_FLAGS_1) & DF_1_NOW, 0u);
}

TEST(Linkage, HasAStrongAliasOfEveryFunction) {
  for (const char* name : {"ncclAllReduce", "ncclAlltoAll", "ncclCommInitRankScalable",
                           "ncclCommRegister", "ncclCommSplit", "ncclMemAlloc", "ncclGroupEnd"}) {
    void* plain = dlsym(RTLD_DEFAULT, name);
    ASSERT_NE(plain, nullptr) << name;
    EXPECT_EQ(plain, dlsym(RTLD_DEFAULT, (std::string("p") + name).c_str())) << name;
  }
}

TEST(Linkage, LeavesTheDriverAloneUntilItIsNeeded) {
  int version = 0;
  ncclUniqueId id{};

  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);

  EXPECT_EQ(version, 22809);
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace amem::minccl
