// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
//
// Built several times, so that the use of imported() becomes each of the relocations that there
// are.
int imported(int x);

#if defined(PROBE_POINTER)
// volatile, or the compiler calls imported() itself; the section is the one that constant pointers
// get.
__attribute__((section(".data.rel.ro"))) int (*volatile pointer_to_imported)(int) = imported;
int use_imported(int x) { return pointer_to_imported(x); }
#else
int use_imported(int x) { return imported(x) + 0; }
#endif
