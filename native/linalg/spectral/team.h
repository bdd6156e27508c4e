// SPDX-License-Identifier: Apache-2.0
// Teams that share a matrix: on a GPU a thread for tiny matrices, else a block of one warp or several; on the CPU a thread.
//
// Rows belong to threads by their index, for_rows(); columns to warps, whose lanes share their rows, for_columns(). Scratch
// is shared memory where it fits, else a slice of the workspace; matrices in it are column-major. What one thread writes
// another sees after sync(), which all threads of a team call alike.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/require_workspace.h"
#include "core/abi/workspace.h"
#include "linalg/sizes.h"
#include "linalg/spectral/element.h"
#include "linalg/target.h"

namespace bk::linalg::spectral {

// Measures and carves a team's scratch; each array is aligned to 64 bytes on the CPU and to 16 on a GPU.
class Scratch {
public:
    static constexpr int64_t kAlignment = BK_CUDA ? 16 : 64;

    BK_HD explicit Scratch(void* base) : base_(static_cast<char*>(base)) {}

    template <class E>
    BK_HD E* take(int64_t count) {
        char* const at = base_ + used_;
        used_ += (times(count, sizeof(E)) + kAlignment - 1) / kAlignment * kAlignment;
        return reinterpret_cast<E*>(at);
    }
    BK_HD int64_t bytes() const { return used_; }

private:
    char* base_;
    int64_t used_ = 0;
};

// Bytes of a team's scratch, of LAPACK's behind it, and of both for the largest matrices that are a thread's
// (linalg/lapack/spectral.h). On a GPU `together` is how many matrices all blocks work on at once, or 0 for a team for each
// (linalg/jacobi/decompose_cuda.cuh); `drivers` has bytes for each of these.
struct TeamBytes {
    int64_t own, lapack = 0, serial = 0, together = 0, drivers = 0;
};

#if BK_CUDA
constexpr int kTeamColumns = 128;  // matrices up to here are a team's
#else
constexpr int kTeamColumns = INT32_MAX;
#endif

}  // namespace bk::linalg::spectral

#if BK_CUDA
#include "linalg/spectral/team_cuda.cuh"
#else
#include "linalg/spectral/team_cpu.h"
#endif

namespace bk::linalg::spectral {

// job(team, scratch, item) for each item in [0, items), each with `bytes` of scratch. `extent`, that of the matrices, chooses
// the team. run_cuda.cuh and run_cpu.h define it.
template <class Job>
Status run_matrix_teams(const Launch& launch, int64_t items, int64_t extent, const TeamBytes& bytes, const Job& job);

// Elements from one column of a matrix in scratch to the next: whole vectors on the CPU, odd on a GPU, whose banks differ
// then.
template <class E>
BK_HD int64_t pitch_of(int64_t rows) {
    if (kRowsOfThread<E> == 1) return rows | 1;
    return (rows + kRowsOfThread<E> - 1) / kRowsOfThread<E> * kRowsOfThread<E>;
}

// body(first, rows) for the rows [begin, end) of this thread, in groups of kRowsOfThread<E> or of one. `rows` is a
// std::integral_constant.
template <class E, class Body>
BK_HD void for_rows(const MatrixTeam& team, int begin, int end, const Body& body) {
    constexpr int kGroup = kRowsOfThread<E>;
    int row = begin + ((team.rank() - begin) & (team.size() - 1));
    if constexpr (kGroup > 1) {
        for (; row + kGroup <= end; row += kGroup) body(row, std::integral_constant<int, kGroup>{});
        // Groups of a quarter, or the last rows one by one.
        for (; row + kGroup / 4 <= end; row += kGroup / 4) body(row, std::integral_constant<int, kGroup / 4>{});
    }
    for (; row < end; row += team.size()) body(row, std::integral_constant<int, 1>{});
}

// Rows that are a vector on the CPU.
template <class E>
constexpr int kRowsOfVector = kRowsOfThread<E> < 4 ? 1 : kRowsOfThread<E> / 4;

// for_rows() in whole vectors of the CPU, whatever the extents: the first may begin in front of `begin`, and the last ends in
// the padding of pitch_of(). Results of these other rows are not used.
template <class E, class Body>
BK_HD void for_padded_rows(const MatrixTeam& team, int begin, int end, const Body& body) {
    constexpr int kGroup = kRowsOfThread<E>, kVector = kRowsOfVector<E>;
    if constexpr (kVector == 1) {
        for_rows<E>(team, begin, end, body);
    } else {
        const int last = (end + kVector - 1) / kVector * kVector;
        int row = begin / kVector * kVector;
        for (; row + kGroup <= last; row += kGroup) body(row, std::integral_constant<int, kGroup>{});
        for (; row < last; row += kVector) body(row, std::integral_constant<int, kVector>{});
    }
}

// Zeros for the padding that for_padded_rows() computes with: no subnormal numbers of stale memory, which are slow.
template <class E>
BK_HD void clear_padding(E* a, int64_t pitch, int rows, int columns) {
    if constexpr (kRowsOfVector<E> > 1) {
        const int last = (rows + kRowsOfVector<E> - 1) / kRowsOfVector<E> * kRowsOfVector<E>;
        for (int j = 0; j < columns; ++j)
            for (int i = rows; i < last; ++i) a[i + j * pitch] = element_of<E>(0);
    }
}

// body(row) for the rows of this thread.
template <class Body>
BK_HD void for_own(const MatrixTeam& team, int begin, int end, const Body& body) {
    for (int row = begin + ((team.rank() - begin) & (team.size() - 1)); row < end; row += team.size()) body(row);
}

// body(column) for the columns of this thread's warp.
template <class Body>
BK_HD void for_columns(const MatrixTeam& team, int begin, int end, const Body& body) {
    for (int column = begin + team.warp(); column < end; column += team.warps()) body(column);
}

// y[i] = f(i) style loops over the rows of a column, shared by the lanes.
template <class Body>
BK_HD void for_lanes(const MatrixTeam& team, int begin, int end, const Body& body) {
    for (int row = begin + team.lane(); row < end; row += team.lanes()) body(row);
}

// The sum of term(i) over groups of kGroup from `row` on, which moves behind the last whole one.
template <class E, int kGroup, class Term>
BK_HD E group_total(int& row, int end, const Term& term) {
    if (end - row < kGroup) return element_of<E>(0);
    E partial[kGroup];
    for (int k = 0; k < kGroup; ++k) partial[k] = term(row + k);
    for (row += kGroup; row + kGroup <= end; row += kGroup)
        for (int k = 0; k < kGroup; ++k) partial[k] += term(row + k);
    for (int half = kGroup / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) partial[k] += partial[k + half];
    return partial[0];
}

// The sum of term(i) over [begin, end), which the lanes of a warp share; equal in all lanes.
template <class E, class Term>
BK_HD E lane_total(const MatrixTeam& team, int begin, int end, const Term& term) {
    constexpr int kGroup = kRowsOfThread<E>, kVector = kRowsOfVector<E>;
    E total = element_of<E>(0);
    int row = begin + team.lane();
    if constexpr (kGroup > 1) total = group_total<E, kGroup>(row, end, term);
    if constexpr (kVector > 1) total += group_total<E, kVector>(row, end, term);
    for (; row < end; row += team.lanes()) total += term(row);
    return team.lane_sum(total);
}

}  // namespace bk::linalg::spectral
