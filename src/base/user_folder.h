// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace amem {

/// "/dev/shm/amem-1000": where the amem processes of this user on this host meet.
std::string user_folder();

/// Succeeds if only this user may enter the folder. Its contents are then this user's too: /dev/shm
/// is sticky, so other users cannot replace the folder.
Status check_user_folder();

/// Makes the folder if it does not exist, and checks it.
Status make_user_folder();

/// Opens a file of the folder that this user's processes share. Makes it, and the folder, if
/// necessary. Errors: os.
Result<UniqueFd> open_user_file(const std::string& name);

}  // namespace amem
