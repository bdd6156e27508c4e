// SPDX-License-Identifier: Apache-2.0
// A thread is a team, with its own slice of the workspace.
#pragma once

#include "linalg/spectral/team.h"
#include "linalg/workers_cpu.h"

namespace bk::linalg::spectral {

// Rows that a thread takes together: vectors of 64 bytes, of two for real elements.
template <class E>
constexpr int kRowsOfThread = kIsComplex<E> ? 64 / sizeof(E) : 128 / sizeof(E);

// Steps are compiled for any processor (BK_LINALG_STEP). Their SSE instructions would wait for the upper halves of registers
// after the 256 bits of the code that calls them, which GCC 12 does not always clear: they took up to four times as long.
#if BK_ISA_DISPATCH
__attribute__((target("avx"), noinline)) inline void clear_upper_halves_by_avx() { __builtin_ia32_vzeroupper(); }
#endif
BK_HD void clear_upper_halves() {
#if BK_ISA_DISPATCH
    if (isa() != Isa::kBase) clear_upper_halves_by_avx();
#endif
}

struct MatrixTeam {
    char* lapack_scratch = nullptr;  // if LAPACK decomposes the matrix

    BK_HD static constexpr int rank() { return 0; }
    BK_HD static constexpr int size() { return 1; }
    BK_HD static constexpr int lane() { return 0; }
    BK_HD static constexpr int lanes() { return 1; }
    BK_HD static constexpr int warp() { return 0; }
    BK_HD static constexpr int warps() { return 1; }
    BK_HD void sync() const {}
    BK_HD void sync_lanes() const {}
    template <class E>
    BK_HD E lane_sum(E mine) const {
        return mine;
    }
    template <class E, class Op>
    BK_HD E lane_reduce(E mine, const Op&) const {
        return mine;
    }
    template <class E>
    BK_HD E sum(E mine) const {
        return mine;
    }
    template <class R>
    BK_HD R largest(R mine) const {
        return mine;
    }
};

// Bytes of the workspace that `items` teams with `bytes` of scratch each need.
inline size_t team_workspace(int64_t items, int64_t, const TeamBytes& bytes) {
    const int64_t own = ceil_div<int64_t>(bytes.own, 64) * 64, workers = worker_slots(items);
    Carver carver;
    carver.take<char>(std::max(times(workers, std::max(own, bytes.serial)), bytes.lapack == 0 ? 0 : own + bytes.lapack));
    return carver.bytes();
}

}  // namespace bk::linalg::spectral
