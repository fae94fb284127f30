// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "jobs/ipc_orders.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "amem.h"
#include "jobs/device.h"

namespace jobs {

namespace {

/// cudaIpcMemHandle_t.
struct IpcMemHandle {
  unsigned char bytes[64];
};

template <typename Function>
Function* runtime_function(const char* name) {
  const char* const path = getenv("AMEM_TEST_CUDART");
  void* const library = dlopen(path != nullptr ? path : "libcudart.so.12", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(std::string("no CUDA runtime with ") + name);
  return reinterpret_cast<Function*>(found);
}

void check_runtime(int result, const char* call) {
  if (result != 0)
    throw std::runtime_error(std::string(call) + " returned " + std::to_string(result) + ": " +
                             amemGetLastError());
}

Address address_in(Words& words) {
  Address address = 0;
  words >> address;
  return address;
}

/// ipc_export ADDRESS: the handle, in hexadecimal digits
std::string export_memory(Words& words) {
  IpcMemHandle handle{};
  const auto call = runtime_function<int(IpcMemHandle*, void*)>("cudaIpcGetMemHandle");
  check_runtime(call(&handle, reinterpret_cast<void*>(address_in(words))), "cudaIpcGetMemHandle");
  std::string digits;
  for (const unsigned char byte : handle.bytes) {
    char text[3];
    snprintf(text, sizeof text, "%02x", byte);
    digits += text;
  }
  return digits;
}

/// ipc_open HANDLE: the address
std::string open_memory(Words& words) {
  std::string digits;
  words >> digits;
  IpcMemHandle handle{};
  for (size_t i = 0; i < sizeof handle.bytes; ++i)
    handle.bytes[i] = static_cast<unsigned char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  void* pointer = nullptr;
  const auto call = runtime_function<int(void**, IpcMemHandle, unsigned)>("cudaIpcOpenMemHandle");
  check_runtime(call(&pointer, handle, 1), "cudaIpcOpenMemHandle");
  return std::to_string(reinterpret_cast<Address>(pointer));
}

/// ipc_close ADDRESS
std::string close_memory(Words& words) {
  const auto call = runtime_function<int(void*)>("cudaIpcCloseMemHandle");
  check_runtime(call(reinterpret_cast<void*>(address_in(words))), "cudaIpcCloseMemHandle");
  return "";
}

/// word_write ADDRESS VALUE
std::string write_word(Words& words) {
  const Address address = address_in(words);
  unsigned value = 0;
  words >> value;
  JOB_CUDA(to_device(address, &value, sizeof value));
  // The copy of pageable memory may return before the data are there (CUDA Driver API, "API
  // synchronization behavior"), and another process reads them next.
  JOB_CUDA(stream_synchronize(nullptr));
  return "";
}

/// word_read ADDRESS
std::string read_word(Words& words) {
  unsigned value = 0;
  JOB_CUDA(to_host(&value, address_in(words), sizeof value));
  return std::to_string(value);
}

}  // namespace

Orders ipc_orders() {
  return {{"ipc_export", export_memory},
          {"ipc_open", open_memory},
          {"ipc_close", close_memory},
          {"word_write", write_word},
          {"word_read", read_word}};
}

}  // namespace jobs
