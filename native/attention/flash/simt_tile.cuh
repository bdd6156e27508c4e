// SPDX-License-Identifier: Apache-2.0
// Tiles of fused attention on FMA: the two products that all its kernels are made of. A block has 128 threads, 8 teams of
// 16 lanes; a team owns kRows rows of a tile and a lane four of its 64 columns, so that each operand of a product is a
// vector in registers and a product of vectors feeds 4 kRows FMAs. Operands arrive by chunks of 16, double-buffered in
// shared memory, through registers: that way 16-bit elements are widened, transposed and zero-filled on the way.
//
// Any head dimension and any strides are served; rows are found by address, which serves pages and packed sequences.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/platform.h"
#include "core/types/dtype.h"
#include "core/types/vec.h"

namespace bk::attention_simt {

constexpr int kThreads = 128, kLanes = 16, kTeams = kThreads / kLanes;
constexpr int kColumns = 64, kOwn = kColumns / kLanes;  // columns of a tile, and of a lane
constexpr int kDepth = 16;                              // of a chunk

// Blocks of an SM, which leaves a thread 168 registers, or 255 for f64: few spills, none of them in the loops of the products.
template <class T>
constexpr int kResidentBlocks = sizeof(T) == 8 ? 2 : 3;

// Rows of an operand, by addresses in shared memory, of `extent` elements each. Addresses beyond the operand's rows repeat a
// row: whoever uses them hides their scores. `has_vectors` says that each row begins at a multiple of four elements.
template <class T>
struct Rows {
    const T* const* row;
    int extent;
    bool has_vectors;
};

BK_DEVICE int team() { return static_cast<int>(threadIdx.x / kLanes); }
BK_DEVICE int lane() { return static_cast<int>(threadIdx.x % kLanes); }

// Position of element i at depth k of an operand of kWidth rows. Groups of four are permuted by k / 4, so that threads that
// store elements of eight rows at four depths touch 32 banks.
template <int kWidth>
BK_DEVICE unsigned staged_at(unsigned k, unsigned i) {
    return k * kWidth + (i ^ (8 * (k / 4) & (kWidth - 4)));
}

// Position of the coefficient of a row and a column, by the column; permuted by column / 4 for the threads that store them.
template <int kRows>
constexpr unsigned kCoefficientMask = (kRows * kTeams < 32 ? kRows * kTeams : 32) - 4;
template <int kRows>
BK_DEVICE unsigned coefficient_at(unsigned column, unsigned row) {
    return column * (kRows * kTeams) + (row ^ (column & kCoefficientMask<kRows>));
}

// Four elements of a row, zeros beyond its extent.
template <class T>
BK_DEVICE_COLD Vec<T, 4> load_elements(const T* row, int column, int extent) {
    Vec<T, 4> four{};
    for (int e = 0; e < 4; ++e)
        if (column + e < extent) four.lane[e] = row[column + e];
    return four;
}

template <class T>
BK_DEVICE void store_four(T* row, int column, int extent, bool has_vectors, const compute_t<T>* values) {
    if (has_vectors && column + 4 <= extent) {
        Vec<T, 4> four;
        BK_UNROLL
        for (int e = 0; e < 4; ++e) four.lane[e] = narrow<T>(values[e]);
        store<4>(row + column, four);
        return;
    }
    BK_UNROLL
    for (int e = 0; e < 4; ++e)
        if (column + e < extent) row[column + e] = narrow<T>(values[e]);
}

// kRows rows of a thread in shared memory: at(r) is the position of row r.
template <int kRows, class C, class At>
BK_DEVICE void load_own_rows(C (&own)[kRows], const C* from, const At& at) {
    constexpr int kVector = kRows < 4 ? kRows : 4;
    BK_UNROLL
    for (int r = 0; r < kRows; r += kVector) {
        const auto vector = load<kVector>(from + at(static_cast<unsigned>(r)));
        BK_UNROLL
        for (int v = 0; v < kVector; ++v) own[r + v] = vector.lane[v];
    }
}

// Writes a thread's elements of a tile of coefficients.
template <int kRows, class C>
BK_DEVICE void store_coefficients(C* coefficients, const C (&own)[kRows][kOwn]) {
    constexpr int kVector = kRows < 4 ? kRows : 4;
    BK_UNROLL
    for (int c = 0; c < kOwn; ++c) {
        BK_UNROLL
        for (int r = 0; r < kRows; r += kVector) {
            Vec<C, kVector> vector;
            BK_UNROLL
            for (int v = 0; v < kVector; ++v) vector.lane[v] = own[r + v][c];
            store<kVector>(coefficients + coefficient_at<kRows>(lane() * kOwn + c, team() * kRows + r), vector);
        }
    }
}

// Elements of a buffer of chunks, of which there are two.
template <int kRows, int kOut>
constexpr int kChunkElements =
    kDepth * (kRows * kTeams + kColumns > kOut * kColumns ? kRows * kTeams + kColumns : kOut * kColumns);

// sum[r][c] = a_r . b_c for rows of a and b. The caller has passed a barrier since it wrote the rows' addresses and last
// read `staged`; the block passes another one behind the last read.
template <int kRows, int kOut, class T, class C>
BK_DEVICE void multiply(const Rows<T>& a, const Rows<T>& b, C* staged, C (&sum)[kRows][kOwn]) {
    constexpr int kTileRows = kRows * kTeams, kVectors = kDepth / 4;
    constexpr int kA = (kTileRows * kVectors + kThreads - 1) / kThreads, kB = kColumns * kVectors / kThreads;
    const int thread = static_cast<int>(threadIdx.x), depth = thread % kVectors * 4;
    Vec<T, 4> next_a[kA], next_b[kB];
    const bool has_chunks = a.has_vectors && b.has_vectors && a.extent % kDepth == 0;
    const auto fetch_with = [&](int k, const auto& load_four) {
        BK_UNROLL
        for (int u = 0; u < kA; ++u) {
            const int row = (thread + u * kThreads) / kVectors;
            if (row < kTileRows) next_a[u] = load_four(a, row, k + depth);
        }
        BK_UNROLL
        for (int u = 0; u < kB; ++u) next_b[u] = load_four(b, (thread + u * kThreads) / kVectors, k + depth);
    };
    const auto fetch = [&](int k) {
        if (has_chunks)
            fetch_with(k, [](const Rows<T>& x, int row, int at) { return load<4>(x.row[row] + at); });
        else
            fetch_with(k, [](const Rows<T>& x, int row, int at) { return load_elements(x.row[row], at, x.extent); });
    };
    const auto stage = [&](C* to) {
        BK_UNROLL
        for (int u = 0; u < kA; ++u) {
            const int row = (thread + u * kThreads) / kVectors;
            BK_UNROLL
            for (int e = 0; e < 4; ++e)
                if (row < kTileRows) to[staged_at<kTileRows>(depth + e, row)] = widen_lane(next_a[u], e);
        }
        BK_UNROLL
        for (int u = 0; u < kB; ++u) {
            BK_UNROLL
            for (int e = 0; e < 4; ++e)
                to[kDepth * kTileRows + staged_at<kColumns>(depth + e, (thread + u * kThreads) / kVectors)] =
                    widen_lane(next_b[u], e);
        }
    };
    BK_UNROLL
    for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kOwn; ++c) sum[r][c] = 0;
    if (a.extent == 0) return;
    fetch(0);
    stage(staged);
    __syncthreads();
    const int chunks = (a.extent + kDepth - 1) / kDepth;
    for (int n = 0; n < chunks; ++n) {
        const bool has_next = n + 1 < chunks;
        if (has_next) fetch((n + 1) * kDepth);
        const C *const of_a = staged + n % 2 * kChunkElements<kRows, kOut>, *const of_b = of_a + kDepth * kTileRows;
        BK_UNROLL
        for (int d = 0; d < kDepth; ++d) {
            C x[kRows];
            load_own_rows(x, of_a, [d](unsigned r) { return staged_at<kTileRows>(d, team() * kRows + r); });
            const auto y = load<kOwn>(of_b + staged_at<kColumns>(d, lane() * kOwn));
            BK_UNROLL
            for (int r = 0; r < kRows; ++r) {
                BK_UNROLL
                for (int c = 0; c < kOwn; ++c) sum[r][c] += x[r] * y.lane[c];
            }
        }
        if (has_next) stage(staged + (n + 1) % 2 * kChunkElements<kRows, kOut>);
        __syncthreads();
    }
}

// sum[r][] += coefficient(r, c) x_c over the first `count` columns c, for elements `first` to first + 64 kOut of x's rows. A
// lane owns four of each 64. A coefficient of 0 hides its row even if that holds infinities or NaN: chunks that do take
// a slower loop. Barriers as in multiply(); the coefficients are written before the first.
template <int kRows, int kOut, class T, class C>
BK_DEVICE void accumulate(const C* coefficients, const Rows<T>& x, int first, int count, C* staged,
                          C (&sum)[kRows][kOut * kOwn]) {
    constexpr int kTileRows = kRows * kTeams, kVectors = kOut * kColumns / 4, kX = kDepth * kVectors / kThreads;
    const int thread = static_cast<int>(threadIdx.x);
    Vec<T, 4> next[kX];
    const bool has_vectors = x.has_vectors && x.extent % 4 == 0;
    const auto fetch_with = [&](int c, const auto& load_four) {
        BK_UNROLL
        for (int u = 0; u < kX; ++u) {
            const int v = thread + u * kThreads;
            next[u] = load_four(x.row[c + v / kVectors], first + v % kVectors * 4);
        }
    };
    const auto fetch = [&](int c) {
        if (has_vectors)
            fetch_with(c, [&](const T* row, int column) { return load_if<4>(column < x.extent, row + column); });
        else
            fetch_with(c, [&](const T* row, int column) { return load_elements(row, column, x.extent); });
    };
    const auto stage = [&](C* to) {
        C residual = 0;  // of x - x: NaN if an element is not finite
        BK_UNROLL
        for (int u = 0; u < kX; ++u) {
            Vec<C, 4> four;
            BK_UNROLL
            for (int e = 0; e < 4; ++e) {
                four.lane[e] = widen_lane(next[u], e);
                residual += four.lane[e] - four.lane[e];
            }
            store<4>(to + (thread + u * kThreads) * 4, four);
        }
        return residual != 0;
    };
    fetch(0);
    bool has_special = __syncthreads_or(stage(staged));
    const int chunks = (count + kDepth - 1) / kDepth;
    for (int n = 0; n < chunks; ++n) {
        const bool has_next = n + 1 < chunks;
        if (has_next) fetch((n + 1) * kDepth);
        const C *const chunk = staged + n % 2 * kChunkElements<kRows, kOut>, *const column =
                                                                                 coefficients + n * kDepth * kTileRows;
        const unsigned own = team() * kRows ^ (n * kDepth & kCoefficientMask<kRows>);
        const auto add = [&](int d, const auto& product) {
            C w[kRows];
            load_own_rows(w, column + d * kTileRows, [own, d](unsigned r) { return own ^ (d & kCoefficientMask<kRows>)^r; });
            BK_UNROLL
            for (int g = 0; g < kOut; ++g) {
                const auto four = load<4>(chunk + d * kOut * kColumns + g * kColumns + lane() * 4);
                BK_UNROLL
                for (int r = 0; r < kRows; ++r) {
                    BK_UNROLL
                    for (int e = 0; e < 4; ++e) sum[r][g * 4 + e] = product(sum[r][g * 4 + e], w[r], four.lane[e]);
                }
            }
        };
        if (!has_special) {
            BK_UNROLL
            for (int d = 0; d < kDepth; ++d) add(d, [](C total, C w, C e) { return total + w * e; });
        } else {
#pragma unroll 1
            for (int d = 0; d < kDepth; ++d) add(d, [](C total, C w, C e) { return w == 0 ? total : total + w * e; });
        }
        has_special = false;
        if (has_next) has_special = stage(staged + (n + 1) % 2 * kChunkElements<kRows, kOut>);
        has_special = __syncthreads_or(has_special);
    }
}

// Sum over the lanes of a team, to each of them.
template <class C>
BK_DEVICE C team_sum(C x) {
    BK_UNROLL
    for (int distance = kLanes / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
}

}  // namespace bk::attention_simt
