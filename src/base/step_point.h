// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "base/seeded_fault.h"

namespace amem {

enum class StepPoint {
#define AMEM_STEP_POINT(name, role, moment) name,
#include "base/step_points.def"
#undef AMEM_STEP_POINT
};

inline const char* step_point_name(StepPoint point) {
  constexpr const char* kNames[] = {
#define AMEM_STEP_POINT(name, role, moment) #name,
#include "base/step_points.def"
#undef AMEM_STEP_POINT
  };
  return kNames[static_cast<int>(point)];
}

/// Reports that the calling thread has reached this point. Does nothing in the product
/// (base/seeded_fault.h).
inline void step_point(StepPoint point) { seeded_signal(step_point_name(point)); }

}  // namespace amem
