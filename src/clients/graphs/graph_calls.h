// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

/// Intercepts the calls of the CUDA runtime and driver that instantiate, launch and destroy graphs,
/// in all images that call them by name. A launch of a graph with the work of a client passes the
/// client's gate (captured_graphs.h). If that refuses it, the launch returns
/// cudaErrorNotPermitted and amemGetLastError() says why.
///
/// Calls that a program with the static CUDA runtime makes are not seen. Source: CUDA Runtime API
/// and Driver API, Graph Management. Call it before start_interposition().
void catch_graph_calls();

}  // namespace amem
