// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <map>
#include <vector>

#include "engine/plan.h"
#include "memory/registry.h"

namespace amem {

// Queries of the registry for memory with certain tags. Each takes the registry's mutex.

/// plan.h, applied to the current registry.
std::vector<Step> plan_pause(Registry& registry, const Tags& tags);
std::vector<Step> plan_resume(Registry& registry, const Tags& tags);

/// Memory that is on the GPU and can be released.
struct Releasable {
  size_t objects = 0;
  size_t own_bytes = 0;
};
Releasable releasable(Registry& registry, const Tags& tags);

/// The steps of a plan that concern these tags.
std::vector<Step> of_tags(Registry& registry, const std::vector<Step>& plan, const Tags& tags);

/// The bytes that a plan moves in, by device.
std::map<int, size_t> moved_bytes(Registry& registry, const std::vector<Step>& plan);

}  // namespace amem
