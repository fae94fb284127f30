// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// What a profiler is to NVTX: loaded by NVTX_INJECTION64_PATH, writes "DOMAIN begin|end RANGE" to
// the file that AMEM_TEST_NVTX_FILE names, a line each.
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

thread_local std::vector<std::string> t_open;

void write_line(const char* domain, const char* what, const std::string& range) {
  static const int file = open(getenv("AMEM_TEST_NVTX_FILE"), O_WRONLY | O_APPEND | O_CLOEXEC);
  const std::string line = std::string(domain) + " " + what + " " + range + "\n";
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
}

nvtxDomainHandle_t create_domain(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(strdup(name));
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  // NCCL's own ranges are there too; they name registered strings.
  const bool has_text = event->messageType == NVTX_MESSAGE_TYPE_ASCII;
  t_open.emplace_back(has_text ? event->message.ascii : "?");
  write_line(reinterpret_cast<const char*>(domain), "begin", t_open.back());
  return static_cast<int>(t_open.size()) - 1;
}

int pop(nvtxDomainHandle_t domain) {
  write_line(reinterpret_cast<const char*>(domain), "end", t_open.back());
  t_open.pop_back();
  return static_cast<int>(t_open.size());
}

template <typename Function>
void answer(NvtxFunctionTable table, int index, Function* function) {
  *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  answer(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  answer(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  answer(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
