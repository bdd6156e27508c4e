// SPDX-License-Identifier: Apache-2.0
// Chooses width and splits of the decode kernels, and launches them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/sm80/decode_mma.cuh"
#include "attention/sm80/merge.cuh"
#include "attention/sm80/mma.h"
#include "attention/sm80/plan.cuh"

namespace bk::sm80 {

constexpr int64_t kDecodeBlocks = 3;   // of an SM, by their shared memory
constexpr int64_t kDecodeLeast = 128;  // keys of a split

template <class T, class KV>
DecodeMma<T, KV> plan_decode(const AttentionForward<T, KV>& p) {
    DecodeMma<T, KV> g{};
    g.p = p;
    g.tiles = static_cast<int>(ceil_div<int64_t>(p.lengths.q_len * (p.heads / p.kv_heads), kDecodeTile));
    g.group = static_cast<int>(p.heads / p.kv_heads);
    g.kv_heads = static_cast<int>(p.kv_heads);
    g.copies_k = copies_rows(p.k);
    g.copies_v = copies_rows(p.v);
    const int64_t rows = p.lengths.q_len * (p.heads / p.kv_heads);
    g.partials.rows = static_cast<int>(rows < kDecodeTile ? rows : kDecodeTile);
    g.is_one_page = p.lengths.page_ids == nullptr || p.lengths.page_size % kChunk == 0;
    g.page_size = FastDiv<uint32_t>(p.lengths.page_size);
    if (p.is_batch_invariant) {
        g.split_keys = kInvariantSplit;
        g.partials.splits = invariant_splits(p.lengths.k_len);
    } else {
        const int64_t blocks = g.tiles * p.batch * p.kv_heads;
        g.partials.splits = splits_of(blocks, kDecodeBlocks * kReferenceSms, p.lengths.k_len, kDecodeLeast);
    }
    return g;
}

template <class T, class KV, int kWidth>
Status launch_decode(const Launch& launch, const AttentionForward<T, KV>& p, bool* is_taken) {
    using Shape = DecodeShape<KV, kWidth>;
    DecodeMma<T, KV> g = plan_decode(p);
    const int64_t items = g.tiles * p.batch * p.kv_heads;
    int64_t slab = items;
    if (g.partials.splits > 1) {
        Carver carver(launch.workspace);
        slab = items_of_slab(g.partials, items, p.d_v, p.is_batch_invariant);
        g.partials = carve_partials(&carver, slab, g.partials, p.d_v);
        if (!workspace_holds(launch, carver.bytes())) {
            if (p.is_batch_invariant) return fail_without_partials(launch, carver.bytes());
            g.partials.splits = 1, slab = items;
        }
    }
    *is_taken = slab * g.partials.splits <= INT32_MAX && slab * g.partials.rows <= INT32_MAX;
    for (int64_t first = 0; first < items && *is_taken; first += slab) {
        const int64_t count = first + slab < items ? slab : items - first;
        g.partials.first_item = first;
        const auto blocks = static_cast<unsigned>(count * g.partials.splits);
        BK_TRY(launch_kernel(launch, {dim3(blocks), dim3(Shape::kThreads), 1, Shape::kBytes},
                             attention_decode_kernel<T, KV, kWidth>, g));
        if (g.partials.splits > 1) BK_TRY(merge_splits(launch, p, g.group, g.tiles, kDecodeTile, count, g.partials));
    }
    return Status::kOk;
}

}  // namespace bk::sm80

namespace bk {

template <class T, class KV>
Status attention_decode_mma(const Launch& launch, const AttentionForward<T, KV>& p, bool* is_taken) {
    *is_taken = sm80::suits_mma(p) && p.y.data != nullptr && p.lengths.q_len * (p.heads / p.kv_heads) < sm80::kMaxLength;
    if (!*is_taken || p.batch * p.heads * p.lengths.q_len == 0) return Status::kOk;
    const int64_t width = p.d_k > p.d_v ? p.d_k : p.d_v;
    if (width <= 64) return sm80::launch_decode<T, KV, 64>(launch, p, is_taken);
    if (width <= 128) return sm80::launch_decode<T, KV, 128>(launch, p, is_taken);
    return sm80::launch_decode<T, KV, 256>(launch, p, is_taken);
}

template <class T, class KV>
size_t attention_decode_mma_workspace(const AttentionForward<T, KV>& p) {
    if (!sm80::suits_mma(p)) return 0;
    const sm80::DecodeMma<T, KV> g = sm80::plan_decode(p);
    Carver carver;
    if (g.partials.splits > 1) {
        const int64_t items = g.tiles * p.batch * p.kv_heads;
        sm80::carve_partials(&carver, sm80::items_of_slab(g.partials, items, p.d_v, p.is_batch_invariant), g.partials, p.d_v);
    }
    return carver.bytes();
}

}  // namespace bk
