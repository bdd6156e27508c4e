// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "linalg/jacobi/orthogonalise.h"

namespace bk::linalg::spectral {

constexpr int kSolveThreads = 256, kApplyThreads = 128;
constexpr int kPairPitch = kPair + 1;
constexpr int kInnerSweeps = 6;
constexpr int kEarlySweeps = 3, kUsualSweeps = 8;
constexpr int kStagedRows = 32;

struct IndexPair {
    int first, second;
};

// Disjoint pair k < count / 2 of a step < count - 1: every two of `count` indices, an even number, meet in one step.
BK_HD IndexPair pair_of(int count, int step, int k) {
    if (k == 0) return {step, count - 1};
    const int a = (step + k) % (count - 1), b = (step + count - 1 - k) % (count - 1);
    return a < b ? IndexPair{a, b} : IndexPair{b, a};
}

// Four neighbours from an address that is aligned to 16 bytes.
template <class E>
BK_DEVICE void load_four(const E* from, E (&to)[4]) {
    constexpr int kVectors = static_cast<int>(4 * sizeof(E) / sizeof(uint4));
    uint4 vector[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) vector[i] = reinterpret_cast<const uint4*>(from)[i];
    memcpy(static_cast<void*>(to), vector, sizeof(to));
}
template <class E>
BK_DEVICE void store_four(E* to, const E (&from)[4]) {
    constexpr int kVectors = static_cast<int>(4 * sizeof(E) / sizeof(uint4));
    uint4 vector[kVectors];
    memcpy(vector, from, sizeof(from));
#pragma unroll
    for (int i = 0; i < kVectors; ++i) reinterpret_cast<uint4*>(to)[i] = vector[i];
}

template <class E>
__global__ void __launch_bounds__(kSolveThreads)
    fill_panels_kernel(const __grid_constant__ JacobiProblem<E> p, const __grid_constant__ JacobiStart<E> start) {
    using R = real_t<E>;
    const int panels = p.panel_count(), number = static_cast<int>(blockIdx.x % panels), first = number * kPanel;
    const int64_t item = blockIdx.x / panels;
    const bool is_wanted = *start.scale[item] != 0;
    if (number == 0)
        for (int i = static_cast<int>(threadIdx.x); i <= kJacobiSweeps + 1; i += kSolveThreads)
            p.state[item][i] = i == 0 && is_wanted ? 1 : 0;
    if (!is_wanted) return;
    const E* const from = start.from[item];
    const R shift = start.shift.first == nullptr ? R(0) : *start.shift[item];
    E* const to = p.panel(item, number);
    for (int64_t at = threadIdx.x; at < p.all_rows() * kPanel; at += kSolveThreads) {
        const int64_t row = at / kPanel;
        const int column = first + static_cast<int>(at % kPanel);
        const bool is_diagonal = column < p.n && row % p.rows == column;
        E x = element_of<E>(is_diagonal ? (row < p.rows ? shift : R(1)) : R(0));
        if (column < p.n && row < p.rows && (!start.is_upper || row <= column)) x += from[row + column * start.pitch];
        to[at] = x;
    }
}

// The Gram matrix of the 32 columns of two panels, by partial sums over every fourth row.
template <class E>
BK_DEVICE void compute_gram(const E* one, const E* other, int rows, uint4* staged, E* gram) {
    constexpr int kRowVectors = static_cast<int>(kPair * sizeof(E) / sizeof(uint4)), kHalf = kRowVectors / 2;
    constexpr int kOwn = kStagedRows * kRowVectors / kSolveThreads;
    const int thread = static_cast<int>(threadIdx.x), group = thread / 64, y = thread % 64 / 8, x = thread % 8;
    uint4 next[kOwn];
    const auto fetch = [&](int first) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const int at = i * kSolveThreads + thread, row = first + at / kRowVectors, within = at % kRowVectors;
            const E* const panel = within < kHalf ? one : other;
            next[i] = row < rows ? reinterpret_cast<const uint4*>(panel)[int64_t{row} * kHalf + within % kHalf] : uint4{};
        }
    };
    E sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = element_of<E>(0);
    fetch(0);
    for (int first = 0; first < rows; first += kStagedRows) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) staged[i * kSolveThreads + thread] = next[i];
        __syncthreads();
        if (first + kStagedRows < rows) fetch(first + kStagedRows);
#pragma unroll 2
        for (int row = group; row < kStagedRows; row += 4) {
            const E* const values = reinterpret_cast<const E*>(staged) + row * kPair;
            E a[4], b[4];
            load_four(values + 4 * y, a);
            load_four(values + 4 * x, b);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] = add_product(sum[i][j], conj(a[i]), b[j]);
        }
        __syncthreads();
    }
    for (int g = 0; g < 4; ++g) {
        if (group == g)
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    E& to = gram[(4 * y + i) * kPairPitch + 4 * x + j];
                    to = g == 0 ? sum[i][j] : to + sum[i][j];
                }
        __syncthreads();
    }
}

// The largest cosine of an angle between two of the 32 columns; `scale` holds 32 numbers. Ends with a barrier.
template <class E>
BK_DEVICE real_t<E> largest_cosine(const MatrixTeam& team, const E* gram, real_t<E>* scale) {
    using R = real_t<E>;
    if (team.rank() < kPair) {
        const R square_of_length = real(gram[team.rank() * kPairPitch + team.rank()]);
        scale[team.rank()] = square_of_length > 0 ? 1 / root(square_of_length) : R(0);
    }
    __syncthreads();
    R most = 0;
    for (int at = team.rank(); at < kPair * kPair; at += kSolveThreads) {
        const int i = at / kPair, j = at % kPair;
        if (i < j) most = larger(most, root(square(gram[i * kPairPitch + j] * (scale[i] * scale[j]))));
    }
    return team.largest(most);
}

// Noise for columns of a pair that are shorter than `least`, if there are some. It differs for each `seed`, a number of the
// step, since columns move.
template <class E>
BK_DEVICE bool replace_vanished(const MatrixTeam& team, const JacobiProblem<E>& p, int64_t item, const IndexPair& pair,
                                const E* gram, real_t<E> least, uint32_t seed) {
    using R = real_t<E>;
    const auto column_of = [&](int i) { return (i < kPanel ? pair.first : pair.second) * kPanel + i % kPanel; };
    const auto vanishes = [&](int i) { return column_of(i) < p.n && !(real(gram[i * kPairPitch + i]) > least * least); };
    if (!(team.largest(team.rank() < kPair && vanishes(team.rank()) ? R(1) : R(0)) > 0)) return false;
    const R size = Noise<R>::kNorm * root(R(3) / R(p.rows));
    for (int i = 0; i < kPair; ++i) {
        if (!vanishes(i)) continue;
        for (int row = team.rank(); row < p.rows; row += kSolveThreads) {
            uint32_t bits = static_cast<uint32_t>(row) * 0x9e3779b9u ^ static_cast<uint32_t>(column_of(i) + 1) * 0x85ebca6bu ^
                            seed * 0xc2b2ae35u;
            bits = (bits ^ bits >> 16) * 0x7feb352du;
            bits = (bits ^ bits >> 15) * 0x846ca68bu;
            bits ^= bits >> 16;
            p.at(item, row, column_of(i)) = element_of<E>(size * (R(bits >> 8) * R(0x1p-23) - 1));
        }
    }
    if (team.rank() == 0) p.has_noise(item) = 1;
    __syncthreads();
    return true;
}

// One sweep of Jacobi's iteration on a Gram matrix: all rotations of 32 columns, 16 at a time, a thread for each 2 x 2 block.
template <class E>
BK_DEVICE void sweep_pair(const MatrixTeam& team, E* gram, E* factor, real_t<E>* cosine, E* sine, real_t<E> (*diagonal)[2]) {
    using R = real_t<E>;
    const int a = team.rank() / kPanel, b = team.rank() % kPanel;
    for (int step = 0; step + 1 < kPair; ++step) {
        if (team.rank() < kPanel) {
            const IndexPair at = pair_of(kPair, step, team.rank());
            const R p = real(gram[at.first * kPairPitch + at.first]), q = real(gram[at.second * kPairPitch + at.second]);
            const E g = gram[at.first * kPairPitch + at.second];
            const R size = modulus(g);
            R c = 1, change = 0;
            E s = element_of<E>(0);
            if (size > 0 && size > R(0.25) * Numbers<R>::kRoundoff * root(p) * root(q)) {
                const R half = (q - p) / (2 * size), reach = absolute(half);
                const R t = with_sign(1 / (reach > Numbers<R>::kWide ? 2 * reach : reach + root(1 + half * half)), half);
                c = 1 / root(1 + t * t);
                s = g * (t * c / size);
                change = t * size;
            }
            cosine[team.rank()] = c;
            sine[team.rank()] = s;
            diagonal[team.rank()][0] = p - change;
            diagonal[team.rank()][1] = q + change;
        }
        __syncthreads();
        const IndexPair rows = pair_of(kPair, step, a), columns = pair_of(kPair, step, b);
        const R row_c = cosine[a], c = cosine[b];
        const E row_s = sine[a], s = sine[b];
        E* const upper = gram + rows.first * kPairPitch;
        E* const lower = gram + rows.second * kPairPitch;
        if (a != b) {
            const E up = upper[columns.first] * c - conj(s) * upper[columns.second];
            const E up_second = s * upper[columns.first] + upper[columns.second] * c;
            const E low = lower[columns.first] * c - conj(s) * lower[columns.second];
            const E low_second = s * lower[columns.first] + lower[columns.second] * c;
            upper[columns.first] = up * row_c - row_s * low;
            upper[columns.second] = up_second * row_c - row_s * low_second;
            lower[columns.first] = conj(row_s) * up + low * row_c;
            lower[columns.second] = conj(row_s) * up_second + low_second * row_c;
        } else if (largest_part(s) != R(0)) {
            upper[columns.first] = element_of<E>(diagonal[a][0]);
            lower[columns.second] = element_of<E>(diagonal[a][1]);
            upper[columns.second] = lower[columns.first] = element_of<E>(0);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            E* const row = factor + (a + half * kPanel) * kPairPitch;
            const E x = row[columns.first], y = row[columns.second];
            row[columns.first] = x * c - conj(s) * y;
            row[columns.second] = s * x + y * c;
        }
        __syncthreads();
    }
}

template <class E>
__global__ void __launch_bounds__(kSolveThreads)
    solve_pairs_kernel(const __grid_constant__ JacobiProblem<E> p, int sweep, int step) {
    using R = real_t<E>;
    __shared__ E gram[kPair * kPairPitch];
    __shared__ uint4 second[kPair * kPairPitch * sizeof(E) / sizeof(uint4)];  // staged rows, then the factor
    __shared__ R scale[kPair], diagonal[kPanel][2], cosine[kPanel];
    __shared__ E sine[kPanel];
    __shared__ int position[kPair];
    E* const factor = reinterpret_cast<E*>(second);
    const int thread = static_cast<int>(threadIdx.x), pairs = p.pairs(), number = static_cast<int>(blockIdx.x % pairs);
    const int64_t item = blockIdx.x / pairs;
    const MatrixTeam team{thread, kSolveThreads};
    if (!p.is_due(item, sweep)) return;
    const IndexPair pair = pair_of(p.panel_count(), step, number);
    R cosines = 0;
    bool rotates = false;
    for (int attempt = 0; attempt < 3; ++attempt) {
        compute_gram(p.panel(item, pair.first), p.panel(item, pair.second), p.rows, second, gram);
        cosines = largest_cosine(team, gram, scale);
        rotates = !(cosines <= root(R(p.rows)) * Numbers<R>::kRoundoff);
        if (!replace_vanished(team, p, item, pair, gram, rotates && sweep < kEarlySweeps ? Noise<R>::kEarly : Noise<R>::kLate,
                              static_cast<uint32_t>(sweep * p.panel_count() + step)))
            break;
    }
    if (thread == 0) {
        p.rotates(item, number) = rotates ? 1 : 0;
        if (rotates) p.is_due(item, sweep + 1) = 1;
    }
    if (!rotates) return;
    for (int at = thread; at < kPair * kPair; at += kSolveThreads)
        factor[at / kPair * kPairPitch + at % kPair] = element_of<E>(at / kPair == at % kPair ? 1 : 0);
    __syncthreads();
    // One inner sweep squares the cosines, which is enough, unless some are near 1, columns of the same length meet, or the
    // matrix is hard.
    const R squared = smaller(10 * cosines * cosines, R(0.3));
    const R enough = larger(2 * Numbers<R>::kRoundoff, sweep < kUsualSweeps ? squared : R(0.001) * squared);
    for (int inner = 0; inner < kInnerSweeps; ++inner) {
        if (inner > 0 && largest_cosine(team, gram, scale) <= enough) break;
        sweep_pair(team, gram, factor, cosine, sine, diagonal);
    }
    // The longest column becomes the first; the padding stays behind.
    if (thread < kPair) {
        const int column = (thread < kPanel ? pair.first : pair.second) * kPanel + thread % kPanel;
        scale[thread] = column < p.n ? larger(real(gram[thread * kPairPitch + thread]), R(0)) : R(-1);
    }
    __syncthreads();
    if (thread < kPair) {
        int before = 0;
        for (int i = 0; i < kPair; ++i) before += scale[i] > scale[thread] || (scale[i] == scale[thread] && i < thread) ? 1 : 0;
        position[thread] = before;
    }
    // One step of Newton and Schulz, Q (3 - Q^H Q) / 2, takes away what hundreds of rotations would let grow.
    const int i0 = thread / kPanel, j0 = thread % kPanel;
    E sum[2][2];
    const auto multiply = [&](auto left, auto right) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int j = 0; j < 2; ++j) sum[i][j] = element_of<E>(0);
#pragma unroll 4
        for (int k = 0; k < kPair; ++k)
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    sum[i][j] = add_product(sum[i][j], left(i0 + i * kPanel, k), right(k, j0 + j * kPanel));
    };
    multiply([&](int i, int k) { return conj(factor[k * kPairPitch + i]); },
             [&](int k, int j) { return factor[k * kPairPitch + j]; });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const bool is_diagonal = i == j && i0 == j0;
            gram[(i0 + i * kPanel) * kPairPitch + j0 + j * kPanel] = (sum[i][j] - element_of<E>(is_diagonal ? 1 : 0)) * R(0.5);
        }
    __syncthreads();
    multiply([&](int i, int k) { return factor[i * kPairPitch + k]; }, [&](int k, int j) { return gram[k * kPairPitch + j]; });
    E* const to = p.factors[item] + int64_t{number} * kPair * kPair;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int row = i0 + i * kPanel, column = j0 + j * kPanel;
            to[row * kPair + position[column]] = factor[row * kPairPitch + column] - sum[i][j];
        }
}

// Rows of pairs of panels times the pairs' factors; a row is a thread's.
template <class E>
__global__ void __launch_bounds__(kApplyThreads)
    apply_pairs_kernel(const __grid_constant__ JacobiProblem<E> p, int sweep, int step, int chunks) {
    constexpr int kVectors = static_cast<int>(kPair * kPair * sizeof(E) / sizeof(uint4));
    __shared__ uint4 staged[kVectors];
    const int pairs = p.pairs(), number = static_cast<int>(blockIdx.x / chunks % pairs);
    const int64_t item = blockIdx.x / chunks / pairs;
    if (!p.is_due(item, sweep) || !p.rotates(item, number)) return;
    const int64_t row = int64_t{blockIdx.x % chunks} * kApplyThreads + threadIdx.x;
    const uint4* const from = reinterpret_cast<const uint4*>(p.factors[item] + int64_t{number} * kPair * kPair);
#pragma unroll
    for (int at = static_cast<int>(threadIdx.x); at < kVectors; at += kApplyThreads) staged[at] = from[at];
    const IndexPair pair = pair_of(p.panel_count(), step, number);
    const bool is_row = row < p.all_rows();
    E* const one = p.panel(item, pair.first) + (is_row ? row : 0) * kPanel;
    E* const other = p.panel(item, pair.second) + (is_row ? row : 0) * kPanel;
    E x[kPair / 4][4];
#pragma unroll
    for (int k = 0; k < kPair / 4; ++k) load_four((k < kPanel / 4 ? one : other) + k * 4 % kPanel, x[k]);
    __syncthreads();
    if (!is_row) return;
    const E* const factor = reinterpret_cast<const E*>(staged);
#pragma unroll 1
    for (int column = 0; column < kPair; column += 4) {
        E y[4], f[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) y[j] = element_of<E>(0);
#pragma unroll
        for (int k = 0; k < kPair; ++k) {
            load_four(factor + k * kPair + column, f);
#pragma unroll
            for (int j = 0; j < 4; ++j) y[j] = add_product(y[j], x[k / 4][k % 4], f[j]);
        }
        store_four((column < kPanel ? one : other) + column % kPanel, y);
    }
}

template <class E>
Status orthogonalise(const Launch& launch, const JacobiProblem<E>& p, const JacobiStart<E>& start) {
    const int64_t panels = p.panel_count(), pairs = p.pairs(), chunks = ceil_div<int64_t>(p.all_rows(), kApplyThreads);
    if (p.items * pairs * chunks > kMaxGridX || p.items * panels > kMaxGridX)
        return fail(Status::kUnsupported, "%d columns are too many", p.n);
    const auto grid = [](int64_t blocks, int threads) {
        return Grid{dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
    };
    BK_TRY(launch_kernel(launch, grid(p.items * panels, kSolveThreads), fill_panels_kernel<E>, p, start));
    for (int sweep = 0; sweep < kJacobiSweeps; ++sweep)
        for (int step = 0; step + 1 < panels; ++step) {
            BK_TRY(launch_kernel(launch, grid(p.items * pairs, kSolveThreads), solve_pairs_kernel<E>, p, sweep, step));
            BK_TRY(launch_kernel(launch, grid(p.items * pairs * chunks, kApplyThreads), apply_pairs_kernel<E>, p, sweep, step,
                                 chunks));
        }
    return Status::kOk;
}

}  // namespace bk::linalg::spectral
