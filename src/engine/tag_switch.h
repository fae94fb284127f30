// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include "engine/session.h"

namespace amem {

/// Pauses and resumes other tags at the same time: memory that leaves makes room for memory that
/// comes. Returns the error of the pause, with which the resume stops waiting, or else that of the
/// resume. Errors: also misuse, if one of the selections has no tag, or both have one in common.
Status switch_tags(Session& session, const Selection& paused, const Selection& resumed);

}  // namespace amem
