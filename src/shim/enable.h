// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Is amem enabled in this process: by AMEM_ENABLE=1, or by amemEnable()?
bool is_enabled();

}  // namespace amem
