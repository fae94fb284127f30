// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem::symmetric {

/// The texts of kernels.ptx and multimem.ptx, for cuModuleLoadData().
const char* symmetric_kernels_ptx();
const char* multimem_kernels_ptx();

}  // namespace amem::symmetric
