// SPDX-License-Identifier: Apache-2.0
// Launches of the mma.sync attention kernels: which problems they serve, and the splits of the keys.
#pragma once

#include <cstdint>

#include "attention/sm80/softmax.cuh"
#include "attention/sm80/tile.cuh"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/reference_chip.h"

namespace bk::sm80 {

constexpr int64_t kInvariantSplit = 2048;  // keys of a split where results may not depend on the batch
constexpr int64_t kMaxLength = int64_t{1} << 30;
constexpr int kMaxSplits = 128;
constexpr int64_t kSlabBytes = int64_t{64} << 20;  // partial results of queries that are split for their bits

template <class T, class KV>
bool suits_mma(const AttentionForward<T, KV>& p, int64_t most_d_k = 256, int64_t most_d_v = 256) {
    const int64_t group = p.kv_heads > 0 ? p.heads / p.kv_heads : 0;
    return p.d_k >= 0 && p.d_k <= most_d_k && p.d_v > 0 && p.d_v <= most_d_v && p.weights.values == Values::kNone &&
           p.lengths.q_len < kMaxLength && p.lengths.k_len < kMaxLength && group > 0 && group <= kMaxLength / 64 &&
           p.rules.blocks.size < kMaxLength && p.lengths.page_size < kMaxLength && p.batch * p.heads < kMaxLength &&
           p.lengths.total_q < kMaxLength;
}

template <class T>
bool copies_rows(const HeadsView<T>& view) {
    return has_aligned_rows(view.data, view.batch, view.head, view.row);
}

template <class T>
bool stores_pairs(const HeadsView<T>& view) {
    const uint64_t bits =
        reinterpret_cast<uintptr_t>(view.data) / sizeof(T) | static_cast<uint64_t>(view.batch | view.head | view.row);
    return bits % 2 == 0;
}

// Row tiles whose partial results the workspace holds: all, or in calls that may not depend on the batch, where long
// queries are split too, as many as fit in kSlabBytes.
inline int64_t items_of_slab(const Partials& plan, int64_t items, int64_t d_v, bool is_batch_invariant) {
    const int64_t bytes = plan.rows * plan.splits * (d_v + 1) * static_cast<int64_t>(sizeof(float));
    return is_batch_invariant ? clamp_row(kSlabBytes / (bytes > 0 ? bytes : 1), 1, items) : items;
}

// Memory for the partial results of `items` row tiles.
inline Partials carve_partials(Carver* carver, int64_t items, const Partials& plan, int64_t d_v) {
    const int64_t parts = items * plan.rows * plan.splits;
    Partials partials = plan;
    partials.log2_sum = carver->take<float>(parts);
    partials.output = carver->take<float>(parts * d_v);
    return partials;
}

// The fewest splits that keep the chip at least 95 % as busy as the best number does (after Flash-Decoding), where
// `resident` blocks run at a time and a split has at least `least` keys.
inline int splits_of(int64_t blocks, int64_t resident, int64_t k_len, int64_t least) {
    const auto most = static_cast<int>(clamp_row(ceil_div(k_len, least), 1, kMaxSplits));
    const auto efficiency = [&](int splits) {
        const int64_t all = blocks * splits;
        return static_cast<double>(all) / static_cast<double>(ceil_div(all, resident) * resident);
    };
    double best = 0;
    for (int splits = 1; splits <= most; ++splits) best = efficiency(splits) > best ? efficiency(splits) : best;
    int splits = 1;
    while (splits < most && efficiency(splits) < 0.95 * best) ++splits;
    return splits;
}

// Batch-invariant calls split by size, with or without a workspace.
inline Status fail_without_partials(const Launch& launch, size_t needed) {
    return fail(Status::kWorkspaceTooSmall,
                "workspace has %zu bytes, needs %zu: batch-invariant attention merges parts of keys",
                launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, needed);
}

// Splits of kInvariantSplit keys. k_len bounds the keys of each sequence, with pages those of all: blocks of splits that a
// sequence does not have leave at once.
inline int invariant_splits(int64_t k_len) { return static_cast<int>(clamp_row(ceil_div(k_len, kInvariantSplit), 1, 1 << 20)); }

}  // namespace bk::sm80
