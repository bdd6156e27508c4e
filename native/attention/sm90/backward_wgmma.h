// SPDX-License-Identifier: Apache-2.0
// Hopper backward attention: interface of attention/sm90/backward_*_sm90a.cu to the choice among cores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/flash/problem.h"
#include "core/abi/arch.h"
#include "core/abi/workspace.h"

namespace bk {

// *is_taken tells whether TMA can load the operands and the kernels serve the problem, and so the result was computed.
template <class T>
Status backward_sm90a(const Launch& launch, const AttentionBackward<T>& p, bool* is_taken);

// Queries and keys of a tile and the padded head dimensions of the kernel for a problem; rows is 0 if there is none.
struct BackwardExtents {
    int rows, keys, d_k, d_v;
};

inline BackwardExtents backward_extents(int64_t d_k, int64_t d_v) {
    if (d_k <= 64 && d_v <= 64) return {128, 128, 64, 64};
    if (d_k <= 96 && d_v <= 96) return {64, 128, 96, 96};
    if (d_k <= 128 && d_v <= 128) return {64, 128, 128, 128};
    if (d_k <= 192 && d_v <= 128) return {64, 128, 192, 128};
    if (d_k <= 192 && d_v <= 192) return {64, 64, 192, 192};
    if (d_k <= 256 && d_v <= 256) return {64, 64, 256, 256};
    return {0, 0, 0, 0};
}

// Partial sums of dQ. Without a mask all tiles of keys of a head start at the same queries, and the n-th waits until n others
// have added theirs; where few heads make that wait a large part of the time, tiles alternate between several sums.
template <class T>
int backward_dq_copies(const AttentionForward<T>& p, const BackwardExtents& extents) {
    constexpr int64_t kBlocks = kReferenceSms, kMost = 4, kSteps = 16;  // steps for which one wait is small
    if (!p.rules.band.is_all() || p.is_batch_invariant) return 1;
    const int64_t tiles = ceil_div<int64_t>(p.lengths.k_len, extents.keys), heads = p.batch * p.kv_heads;
    const int64_t waits = std::min(tiles, std::max<int64_t>(kBlocks / heads, 1));
    const int64_t steps =
        ceil_div(tiles * heads, kBlocks) * ceil_div<int64_t>(p.lengths.q_len, extents.rows) * (p.heads / p.kv_heads);
    int copies = 1;
    while (copies < kMost && waits * kSteps > copies * steps) copies *= 2;
    return copies;
}

// Scratch of the kernels, for q_tiles tiles of queries of each head, those of sequence b from first_query_tile() on.
struct BackwardScratch {
    int64_t q_tiles = 0;
    int copies = 1;
    float* statistics = nullptr;  // [head][tile][2][row]: lse in base 2, +inf without keys, and delta
    float* dq = nullptr;          // [copy][head][tile]: sums in the order of the accumulators
    int* semaphores = nullptr;    // [copy][head][tile]: tiles of keys whose sum is in dq
    int* counter = nullptr;       // the next tile of keys

    template <class T>
    size_t carve(void* workspace, const AttentionForward<T>& p) {
        const BackwardExtents extents = backward_extents(p.d_k, p.d_v);
        if (extents.rows == 0 || p.batch < 1 || p.kv_heads < 1) return 0;
        const Lengths& lengths = p.lengths;
        q_tiles = lengths.q_offsets != nullptr ? lengths.total_q / extents.rows + p.batch
                                               : p.batch * ceil_div<int64_t>(lengths.q_len, extents.rows);
        copies = backward_dq_copies(p, extents);
        Carver carver(workspace);
        statistics = carver.take<float>(p.heads * q_tiles * 2 * extents.rows);
        dq = carver.take<float>(copies * p.heads * q_tiles * extents.rows * extents.d_k);
        semaphores = carver.take<int>(copies * p.heads * q_tiles);
        counter = carver.take<int>(1);
        return carver.bytes();
    }
};

template <class T>
Status attention_backward_wgmma(const Launch& launch, const AttentionBackward<T>& p, bool* is_taken) {
    const auto variant = choose({BK_SM(90a, backward_sm90a<T>)}, device_arch());
    return variant.run == nullptr ? Status::kOk : variant.run(launch, p, is_taken);
}

template <class T>
size_t attention_backward_wgmma_workspace(const AttentionBackward<T>& p) {
    return BackwardScratch().carve(nullptr, p.forward);
}

}  // namespace bk
