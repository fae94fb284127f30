// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#pragma once

namespace amem {

// The kernel that finds pages which need no copy. PTX, because it needs no compiler when amem is
// built, and runs on every GPU from sm_60 on: the driver compiles it when it is loaded.

/// One block of kKernelThreads threads examines one page of kSlotBytes. The number of
/// the block is the index of an entry of the table:
///
///   table    one 64-bit entry for each page, at an address that is valid on the GPU and the host.
///            Before: the address of the page, a multiple of 16. After: 0 if all bytes of the page
///            are 0, otherwise unchanged.
///
/// If the kernel did not run, no page is reported as zero. A block stops after the first 16 KiB
/// that are not zero, so that it reads little of memory with contents.
inline constexpr char kZeroPagesKernel[] = "amem_zero_pages";
inline constexpr unsigned kKernelThreads = 256;

inline constexpr char kKernelsPtx[] = R"ptx(
.version 6.0
.target sm_60
.address_size 64

.visible .entry amem_zero_pages(.param .u64 table)
{
    .reg .pred %not_first, %not_zero, %more;
    .reg .b32 %thread, %block, %round, %any, %w<16>;
    .reg .b64 %entry, %page, %zero;
    .shared .align 8 .b64 address;

    mov.u32 %thread, %tid.x;
    mov.u32 %block, %ctaid.x;
    ld.param.u64 %entry, [table];
    mad.wide.u32 %entry, %block, 8, %entry;

    // The table is in host memory, so one thread reads the entry for all.
    setp.ne.u32 %not_first, %thread, 0;
    @%not_first bra known;
    ld.global.u64 %page, [%entry];
    st.shared.u64 [address], %page;
known:
    bar.sync 0;
    ld.shared.u64 %page, [address];
    mad.wide.u32 %page, %thread, 16, %page;
    mov.u32 %round, 0;

    // 256 threads; each loads 16 bytes four times, 4 KiB apart.
look:
    ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%page];
    ld.global.v4.u32 {%w4, %w5, %w6, %w7}, [%page+4096];
    ld.global.v4.u32 {%w8, %w9, %w10, %w11}, [%page+8192];
    ld.global.v4.u32 {%w12, %w13, %w14, %w15}, [%page+12288];
    or.b32 %w0, %w0, %w1;
    or.b32 %w2, %w2, %w3;
    or.b32 %w4, %w4, %w5;
    or.b32 %w6, %w6, %w7;
    or.b32 %w8, %w8, %w9;
    or.b32 %w10, %w10, %w11;
    or.b32 %w12, %w12, %w13;
    or.b32 %w14, %w14, %w15;
    or.b32 %w0, %w0, %w2;
    or.b32 %w4, %w4, %w6;
    or.b32 %w8, %w8, %w10;
    or.b32 %w12, %w12, %w14;
    or.b32 %w0, %w0, %w4;
    or.b32 %w8, %w8, %w12;
    or.b32 %any, %w0, %w8;
    setp.ne.u32 %not_zero, %any, 0;
    bar.red.or.pred %not_zero, 0, %not_zero;
    @%not_zero bra done;
    add.u64 %page, %page, 16384;
    add.u32 %round, %round, 1;
    setp.lt.u32 %more, %round, 4;
    @%more bra look;

    @%not_first bra done;
    mov.u64 %zero, 0;
    st.global.u64 [%entry], %zero;
done:
    ret;
}

)ptx";

}  // namespace amem
