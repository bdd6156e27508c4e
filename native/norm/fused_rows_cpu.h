// One row after another: its sums, then, while it is in a core's first cache, dx and its share of the sums over rows. A part is
// a run of rows with sums of its own, so that the order of additions depends on the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/rows/row_map.h"
#include "core/rows/row_memory_cpu.h"
#include "norm/add_norm_row.h"
#include "norm/fused_rows.h"
#include "norm/norm_row.h"

namespace bk {

constexpr int kFusedChunk = 64;                // elements
constexpr int64_t kFusedRun = kReduceRun;      // rows whose terms are added before their sum is, to those before
constexpr int64_t kFusedMostParts = 64;        // each of one run at least
constexpr int64_t kFusedLeastBytes = 4 << 20;  // of x: what is smaller stays in a cache from pass to pass

template <class T>
struct FusedParts {
    using C = compute_t<T>;
    int64_t rows, parts;                  // of a part
    C *gamma = nullptr, *beta = nullptr;  // [parts][n]
    C* of_run = nullptr;                  // [parts][2][step]
    int64_t step;                         // n in whole chunks

    // Memory is that of the most parts that fewer rows have, so that the size of a workspace never falls as rows are added.
    FusedParts(Carver* carver, const FusedRows& given) {
        const int64_t runs = ceil_div(given.rows, kFusedRun), most = std::min(runs, kFusedMostParts);
        rows = ceil_div(runs, most) * kFusedRun;
        parts = ceil_div(given.rows, rows);
        gamma = carver->take<C>(most * given.n);
        beta = carver->take<C>(most * given.n);
        step = ceil_div<int64_t>(given.n, kFusedChunk) * kFusedChunk;
        of_run = carver->take<C>(most * 2 * step);
    }
};

template <class T>
size_t fused_rows_workspace(const FusedRows& rows) {
    if (rows.rows < kFusedRun || rows.rows * rows.n < kFusedLeastBytes / static_cast<int64_t>(sizeof(T))) return 0;
    Carver carver;
    FusedParts<T>(&carver, rows);
    return carver.bytes();
}

template <class T, class S, bool kIsOfSum>
bool can_fuse_rows(const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>&) {
    return fused_rows_workspace<T>(rows) > 0;
}

template <class T, class S, bool kIsOfSum>
struct FusedRow {
    using C = compute_t<T>;
    using F = std::conditional_t<kIsOfSum, AddNormBackward<T>, NormBackward<T>>;
    using Row = typename F::Row;
    using Held = typename F::Held;
    struct alignas(64) Chunk {
        C at[kFusedChunk];
    };
    struct Cells {
        Chunk dy, x, extra, gamma;
    };

    F f;
    int64_t n;
    FusedOperands<T, S, kIsOfSum> of;  // from this row on

    static F function(const FusedOperands<T, S, kIsOfSum>& of) {
        F f{};
        f.is_centered = of.is_centered;
        f.has_gamma = of.gamma != nullptr;
        if constexpr (kIsOfSum) {
            f.has_extra = of.extra != nullptr;
            f.gamma_offset = of.gamma_offset;
        }
        return f;
    }

    FusedRow(const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>& all, int64_t row)
        : f(function(all)), n(rows.n), of(all) {
        of.dy += row * rows.step_dy;
        of.x += row * rows.step_x;
        if (of.extra != nullptr) of.extra += row * rows.step_extra;
        if (of.dx != nullptr) of.dx += row * rows.step_dx;
        if (of.mean != nullptr) of.mean += row * rows.step_saved;
        if (of.statistic != nullptr) of.statistic += row * rows.step_saved;
        if (of.new_mean != nullptr) of.new_mean += row * rows.step_saved;
        if (of.new_statistic != nullptr) of.new_statistic += row * rows.step_saved;
    }

    // Adds the row's terms to gamma and, where there is one, beta, which have whole chunks.
    BK_HD void run(C* gamma, C* beta) const {
        Row row = start();
        Chunk h{}, product{};
        each_chunk([&](int64_t first, int count, const Cells& cells) BK_INLINED {
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedChunk; ++i) {
                const Held held = hold(row, first + i, cells, i);
                h.at[i] += i < count ? held.h : C(0);
                product.at[i] += i < count ? held.h * held.xh : C(0);
            }
        });
        f.finish(row, {sum_of(h.at), sum_of(product.at)}, n);
        each_chunk([&](int64_t first, int count, const Cells& cells) BK_INLINED {
            Chunk result;
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedChunk; ++i) {
                const Held held = hold(row, first + i, cells, i);
                result.at[i] = get<0>(f.map(row, Nothing{}, first + i, held));
                gamma[first + i] += cells.dy.at[i] * held.xh;
            }
            if (beta != nullptr) {
                BK_CHUNK_LOOP
                for (int i = 0; i < kFusedChunk; ++i) beta[first + i] += cells.dy.at[i];
            }
            if (of.dx != nullptr) store(of.dx + first, result, count);
        });
    }

private:
    BK_HD Row start() const {
        if constexpr (kIsOfSum) {
            if (of.new_statistic == nullptr) return f.start(*of.mean, *of.statistic);
            const auto found = statistics();
            if (of.is_centered) *of.new_mean = get<0>(found);
            *of.new_statistic = get<1>(found);
            return f.start(get<0>(found), get<1>(found));
        } else {
            return f.start(C(1), widen(*of.mean), widen(*of.statistic), C(0), C(0));
        }
    }

    // The mean and the statistic of the row.
    BK_HD auto statistics() const {
        NormForward<T> forward{};
        forward.eps = of.eps;
        forward.is_centered = of.is_centered;
        typename NormForward<T>::Row row;
        typename NormForward<T>::Acc all;
        do {
            all = forward.identity();
            for (int64_t first = 0; first < n; first += kFusedChunk) {
                const RowChunk where{first, chunk_at(first)};
                Chunk x;
                load(x, of.x + first, where.exist);
                typename NormForward<T>::Held held[kFusedChunk];
                BK_CHUNK_LOOP
                for (int i = 0; i < kFusedChunk; ++i) held[i].x = x.at[i];
                all = forward.combine(all, forward.sum_up(row, held, where));
            }
        } while (forward.finish(row, all, n));
        return forward.saved(row);
    }

    BK_HD int chunk_at(int64_t first) const { return static_cast<int>(std::min<int64_t>(kFusedChunk, n - first)); }

    BK_HD Held hold(const Row& row, int64_t j, const Cells& cells, int i) const {
        if constexpr (kIsOfSum)
            return f.hold(row, j, cells.dy.at[i], cells.extra.at[i], cells.x.at[i], cells.gamma.at[i]);
        else
            return f.hold(row, j, cells.dy.at[i], cells.x.at[i], cells.gamma.at[i]);
    }

    // body(position, elements, cells) for the chunks of the row; cells behind its end are 0.
    template <class Body>
    BK_HD void each_chunk(const Body& body) const {
        for (int64_t first = 0; first < n; first += kFusedChunk) {
            const int count = chunk_at(first);
            Cells cells;
            load(cells.dy, of.dy + first, count);
            load(cells.x, of.x + first, count);
            load(cells.gamma, of.gamma == nullptr ? nullptr : of.gamma + first, count);
            if constexpr (kIsOfSum) load(cells.extra, of.extra == nullptr ? nullptr : of.extra + first, count);
            body(first, count, cells);
        }
    }

    // Zeros where there is nothing.
    static BK_HD void load(Chunk& to, const T* from, int count) {
        if (from == nullptr) {  // a loop, where memset would be a slow string instruction
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedChunk; ++i) to.at[i] = C(0);
            return;
        }
        Block<T, kFusedChunk> some;
        if (count < kFusedChunk) {
            memset(some.cell, 0, sizeof(some.cell));
            gather_run(some.cell, from, 1, count);
            from = some.cell;
        }
        if constexpr (std::is_same_v<T, f16>) {
            widen_span(to.at, from, kFusedChunk);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedChunk; ++i) to.at[i] = widen(from[i]);
        }
    }

    static BK_HD void store(T* dx, const Chunk& from, int count) {
        Block<T, kFusedChunk> some;
        T* const to = count < kFusedChunk ? some.cell : dx;
        if constexpr (std::is_same_v<T, f16>) {
            narrow_span(to, from.at, kFusedChunk);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedChunk; ++i) to[i] = narrow<T>(from.at[i]);
        }
        if (count < kFusedChunk) scatter_run(dx, some.cell, 1, count);
    }
};

template <class T, class S, bool kIsOfSum>
Status fused_rows(const Launch& launch, const FusedRows& rows, const FusedOperands<T, S, kIsOfSum>& operands) {
    using C = compute_t<T>;
    Carver carver(launch.workspace);
    const FusedParts<T> all(&carver, rows);
    const bool has_beta = operands.dbeta != nullptr;
    parallel_rows(all.parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            C* const sums[] = {all.gamma + part * rows.n, has_beta ? all.beta + part * rows.n : nullptr};
            C* const of_run = all.of_run + part * 2 * all.step;
            const int64_t start = part * all.rows, stop = std::min(start + all.rows, rows.rows);
            for (int64_t first = start; first < stop; first += kFusedRun) {
                std::fill_n(of_run, 2 * all.step, C(0));
                for (int64_t r = first; r < std::min(first + kFusedRun, stop); ++r)
                    FusedRow<T, S, kIsOfSum>(rows, operands, r).run(of_run, has_beta ? of_run + all.step : nullptr);
                for (int k = 0; k < 2 && sums[k] != nullptr; ++k) {
                    const C* const run = of_run + k * all.step;
                    BK_VECTOR_LOOP
                    for (int64_t i = 0; i < rows.n; ++i) sums[k][i] = first == start ? run[i] : sums[k][i] + run[i];
                }
            }
        }
    });
    return add_fused_parts(launch, all.parts, rows.n, static_cast<const C*>(all.gamma),
                           has_beta ? static_cast<const C*>(all.beta) : nullptr, operands.dgamma, operands.dbeta);
}

}  // namespace bk
