// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "base/nvtx_range.h"

#if AMEM_NVTX

#include <nvtx3/nvToolsExt.h>

namespace amem {
namespace {

nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t const handle = nvtxDomainCreateA("amem");
  return handle;
}

}  // namespace

NvtxRange::NvtxRange(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

NvtxRange::~NvtxRange() { nvtxDomainRangePop(domain()); }

}  // namespace amem

#else

namespace amem {
NvtxRange::NvtxRange(const char*) {}
NvtxRange::~NvtxRange() {
  // Nothing to do without NVTX.
}
}  // namespace amem

#endif
