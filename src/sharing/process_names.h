// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

namespace amem {

/// The processes of this user that have loaded a library whose path contains `library` but do not
/// listen on a socket of amem, for messages: "process 4711 (python3)", separated by commas; of more
/// than eight, those whose numbers are nearest to this one's, "and 3 more". "a process that this
/// one cannot see" if none is found, for example in another pid namespace. `proc` is the mount
/// point of proc(5).
///
/// Reads the maps of every process of the user and connects to every amem process: only for error
/// texts. Thread-safe.
std::string processes_without_amem(const std::string& library, const std::string& proc = "/proc");

/// The process that has bound the Unix socket `name`, in the same form. The first character of an
/// abstract name is '@'.
///
/// Reads the open files of every process of the user: only for error texts. Thread-safe.
std::string process_of_socket(const std::string& name, const std::string& proc = "/proc");

}  // namespace amem
