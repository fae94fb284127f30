// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include <amem/groups.hpp>
#include <cstdio>

/// Without AMEM_ENABLE=1, amem is inactive.
int main() {
  void* buffer = nullptr;
  const int result = amemSymmetricMalloc(&buffer, 4096);
  std::printf("%d %zu %s\n", result, amemSymmetricGetSignalPadSize(), amemGetLastError());
}
