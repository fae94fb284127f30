// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "clients/nccl/driver_calls/registrations.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "clients/nccl/driver_calls/entry_points.h"
#include "interpose/interposer.h"
#include "interpose/real_functions.h"
#include "memory/registered_range.h"

namespace amem {
namespace {

constexpr char kNic[] = "registered with a NIC";
constexpr char kGdrcopy[] = "mapped for the CPU (gdrcopy)";

using Word = uintptr_t;

// Most functions begin with an object, the address and the size. They have up to nine parameters of
// one word each: the first six are in registers, the others on the stack (System V ABI, AMD64,
// 3.2.3), where words that a caller has not passed are read and ignored.
using Register = Word(Word object, Word address, Word size, Word, Word, Word, Word, Word, Word);

// --- Functions

enum Parameters {
  kAddressAndSize,     ///< object, address, size
  kOffsetAndSize,      ///< object, offset, size, address
  kHandleOfTheDriver,  ///< object, handle: the caller has it from cuMemRetainAllocationHandle()
};
/// libibverbs verbs.h (rdma-core 44), gdrapi.h (gdrcopy 2.4), CUDA Driver API (exports).
struct Function {
  const char* name;
  bool returns_object;  ///< nullptr: failed; otherwise an int, 0: succeeded
  const char* because;
  Parameters parameters = kAddressAndSize;
};
constexpr Function kFunctions[] = {
    {"ibv_reg_mr", true, kNic},
    {"ibv_reg_mr_iova", true, kNic},
    {"ibv_reg_mr_iova2", true, kNic},
    {"gdr_pin_buffer", false, kGdrcopy},
    {"gdr_pin_buffer_v2", false, kGdrcopy},
    {"cuMemGetHandleForAddressRange", false, "exported as a dma-buf"},
    {"ibv_reg_dmabuf_mr", true, kNic, kOffsetAndSize},
    {"cuMemExportToShareableHandle", false, "exported by the application", kHandleOfTheDriver},
};
constexpr auto kFunctionNames = names_of(kFunctions);
/// NCCL looks its functions up itself, and may have another library than the rest of the process.
constinit RealFunctions<kFunctionNames.size()> g_real_of_nccl(kFunctionNames);
constinit RealFunctions<kFunctionNames.size()> g_real_of_others(kFunctionNames);

template <auto& kReal, size_t kRow>
Word hooked_function(Word object, Word address, Word size, Word d, Word e, Word f, Word g, Word h,
                     Word i) {
  constexpr Function kFunction = kFunctions[kRow];
  if constexpr (kFunction.parameters == kHandleOfTheDriver)
    if (is_our_handle(address))  // of a library whose calls are hooked, such as PyTorch
      return static_cast<Word>(
          Entry<&Driver::cuMemExportToShareableHandle, hooks::cuMemExportToShareableHandle>::call(
              reinterpret_cast<void*>(object), address, static_cast<int>(size), d));
  // A process that is not built has no memory of amem.
  VirtualMemory* const memory = built<VirtualMemory>();
  RegisteredRange range =
      kFunction.parameters == kHandleOfTheDriver
          ? RegisteredRange(memory, address)
          : RegisteredRange(memory, kFunction.parameters == kOffsetAndSize ? d : address, size);
  const Word result = kReal.template call<0, Word>(kRow, object, address, size, d, e, f, g, h, i);
  const bool failed = kFunction.returns_object ? result == 0 : static_cast<int>(result) != 0;
  if (!failed) range.keep(kFunction.because);
  return result;
}

template <auto& kReal>
constexpr auto kHooked = []<size_t kRow, size_t>() { return hooked_function<kReal, kRow>; };

/// The row of the function; the number of rows for other names.
size_t row_of(const char* name) {
  const auto* const found = std::find_if(kFunctionNames.begin(), kFunctionNames.end(),
                                         [&](const char* each) { return strcmp(each, name) == 0; });
  return static_cast<size_t>(found - kFunctionNames.begin());
}

/// For the images other than NCCL. A second definition of a function is not intercepted.
constinit NamedFunctions g_registrations{kFunctionNames,
                                         entry_of<g_real_of_others, kHooked<g_real_of_others>>};

// --- Tables of plugins

/// Tables of one kind and these versions. Their first member is the name, all others are functions.
struct Layout {
  const char* prefix;
  int first_version, last_version;
  size_t members;
  size_t register_at;        ///< regMr, or regMrSym
  bool has_dma_buf;          ///< the next member is regMrDmaBuf, or regMrSymDmaBuf
  bool size_is_int = false;  ///< the third parameter of regMr
};

// NCCL 2.19 to 2.32: src/include/nccl_net.h@v2.19.3-1 (v5 to v7), src/include/plugin/net/net_v*.h,
// gin/gin_v*.h and rma/rma_v*.h@v2.30.7-1, plugins/gin/example/nccl/gin_v1[12].h@v2.30.7-1;
// rma/rma_v15.h@c1bc9013 and rma_v16.h@14c81c37, as getNcclRma_v15() of the library 2.32.3 reads
// them.
constexpr Layout kLayouts[] = {
    {"ncclNetPlugin_v", 5, 5, 16, 7, false, true},
    {"ncclNetPlugin_v", 6, 6, 17, 7, true, true},
    {"ncclNetPlugin_v", 7, 7, 19, 7, true, true},
    {"ncclNetPlugin_v", 8, 8, 19, 7, true},
    {"ncclNetPlugin_v", 9, 10, 20, 7, true},
    {"ncclNetPlugin_v", 11, 12, 22, 7, true},
    {"ncclCollNetPlugin_v", 5, 5, 14, 7, false, true},
    {"ncclCollNetPlugin_v", 6, 7, 15, 7, true, true},
    {"ncclCollNetPlugin_v", 8, 8, 17, 7, true},
    {"ncclCollNetPlugin_v", 9, 10, 18, 7, true},
    {"ncclCollNetPlugin_v", 11, 12, 19, 7, true},
    {"ncclGinPlugin_v", 11, 12, 19, 7, true},
    {"ncclGinPlugin_v", 13, 13, 21, 7, true},
    {"ncclGinPlugin_v", 14, 14, 17, 8, true},
    {"ncclRmaPlugin_v", 13, 15, 21, 7, true},
    {"ncclRmaPlugin_v", 16, 16, 22, 8, true},
};
constexpr size_t kMaxMembers = 22;
constexpr size_t kMaxTables = 32;

/// A table of a plugin and its copy, which NCCL gets. Never removed.
struct Table {
  const void* original = nullptr;
  const Layout* layout = nullptr;
  std::array<Word, kMaxMembers> real{};
  std::array<Word, kMaxMembers> copy{};
};

Mutex g_mutex;
std::array<Table, kMaxTables> g_tables AMEM_GUARDED_BY(g_mutex);

/// The version in the name of a table of this kind; -1 for other names.
int version_of(const char* name, const char* prefix) {
  const size_t length = strlen(prefix);
  if (strncmp(name, prefix, length) != 0 || name[length] == '\0') return -1;
  char* end = nullptr;
  const long version = strtol(name + length, &end, 10);
  return *end == '\0' && version >= 0 && version < 1000 ? static_cast<int>(version) : -1;
}

// Written before NCCL gets the copy, constant afterwards.
template <size_t kTable, size_t kOffset>
AMEM_NOT_ANALYSED Word hooked_register(Word comm, Word address, Word size, Word d, Word e, Word f,
                                       Word g, Word h, Word i) {
  const Table& table = g_tables[kTable];
  const Word real = table.real[table.layout->register_at + kOffset];
  const bool is_int = kOffset == 0 && table.layout->size_is_int;
  RegisteredRange range(built<VirtualMemory>(), address,
                        is_int ? static_cast<uint32_t>(size) : size);
  const Word result = reinterpret_cast<Register*>(real)(comm, address, size, d, e, f, g, h, i);
  if (static_cast<int>(result) == 0) range.keep(kNic);
  return result;
}

template <size_t kOffset, size_t... kTables>
Word hook_of(size_t table, std::index_sequence<kTables...>) {
  constexpr Register* kByTable[] = {&hooked_register<kTables, kOffset>...};
  return reinterpret_cast<Word>(kByTable[table]);
}

void fill(Table& table, size_t index) {
  const Layout& layout = *table.layout;
  memcpy(table.real.data(), table.original, layout.members * sizeof(Word));
  table.copy = table.real;
  constexpr auto kAll = std::make_index_sequence<kMaxTables>();
  const auto replace = [&](size_t member, Word hook) {
    // A plugin may leave out what its NIC cannot do.
    if (table.real[member] != 0) table.copy[member] = hook;
  };
  replace(layout.register_at, hook_of<0>(index, kAll));
  if (layout.has_dma_buf) replace(layout.register_at + 1, hook_of<1>(index, kAll));
}

void* table_hook(const char* name, void* table) {
  const auto* const layout =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const Layout& each) {
        const int version = version_of(name, each.prefix);
        return version >= each.first_version && version <= each.last_version;
      });
  if (layout == std::end(kLayouts)) {
    built<VirtualMemory>()->refuse_pauses(
        std::string("a network plugin has a table ") + name +
        ", which this version of amem does not know: memory that the plugin registers must not be "
        "released");
    return table;
  }
  MutexLock lock(g_mutex);
  for (size_t i = 0; i < g_tables.size(); ++i) {
    Table& each = g_tables[i];
    if (each.original == nullptr) {
      each.original = table;
      each.layout = layout;
      fill(each, i);
    }
    if (each.original == table && each.layout == layout) return each.copy.data();
  }
  built<VirtualMemory>()->refuse_pauses(
      "the process uses more network plugins than amem can follow");
  return table;
}

}  // namespace

bool registers_memory(const char* name) {
  return row_of(name) < kFunctionNames.size() ||
         std::any_of(std::begin(kLayouts), std::end(kLayouts),
                     [&](const Layout& layout) { return version_of(name, layout.prefix) >= 0; });
}

void* registration_hook(const char* name, void* real) {
  const size_t row = row_of(name);
  if (row == kFunctionNames.size()) return table_hook(name, real);
  g_real_of_nccl.set(row, reinterpret_cast<Word>(real));
  return const_cast<void*>(entry_of<g_real_of_nccl, kHooked<g_real_of_nccl>>(row, 0));
}

void catch_registrations() { intercept_names(g_registrations); }

}  // namespace amem
