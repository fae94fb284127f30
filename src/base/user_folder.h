// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

#include <string>

#include "base/result.h"

namespace amem {

/// "/dev/shm/amem-1000": where the amem processes of this user on this host meet.
std::string user_folder();

/// That nobody else may enter the folder. What is in it is then this user's as well: /dev/shm is
/// sticky, so nobody else can replace the folder.
Status check_user_folder();

/// Makes the folder if it does not exist, and checks it.
Status make_user_folder();

}  // namespace amem
