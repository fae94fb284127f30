// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// The interception in this process, as JSON: {"nccl": [{"path", "refusal", "calls":
/// {"ncclGetUniqueId": 1}}], "slots": [{"path", "symbol", "count"}]}, with the doors that were
/// called and the slots of other images that lead to amem.
std::string interposition_json();

}  // namespace amem
