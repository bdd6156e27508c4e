// SPDX-License-Identifier: Apache-2.0
// Gradients of the cosine and sine tables of a rotary position embedding, summed over the rows that share an entry.
#pragma once

#include <cstdint>

#include "attention/rope/rope_apply.h"
#include "core/collectives/team.h"
#include "core/pointwise/pointwise.h"
#include "core/types/vec.h"

namespace bk {

// A team sums kTablePairs pairs of one table row over its rows. On a GPU each thread sums one pair of every k-th row
// and partials are added in order; on the CPU one thread sums all.
constexpr int kTablePairs = 32;

template <class T>
struct RopeTableSums {
    using C = compute_t<T>;
#if BK_IN_KERNEL
    static constexpr int kOwn = 1;
#else
    static constexpr int kOwn = kTablePairs;
#endif

    const T* dy;
    const T* x;
    C* dcos;
    C* dsin;
    int64_t places, inner, rows, pairs, chunks;
    bool is_half;
    bool by_pairs;  // GPU: the two features of a pair are adjacent and read as one vector

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int width = kTablePairs / kOwn, lane = team.rank % width, lanes = team.size / width;
        const int64_t table_row = item / chunks, first = item % chunks * kTablePairs + lane * kOwn;
        const int64_t remaining = pairs - first;
        const int own = static_cast<int>(remaining < 0 ? 0 : remaining < kOwn ? remaining : kOwn);
        C of_cos[kOwn] = {}, of_sin[kOwn] = {};
        int64_t row = team.rank / width, outer = row / inner, within = row - outer * inner;
        const int64_t outer_step = lanes / inner, within_step = lanes - outer_step * inner;
#if BK_ON_GPU
#pragma unroll 4
#endif
        for (; row < rows; row += lanes) {
            add_row(((outer * places + table_row) * inner + within) * (2 * pairs), first, own, of_cos, of_sin);
            outer += outer_step, within += within_step;
            if (within >= inner) within -= inner, ++outer;
        }
#if BK_IN_KERNEL
        C* const partial = static_cast<C*>(team.scratch);
        partial[2 * team.rank] = of_cos[0];
        partial[2 * team.rank + 1] = of_sin[0];
        team.sync();
        if (team.rank >= width) return;
        for (int k = 1; k < lanes; ++k) {
            of_cos[0] += partial[2 * (team.rank + k * width)];
            of_sin[0] += partial[2 * (team.rank + k * width) + 1];
        }
#endif
        for (int k = 0; k < own; ++k) {
            if (dcos != nullptr) dcos[table_row * pairs + first + k] = of_cos[k];
            if (dsin != nullptr) dsin[table_row * pairs + first + k] = of_sin[k];
        }
    }

private:
    struct Pair {
        C a, b;
    };
    BK_HD Pair pair_at(const T* p, int64_t second) const {
#if BK_IN_KERNEL
        if (by_pairs) {
            const Vec<T, 2> both = load<2>(p);
            return {widen(both.lane[0]), widen(both.lane[1])};
        }
#endif
        return {widen(p[0]), widen(p[second])};
    }
    // Adds the row whose first element is `start`.
    BK_HD void add_row(int64_t start, int64_t first, int own, C (&of_cos)[kOwn], C (&of_sin)[kOwn]) const {
        const int64_t step = is_half ? 1 : 2, second = is_half ? pairs : 1;
        const T* const u = dy + start + first * step;
        const T* const v = x + start + first * step;
        for (int k = 0; k < own; ++k) {
            const Pair d = pair_at(u + k * step, second), of_x = pair_at(v + k * step, second);
            of_cos[k] += d.a * of_x.a + d.b * of_x.b;
            of_sin[k] += d.b * of_x.a - d.a * of_x.b;
        }
    }
};

template <class T>
struct RopeTablesBackward {
    int32_t outer;
    int32_t places;
    int32_t inner;
    int32_t d;
    int32_t is_half;

    Work work() const { return places == 0 ? Work::kNone : outer == 0 || inner == 0 ? Work::kZeros : Work::kAll; }
    Status check() const {
        BK_TRY(require_non_negative({{"outer", outer}, {"places", places}, {"inner", inner}, {"d", d}}));
        return require_pairs(d);
    }
    Status run(const T* dy, const T* x, compute_t<T>* dcos, compute_t<T>* dsin, const Launch& launch) const {
        const int64_t pairs = d / 2, chunks = ceil_div<int64_t>(pairs, kTablePairs), rows = int64_t{outer} * inner;
        if (work() == Work::kZeros) {
            if (dcos != nullptr) BK_TRY(write_zeros(launch, places * pairs, dcos));
            return dsin != nullptr ? write_zeros(launch, places * pairs, dsin) : Status::kOk;
        }
        if (dcos == nullptr && dsin == nullptr) return Status::kOk;
        const bool by_pairs = is_half == 0 && is_aligned(dy, 2 * sizeof(T)) && is_aligned(x, 2 * sizeof(T));
        const RopeTableSums<T> sums{dy, x, dcos, dsin, places, inner, rows, pairs, chunks, is_half != 0, by_pairs};
        const int64_t bytes = rows * kTablePairs * 4 * static_cast<int64_t>(sizeof(T));
        return run_teams(launch, places * chunks, bytes, sums, true);
    }
};

}  // namespace bk
