// SPDX-License-Identifier: Apache-2.0
// Chooses shape, packing and splits of the mma.sync forward kernels, and launches them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/sm80/forward_mma.cuh"
#include "attention/sm80/merge.cuh"
#include "attention/sm80/mma.h"
#include "attention/sm80/plan.cuh"
#include "attention/sm80/wide_mma.cuh"

namespace bk::sm80 {

constexpr int64_t kPackedQueries = 64;                // queries up to which the heads of a group share a tile
constexpr int64_t kSectionBytes = int64_t{24} << 20;  // keys and values that stay in L2

template <int kDk_, int kDv_>
struct HeadShape {
    static constexpr int kDk = kDk_, kDv = kDv_;
};

// Calls f with the shape of the kernels that serve the head dimensions.
template <class F>
auto with_head_shape(int64_t d_k, int64_t d_v, const F& f) {
    if (d_k <= 64 && d_v <= 64) return f(HeadShape<64, 64>{});
    if (d_k <= 96 && d_v <= 96) return f(HeadShape<96, 96>{});
    if (d_k <= 128 && d_v <= 128) return f(HeadShape<128, 128>{});
    if (d_k <= 192 && d_v <= 128) return f(HeadShape<192, 128>{});
    return f(HeadShape<256, 256>{});
}

// `blocks_of_sm`: blocks that an SM holds.
template <class T>
ForwardMma<T> plan_forward(const AttentionForward<T>& p, int rows_of_tile, int64_t blocks_of_sm = 2) {
    const int64_t group = p.heads / p.kv_heads;
    ForwardMma<T> g{};
    g.p = p;
    g.kv_group = static_cast<int>(group);
    g.group = p.lengths.q_len <= kPackedQueries ? static_cast<int>(group) : 1;
    g.tiles = static_cast<int>(ceil_div<int64_t>(p.lengths.q_len * g.group, rows_of_tile));
    g.sets = static_cast<int>(p.batch * p.heads / g.group);
    const int64_t bytes = p.lengths.k_len * (p.d_k + p.d_v) * static_cast<int64_t>(sizeof(T));
    const int64_t section = kSectionBytes / (bytes > 0 ? bytes : 1) * (group / g.group);
    g.section = static_cast<int>(clamp_row(section, 1, g.sets));
    g.copies_q = copies_rows(p.q);
    g.copies_k = copies_rows(p.k);
    g.copies_v = copies_rows(p.v);
    g.stores_pairs = stores_pairs(p.y);
    g.page_size = FastDiv<uint32_t>(p.lengths.page_size);
    const int64_t rows = p.lengths.q_len * g.group, items = int64_t{g.tiles} * g.sets;
    g.partials.rows = static_cast<int>(rows < rows_of_tile ? rows : rows_of_tile);
    if (p.is_batch_invariant) {
        g.split_keys = kInvariantSplit;
        g.partials.splits = invariant_splits(p.lengths.k_len);
    } else if (blocks_of_sm * items <= kReferenceSms) {
        g.partials.splits = splits_of(items, blocks_of_sm * kReferenceSms, p.lengths.k_len, 256);
    }
    return g;
}

template <class T>
int64_t items_of_slab(const ForwardMma<T>& g) {
    return items_of_slab(g.partials, int64_t{g.tiles} * g.sets, g.p.d_v, g.p.is_batch_invariant);
}

// Bytes of the partial results.
template <class T>
size_t partial_bytes(const AttentionForward<T>& p, const ForwardMma<T>& g) {
    Carver carver;
    if (g.partials.splits > 1) carve_partials(&carver, items_of_slab(g), g.partials, p.d_v);
    return carver.bytes();
}

template <class T>
bool is_wide(const AttentionForward<T>& p) {
    return p.d_k > 256 || p.d_v > 256;
}

// Whether a tile of the decode kernel has all rows that share keys. That kernel's bits differ from the forward kernel's.
template <class T>
bool suits_decode(const AttentionForward<T>& p) {
    return p.kv_heads > 0 && p.lengths.q_len * (p.heads / p.kv_heads) <= 16 && !p.is_batch_invariant;
}

// Launches `kernel`, whose tiles have Tile::kRows rows, and the merge of its splits.
template <class T, class Tile>
Status launch_row_tiles(const Launch& launch, const AttentionForward<T>& p, ForwardMma<T> g, void (*kernel)(ForwardMma<T>),
                        int threads, bool* is_taken) {
    const int64_t all = int64_t{g.tiles} * g.sets;
    int64_t slab = all;
    if (g.partials.splits > 1) {
        Carver carver(launch.workspace);
        slab = items_of_slab(g);
        g.partials = carve_partials(&carver, slab, g.partials, p.d_v);
        if (!workspace_holds(launch, carver.bytes())) {
            if (p.is_batch_invariant) return fail_without_partials(launch, carver.bytes());
            g.partials.splits = 1, slab = all;
        }
    }
    if (slab < all) g.section = 0;
    *is_taken = slab * g.partials.splits <= INT32_MAX && slab * g.partials.rows <= INT32_MAX;
    for (int64_t first = 0; first < all && *is_taken; first += slab) {
        const int64_t items = first + slab < all ? slab : all - first;
        g.partials.first_item = first;
        Grid grid{dim3(static_cast<unsigned>(items * g.partials.splits)), dim3(static_cast<unsigned>(threads))};
        grid.shared = Tile::kBytes;
        BK_TRY(launch_kernel(launch, grid, kernel, g));
        if (g.partials.splits > 1) BK_TRY(merge_splits(launch, p, g.group, g.tiles, Tile::kRows, items, g.partials));
    }
    return Status::kOk;
}

template <class T, class Shape, bool kIsGeneral>
Status launch_forward(const Launch& launch, const AttentionForward<T>& p, bool* is_taken) {
    using Tile = ForwardShape<Shape::kDk, Shape::kDv, kIsGeneral>;
    return launch_row_tiles<T, Tile>(launch, p, plan_forward(p, Tile::kRows),
                                     attention_forward_kernel<T, Shape::kDk, Shape::kDv, kIsGeneral>, kThreads, is_taken);
}

template <class T>
Status launch_wide(const Launch& launch, const AttentionForward<T>& p, bool* is_taken) {
    *is_taken = suits_mma(p, WideShape::kDk, WideShape::kDv) && p.y.data != nullptr && has_shared(WideShape::kBytes);
    if (!*is_taken || p.batch * p.heads * p.lengths.q_len == 0) return Status::kOk;
    return launch_row_tiles<T, WideShape>(launch, p, plan_forward(p, WideShape::kRows, 1), attention_wide_kernel<T>,
                                          WideShape::kThreads, is_taken);
}

}  // namespace bk::sm80

namespace bk {

template <class T>
Status attention_forward_mma(const Launch& launch, const AttentionForward<T>& p, bool* is_taken) {
    if (sm80::is_wide(p)) return sm80::launch_wide(launch, p, is_taken);
    if (sm80::suits_decode(p)) return attention_decode_mma(launch, p, is_taken);
    *is_taken = sm80::suits_mma(p) && p.y.data != nullptr;
    if (!*is_taken || p.batch * p.heads * p.lengths.q_len == 0) return Status::kOk;
    return sm80::with_head_shape(p.d_k, p.d_v, [&](auto shape) {
        using Shape = decltype(shape);
        if (sm80::is_plain(p.rules)) return sm80::launch_forward<T, Shape, false>(launch, p, is_taken);
        return sm80::launch_forward<T, Shape, true>(launch, p, is_taken);
    });
}

template <class T>
size_t attention_forward_mma_workspace(const AttentionForward<T>& p) {
    if (sm80::is_wide(p)) {
        using Shape = sm80::WideShape;
        return sm80::suits_mma(p, Shape::kDk, Shape::kDv) ? sm80::partial_bytes(p, sm80::plan_forward(p, Shape::kRows, 1)) : 0;
    }
    if (sm80::suits_decode(p)) return attention_decode_mma_workspace(p);
    if (!sm80::suits_mma(p)) return 0;
    return sm80::with_head_shape(p.d_k, p.d_v, [&](auto shape) {
        using Shape = decltype(shape);
        size_t most = 0;  // the rules may not be known yet
        for (const int rows : {sm80::ForwardShape<Shape::kDk, Shape::kDv, false>::kRows,
                               sm80::ForwardShape<Shape::kDk, Shape::kDv, true>::kRows}) {
            const size_t bytes = sm80::partial_bytes(p, sm80::plan_forward(p, rows));
            most = bytes > most ? bytes : most;
        }
        return most;
    });
}

}  // namespace bk
