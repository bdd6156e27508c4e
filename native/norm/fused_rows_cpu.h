// SPDX-License-Identifier: Apache-2.0
// CPU fused norm backward: each row is summed and then, while it is in L1, gives dx and its share of dgamma and dbeta.
// A fixed range of rows has partial sums of its own, so the order of additions depends on the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/abi/workspace.h"
#include "core/row/row_map.h"
#include "core/row/row_memory_cpu.h"
#include "norm/add_norm_row.h"
#include "norm/fused_rows.h"
#include "norm/norm_row.h"

namespace bk {

constexpr int kFusedTile = 64;                        // elements
constexpr int64_t kFusedBlockRows = kSettleInterval;  // rows summed up before they are added to a partial
constexpr int64_t kFusedMaxPartials = 64;             // each of at least kFusedMinRows rows
constexpr int64_t kFusedMinRows = 8;
constexpr int64_t kFusedMaxRow = 8192;  // the moments of longer rows take more care than a pass has

template <class T>
struct FusedPartials {
    using C = compute_t<T>;
    int64_t rows, count;                  // rows a partial, number of partials
    C *gamma = nullptr, *beta = nullptr;  // [count][n]
    C* block_sums = nullptr;              // [count][2][padded_n]
    int64_t padded_n;                     // n rounded up to whole tiles

    // The size is that of the largest count that fewer rows have: it never shrinks as rows are added.
    FusedPartials(Carver* carver, const FusedRows& given) {
        const int64_t max_count = std::min(ceil_div(given.rows, kFusedMinRows), kFusedMaxPartials);
        rows = ceil_div(given.rows, max_count);
        if (rows > kFusedBlockRows) rows = ceil_div(rows, kFusedBlockRows) * kFusedBlockRows;
        count = ceil_div(given.rows, rows);
        gamma = carver->take<C>(max_count * given.n);
        beta = carver->take<C>(max_count * given.n);
        padded_n = ceil_div<int64_t>(given.n, kFusedTile) * kFusedTile;
        block_sums = carver->take<C>(max_count * 2 * padded_n);
    }
};

template <class T>
size_t fused_rows_workspace(const FusedRows& rows) {
    // However few rows there are: which pass writes dx must not depend on them.
    if (rows.rows < 1 || rows.n > kFusedMaxRow) return 0;
    Carver carver;
    FusedPartials<T>(&carver, rows);
    return carver.bytes();
}

template <class T, class S, bool kIsAddNorm>
bool can_fuse_rows(const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>&) {
    return fused_rows_workspace<T>(rows) > 0;
}

template <class T, class S, bool kIsAddNorm>
struct FusedRow {
    using C = compute_t<T>;
    using F = std::conditional_t<kIsAddNorm, AddNormBackward<T>, NormBackward<T>>;
    using Row = typename F::Row;
    using Cached = typename F::Cached;
    struct alignas(64) Tile {
        C at[kFusedTile];
    };
    struct Tiles {
        Tile dy, x, residual_grad, gamma;
    };

    F f;
    int64_t n;
    FusedOperands<T, S, kIsAddNorm> of;  // pointers to this row

    static F function(const FusedOperands<T, S, kIsAddNorm>& of) {
        F f{};
        f.is_centered = of.is_centered;
        f.has_gamma = of.gamma != nullptr;
        if constexpr (kIsAddNorm) {
            f.has_residual_grad = of.residual_grad != nullptr;
            f.gamma_offset = of.gamma_offset;
        }
        return f;
    }

    FusedRow(const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>& all, int64_t row)
        : f(function(all)), n(rows.n), of(all) {
        of.dy += row * rows.pitch_dy;
        of.x += row * rows.pitch_x;
        if (of.residual_grad != nullptr) of.residual_grad += row * rows.pitch_residual_grad;
        if (of.dx != nullptr) of.dx += row * rows.pitch_dx;
        if (of.mean != nullptr) of.mean += row * rows.pitch_saved;
        if (of.statistic != nullptr) of.statistic += row * rows.pitch_saved;
        if (of.new_mean != nullptr) of.new_mean += row * rows.pitch_saved;
        if (of.new_statistic != nullptr) of.new_statistic += row * rows.pitch_saved;
    }

    // Writes dx of the row and adds its dgamma and dbeta to gamma and, if not null, beta: both padded to whole tiles.
    BK_HD void run(C* gamma, C* beta) const {
        Row row = start();
        Tile g{}, gx{};
        each_tile([&](int64_t first, int count, const Tiles& tiles) BK_INLINED {
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedTile; ++i) {
                const Cached held = transform(row, first + i, tiles, i);
                g.at[i] += i < count ? held.g : C(0);
                gx.at[i] += i < count ? held.g * held.x_hat : C(0);
            }
        });
        f.finish(row, {sum_of(g.at), sum_of(gx.at)}, n);
        each_tile([&](int64_t first, int count, const Tiles& tiles) BK_INLINED {
            Tile result;
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedTile; ++i) {
                const Cached held = transform(row, first + i, tiles, i);
                result.at[i] = get<0>(f.map(row, Nothing{}, first + i, held));
                gamma[first + i] += tiles.dy.at[i] * held.x_hat;
            }
            if (beta != nullptr) {
                BK_CHUNK_LOOP
                for (int i = 0; i < kFusedTile; ++i) beta[first + i] += tiles.dy.at[i];
            }
            if (of.dx != nullptr) store(of.dx + first, result, count);
        });
    }

private:
    BK_HD Row start() const {
        if constexpr (kIsAddNorm) {
            if (of.new_statistic == nullptr) return f.start(*of.mean, *of.statistic);
            const auto found = statistics();
            if (of.is_centered) *of.new_mean = get<0>(found);
            *of.new_statistic = get<1>(found);
            return f.start(get<0>(found), get<1>(found));
        } else {
            return f.start(C(1), widen(*of.mean), widen(*of.statistic), C(0), C(0));
        }
    }

    // Computes the mean and the statistic of the row.
    BK_HD auto statistics() const {
        NormForward<T> forward{};
        forward.eps = of.eps;
        forward.is_centered = of.is_centered;
        typename NormForward<T>::Row row;
        typename NormForward<T>::Acc all;
        do {
            all = forward.identity();
            for (int64_t first = 0; first < n; first += kFusedTile) {
                const RowChunk where{first, tile_size_at(first)};
                Tile x;
                load(x, of.x + first, where.exist);
                typename NormForward<T>::Cached held[kFusedTile];
                BK_CHUNK_LOOP
                for (int i = 0; i < kFusedTile; ++i) held[i].x = x.at[i];
                all = forward.combine(all, forward.reduce_tile(row, held, where));
            }
        } while (forward.finish(row, all, n));
        return forward.saved(row);
    }

    BK_HD int tile_size_at(int64_t first) const { return static_cast<int>(std::min<int64_t>(kFusedTile, n - first)); }

    BK_HD Cached transform(const Row& row, int64_t j, const Tiles& tiles, int i) const {
        if constexpr (kIsAddNorm)
            return f.transform(row, j, tiles.dy.at[i], tiles.residual_grad.at[i], tiles.x.at[i], tiles.gamma.at[i]);
        else
            return f.transform(row, j, tiles.dy.at[i], tiles.x.at[i], tiles.gamma.at[i]);
    }

    // Calls body(first, count, tiles) for each tile of the row; elements behind its end are 0.
    template <class Body>
    BK_HD void each_tile(const Body& body) const {
        for (int64_t first = 0; first < n; first += kFusedTile) {
            const int count = tile_size_at(first);
            Tiles tiles;
            load(tiles.dy, of.dy + first, count);
            load(tiles.x, of.x + first, count);
            load(tiles.gamma, of.gamma == nullptr ? nullptr : of.gamma + first, count);
            if constexpr (kIsAddNorm)
                load(tiles.residual_grad, of.residual_grad == nullptr ? nullptr : of.residual_grad + first, count);
            body(first, count, tiles);
        }
    }

    // Loads zeros if `from` is null.
    static BK_HD void load(Tile& to, const T* from, int count) {
        if (from == nullptr) {  // memset would become a slow string instruction
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedTile; ++i) to.at[i] = C(0);
            return;
        }
        Block<T, kFusedTile> buffer;
        if (count < kFusedTile) {
            memset(buffer.cell, 0, sizeof(buffer.cell));
            gather_run(buffer.cell, from, 1, count);
            from = buffer.cell;
        }
        if constexpr (std::is_same_v<T, f16>) {
            widen_span(to.at, from, kFusedTile);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedTile; ++i) to.at[i] = widen(from[i]);
        }
    }

    static BK_HD void store(T* dx, const Tile& from, int count) {
        Block<T, kFusedTile> buffer;
        T* const to = count < kFusedTile ? buffer.cell : dx;
        if constexpr (std::is_same_v<T, f16>) {
            narrow_span(to, from.at, kFusedTile);
        } else {
            BK_CHUNK_LOOP
            for (int i = 0; i < kFusedTile; ++i) to[i] = narrow<T>(from.at[i]);
        }
        if (count < kFusedTile) scatter_run(dx, buffer.cell, 1, count);
    }
};

template <class T, class S, bool kIsAddNorm>
Status fused_rows(const Launch& launch, const FusedRows& rows, const FusedOperands<T, S, kIsAddNorm>& operands) {
    using C = compute_t<T>;
    Carver carver(launch.workspace);
    const FusedPartials<T> all(&carver, rows);
    const bool has_beta = operands.dbeta != nullptr;
    parallel_rows(all.count, 1, [&](int64_t begin, int64_t end) {
        for (int64_t partial = begin; partial < end; ++partial) {
            C* const sums[] = {all.gamma + partial * rows.n, has_beta ? all.beta + partial * rows.n : nullptr};
            C* const block_sums = all.block_sums + partial * 2 * all.padded_n;
            const int64_t start = partial * all.rows, stop = std::min(start + all.rows, rows.rows);
            for (int64_t first = start; first < stop; first += kFusedBlockRows) {
                std::fill_n(block_sums, 2 * all.padded_n, C(0));
                for (int64_t r = first; r < std::min(first + kFusedBlockRows, stop); ++r)
                    FusedRow<T, S, kIsAddNorm>(rows, operands, r)
                        .run(block_sums, has_beta ? block_sums + all.padded_n : nullptr);
                for (int k = 0; k < 2 && sums[k] != nullptr; ++k) {
                    const C* const run = block_sums + k * all.padded_n;
                    BK_VECTOR_LOOP
                    for (int64_t i = 0; i < rows.n; ++i) sums[k][i] = first == start ? run[i] : sums[k][i] + run[i];
                }
            }
        }
    });
    return reduce_fused_partials(launch, all.count, rows.n, static_cast<const C*>(all.gamma),
                                 has_beta ? static_cast<const C*>(all.beta) : nullptr, operands.dgamma, operands.dbeta);
}

}  // namespace bk
