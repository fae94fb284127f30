// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

// The kernel that hashes pages, of which a pause copies those that have changed
// (docs/decisions/0018-retained-copies.md). PTX, like the other kernel (kernels_ptx.h), and a
// module of its own: the driver compiles it only where contents are retained.

/// One block of kKernelThreads threads computes the BLAKE3 hash of kHashedPagesPerBlock pages of
/// kSlotBytes: each thread compresses the 16 blocks of a chunk of 1 KiB, then a part of them
/// the parent nodes.
///
///   pages    the addresses of the pages, multiples of 16; 64-bit entries at an address that is
///            valid on the GPU and the host.
///   hashes   the results, 32 bytes for each page, at such an address, which is a multiple of 16.
///   count    the number of pages, at least 1. Of the last block, threads without a page hash the
///            last one and store nothing.
///
/// Warps take each branch as a whole, because a barrier of sm_60 needs that.
inline constexpr char kHashPagesKernel[] = "amem_hash_pages";
inline constexpr unsigned kHashedPagesPerBlock = 4;

// The function G of BLAKE3 on four words of the state %v, with two words of the message %m.
#define AMEM_ADD(to, with) "add.u32 " to ", " to ", " with ";\n"
#define AMEM_TURN(to, with, bits) \
  "xor.b32 " to ", " to ", " with ";\nshf.r.wrap.b32 " to ", " to ", " to ", " #bits ";\n"
#define AMEM_HALF_G(a, b, c, d, m, turn_d, turn_b) \
  AMEM_ADD("%v" #a, "%v" #b)                       \
  AMEM_ADD("%v" #a, "%m" #m)                       \
  AMEM_TURN("%v" #d, "%v" #a, turn_d) AMEM_ADD("%v" #c, "%v" #d) AMEM_TURN("%v" #b, "%v" #c, turn_b)
#define AMEM_G(a, b, c, d, x, y) AMEM_HALF_G(a, b, c, d, x, 16, 12) AMEM_HALF_G(a, b, c, d, y, 8, 7)
#define AMEM_ROUND(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15) \
  AMEM_G(0, 4, 8, 12, m0, m1)                                                            \
  AMEM_G(1, 5, 9, 13, m2, m3)                                                            \
  AMEM_G(2, 6, 10, 14, m4, m5)                                                           \
  AMEM_G(3, 7, 11, 15, m6, m7)                                                           \
  AMEM_G(0, 5, 10, 15, m8, m9)                                                           \
  AMEM_G(1, 6, 11, 12, m10, m11) AMEM_G(2, 7, 8, 13, m12, m13) AMEM_G(3, 4, 9, 14, m14, m15)

inline constexpr char kHashPtx[] = R"ptx(
.version 6.0
.target sm_60
.address_size 64

.visible .entry amem_hash_pages(.param .u64 pages, .param .u64 hashes, .param .u32 count)
.maxntid 256, 1, 1
{
    .reg .pred %ends, %last, %works, %none;
    .reg .b32 %m<16>, %v<16>, %h<8>, %thread, %warp, %page, %end, %chunk, %flags, %left, %nodes;
    .reg .b64 %from, %node, %level;
    .shared .align 16 .b8 tree[18432];

    mov.u32 %thread, %tid.x;            mov.u32 %page, %ctaid.x;
    and.b32 %warp, %thread, 0xffffffe0;
    shr.u32 %chunk, %thread, 6;         mad.lo.u32 %page, %page, 4, %chunk;
    ld.param.u32 %end, [count];         sub.u32 %end, %end, 1;
    min.u32 %page, %page, %end;
    ld.param.u64 %from, [pages];        mad.wide.u32 %from, %page, 8, %from;
    ld.global.u64 %from, [%from];
    and.b32 %chunk, %thread, 63;        mad.wide.u32 %from, %chunk, 1024, %from;
    mov.u64 %level, tree;               cvta.shared.u64 %level, %level;
    mov.u32 %nodes, 256;                mov.u32 %left, 15;
    mov.u32 %flags, 1;  // CHUNK_START

begin:
    mov.u32 %h0, 0x6a09e667;  mov.u32 %h1, 0xbb67ae85;  mov.u32 %h2, 0x3c6ef372;
    mov.u32 %h3, 0xa54ff53a;  mov.u32 %h4, 0x510e527f;  mov.u32 %h5, 0x9b05688c;
    mov.u32 %h6, 0x1f83d9ab;  mov.u32 %h7, 0x5be0cd19;

    // A block of the chunk in the page, or two nodes of the tree.
compress:
    ld.v4.u32 {%m0, %m1, %m2, %m3}, [%from];    ld.v4.u32 {%m4, %m5, %m6, %m7}, [%from+16];
    ld.v4.u32 {%m8, %m9, %m10, %m11}, [%from+32];
    ld.v4.u32 {%m12, %m13, %m14, %m15}, [%from+48];
    mov.u32 %v0, %h0;  mov.u32 %v1, %h1;  mov.u32 %v2, %h2;  mov.u32 %v3, %h3;
    mov.u32 %v4, %h4;  mov.u32 %v5, %h5;  mov.u32 %v6, %h6;  mov.u32 %v7, %h7;
    mov.u32 %v8, 0x6a09e667;   mov.u32 %v9, 0xbb67ae85;
    mov.u32 %v10, 0x3c6ef372;  mov.u32 %v11, 0xa54ff53a;
    mov.u32 %v12, %chunk;  mov.u32 %v13, 0;  mov.u32 %v14, 64;  mov.u32 %v15, %flags;
)ptx"
    // clang-format off
    AMEM_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    AMEM_ROUND(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
    AMEM_ROUND(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1)
    AMEM_ROUND(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6)
    AMEM_ROUND(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4)
    AMEM_ROUND(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7)
    AMEM_ROUND(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)
    // clang-format on
    R"ptx(
    xor.b32 %h0, %v0, %v8;   xor.b32 %h1, %v1, %v9;   xor.b32 %h2, %v2, %v10;
    xor.b32 %h3, %v3, %v11;  xor.b32 %h4, %v4, %v12;  xor.b32 %h5, %v5, %v13;
    xor.b32 %h6, %v6, %v14;  xor.b32 %h7, %v7, %v15;
    setp.eq.u32 %ends, %left, 0;
    @%ends bra store;
    add.u64 %from, %from, 64;
    sub.u32 %left, %left, 1;
    setp.eq.u32 %last, %left, 0;
    selp.u32 %flags, 2, 0, %last;  // CHUNK_END
    bra compress;

    // Half as many threads as there are nodes go on, each with two of them. A warp computes for all
    // of its threads: the results of those without nodes are not read.
store:
    setp.eq.u32 %ends, %nodes, 4;
    @%ends bra done;
    mad.wide.u32 %node, %thread, 32, %level;
    st.v4.u32 [%node], {%h0, %h1, %h2, %h3};    st.v4.u32 [%node+16], {%h4, %h5, %h6, %h7};
wait:
    bar.sync 0;
    mad.wide.u32 %from, %thread, 64, %level;    mad.wide.u32 %level, %nodes, 32, %level;
    shr.u32 %nodes, %nodes, 1;
    setp.eq.u32 %ends, %nodes, 4;
    selp.u32 %flags, 12, 4, %ends;  // PARENT, and ROOT
    mov.u32 %chunk, 0;
    setp.lt.u32 %works, %warp, %nodes;
    @%works bra begin;
    @!%ends bra wait;

done:
    mov.u32 %page, %ctaid.x;                    mad.lo.u32 %page, %page, 4, %thread;
    setp.gt.u32 %none, %thread, 3;
    @%none bra end;
    setp.gt.u32 %none, %page, %end;
    @%none bra end;
    ld.param.u64 %node, [hashes];               mad.wide.u32 %node, %page, 32, %node;
    st.global.v4.u32 [%node], {%h0, %h1, %h2, %h3};
    st.global.v4.u32 [%node+16], {%h4, %h5, %h6, %h7};
end:
    ret;
}

)ptx";

#undef AMEM_ADD
#undef AMEM_TURN
#undef AMEM_HALF_G
#undef AMEM_G
#undef AMEM_ROUND

}  // namespace amem
