// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "memory/client.h"
#include "memory/registry.h"

namespace amem {

/// The tag of symmetric memory.
inline constexpr char kSymmetricTag[] = "symmetric";

/// Symmetric memory of PyTorch (torch.distributed._symmetric_memory): memory that all ranks of a
/// group map. torch_calls.h records it. Its contents are kept. This client cannot stop the kernels
/// that use the memory: no rank may use it while a rank is paused.
class SymmetricClient final : public Client {
 public:
  explicit SymmetricClient(Registry& registry) : registry_(registry) {}

  bool owns(const Tag& tag) const override { return tag == kSymmetricTag; }
  /// Nothing before the process has such memory.
  Tags tags() const override {
    MutexLock lock(registry_.mutex);
    for (const auto& [id, backing] : registry_.backings())
      if (owns(backing.tag)) return {kSymmetricTag};
    return {};
  }

 private:
  Registry& registry_;
};

}  // namespace amem
