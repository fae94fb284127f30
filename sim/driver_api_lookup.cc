// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
// Starting, errors by name, and looking functions up.
#include "sim/api.h"
#include "sim/machine.h"
#include "sim/proc_address.h"

using namespace amem::sim;

namespace {

constexpr int kDriverVersion = 13000;

struct ErrorRow {
  int code;
  const char* name;
  const char* text;
};

constexpr ErrorRow kErrors[] = {
#define AMEM_SIM_ERROR(code, name, text) {code, #name, text},
#include "sim/error_names.def"
#undef AMEM_SIM_ERROR
};

const ErrorRow* find_error(int code) {
  for (const ErrorRow& row : kErrors) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

// Not finding a function is no error: the null address and the status say so (measured, driver
// 580). The empty name, with which the CUDA runtime asks whether this is the toolkit's stub
// library, is just another unknown name.
CuResult look_up(const char* name, void** function, int cuda_version, int* status) {
  if (name == nullptr || function == nullptr || cuda_version > kDriverVersion) {
    return kErrorInvalidValue;
  }
  *function = find_entry_point(name, cuda_version, status);
  return kSuccess;
}

}  // namespace

AMEM_SIM_API CuResult cuInit(unsigned flags) {
  return driver_call(Function::cuInit, [&] {
    if (flags != 0 || !fault_environment_understood()) return kErrorInvalidValue;
    const CuResult joined = Machine::join();
    if (joined == kSuccess) set_initialised();
    return joined;
  });
}

AMEM_SIM_API CuResult cuDriverGetVersion(int* version) {
  return driver_call(Function::cuDriverGetVersion, [&] {
    if (version == nullptr) return kErrorInvalidValue;
    *version = kDriverVersion;
    return kSuccess;
  });
}

AMEM_SIM_API CuResult cuGetErrorName(CuResult error, const char** name) {
  return driver_call(Function::cuGetErrorName, [&] {
    if (name == nullptr) return kErrorInvalidValue;
    const ErrorRow* row = find_error(error);
    *name = row == nullptr ? nullptr : row->name;
    return row == nullptr ? kErrorInvalidValue : kSuccess;
  });
}

AMEM_SIM_API CuResult cuGetErrorString(CuResult error, const char** text) {
  return driver_call(Function::cuGetErrorString, [&] {
    if (text == nullptr) return kErrorInvalidValue;
    const ErrorRow* row = find_error(error);
    *text = row == nullptr ? nullptr : row->text;
    return row == nullptr ? kErrorInvalidValue : kSuccess;
  });
}

AMEM_SIM_API CuResult cuGetProcAddress(const char* name, void** function, int cuda_version,
                                       uint64_t) {
  return driver_call(Function::cuGetProcAddress, [&] {
    int status = kProcAddressNotFound;
    const CuResult asked = look_up(name, function, cuda_version, &status);
    // This form has no status to tell it with (CUDA Driver API 11.8, cuGetProcAddress).
    return asked == kSuccess && status != kProcAddressSuccess ? kErrorNotFound : asked;
  });
}

AMEM_SIM_API CuResult cuGetProcAddress_v2(const char* name, void** function, int cuda_version,
                                          uint64_t, int* status) {
  return driver_call(Function::cuGetProcAddress_v2, [&] {
    int found = kProcAddressNotFound;
    const CuResult asked = look_up(name, function, cuda_version, &found);
    if (asked == kSuccess && status != nullptr) *status = found;
    return asked;
  });
}
