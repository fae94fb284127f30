// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// The processes of this user that have loaded a library whose path contains `library` and do not
/// listen as amem does, for messages: "process 4711 (python3)", several separated by commas. "a
/// process that this one cannot see" if there are none, as when it is in another pid namespace.
/// `proc` is where proc(5) is mounted.
///
/// Reads the maps of every process of the user and connects to every amem process: use it only for
/// error texts. Thread-safe.
std::string processes_without_amem(const std::string& library, const std::string& proc = "/proc");

}  // namespace amem
