// SPDX-License-Identifier: Apache-2.0
// Chooses shapes of the mma.sync backward kernels, and launches them: delta, then dk and dv, then dq.
#pragma once

#include <cstdint>
#include <type_traits>

#include "attention/sm80/backward_mma.cuh"
#include "attention/sm80/mma.h"
#include "attention/sm80/plan.cuh"

namespace bk::sm80 {

template <class T>
bool suits_backward(const AttentionBackward<T>& p) {
    return suits_mma(p.forward) && p.forward.lengths.page_ids == nullptr;
}

template <class T>
size_t carve_backward(void* workspace, const AttentionForward<T>& p, BackwardMma<T>* g) {
    Carver carver(workspace);
    const int64_t rows = p.batch * p.heads * p.lengths.q_len;
    g->log2_sum = carver.take<float>(rows);
    g->delta = carver.take<float>(rows);
    return carver.bytes();
}

template <class T, int kWidth, int kOutputs, bool kIsGeneral>
Status launch_outputs(const Launch& launch, BackwardMma<T> g, bool* is_taken) {
    using Shape = BackwardShape<kWidth, kWidth, kIsGeneral>;
    constexpr bool kIsKeys = kOutputs != kDq;
    const AttentionForward<T>& f = g.p.forward;
    // Rows that no sequence owns are the first tile's, so that there is one even if all sequences are empty.
    const bool has_unowned = (kIsKeys ? f.lengths.k_offsets : f.lengths.q_offsets) != nullptr;
    const int64_t tiles = ceil_div<int64_t>(kIsKeys ? f.lengths.k_len : f.lengths.q_len, kResident);
    g.tiles = static_cast<int>(tiles == 0 && has_unowned ? 1 : tiles);
    const int64_t blocks = g.tiles * f.batch * (kIsKeys ? f.kv_heads : f.heads);
    if (blocks == 0) return Status::kOk;
    if (blocks > INT32_MAX) {
        *is_taken = false;
        return Status::kOk;
    }
    return launch_kernel(launch, {dim3(static_cast<unsigned>(blocks)), dim3(kBackwardThreads), 1, Shape::kBytes},
                         attention_backward_kernel<T, kWidth, kWidth, kOutputs, kIsGeneral>, g);
}

// Both sums of 256 columns do not fit in registers.
template <class T, int kWidth, bool kIsGeneral>
Status launch_keys(const Launch& launch, const BackwardMma<T>& g, bool* is_taken) {
    if constexpr (kWidth <= 128) {
        if (g.p.dk.data == nullptr && g.p.dv.data == nullptr) return Status::kOk;
        return launch_outputs<T, kWidth, kDk_ | kDv_, kIsGeneral>(launch, g, is_taken);
    } else {
        if (g.p.dk.data != nullptr) BK_TRY((launch_outputs<T, kWidth, kDk_, kIsGeneral>(launch, g, is_taken)));
        if (g.p.dv.data == nullptr) return Status::kOk;
        return launch_outputs<T, kWidth, kDv_, kIsGeneral>(launch, g, is_taken);
    }
}

template <class T, int kWidth, bool kIsGeneral>
Status launch_gradients(const Launch& launch, const BackwardMma<T>& g, bool* is_taken) {
    BK_TRY((launch_keys<T, kWidth, kIsGeneral>(launch, g, is_taken)));
    if (g.p.dq.data == nullptr && g.p.dbias == nullptr) return Status::kOk;
    return launch_outputs<T, kWidth, kDq, kIsGeneral>(launch, g, is_taken);
}

template <class T, int kWidth>
Status launch_backward(const Launch& launch, const BackwardMma<T>& g, bool* is_taken) {
    if (is_plain(g.p.forward.rules) && g.p.dbias == nullptr) return launch_gradients<T, kWidth, false>(launch, g, is_taken);
    return launch_gradients<T, kWidth, true>(launch, g, is_taken);
}

}  // namespace bk::sm80

namespace bk {

template <class T>
size_t attention_backward_mma_workspace(const AttentionBackward<T>& p) {
    sm80::BackwardMma<T> g{};
    return sm80::suits_backward(p) ? sm80::carve_backward(nullptr, p.forward, &g) : 0;
}

template <class T>
Status attention_backward_mma(const Launch& launch, const AttentionBackward<T>& p, bool* is_taken) {
    const AttentionForward<T>& f = p.forward;
    sm80::BackwardMma<T> g{};
    *is_taken = sm80::suits_backward(p) && p.y.data != nullptr && p.dy.data != nullptr && f.lse.data != nullptr;
    if (!*is_taken) return Status::kOk;
    g.p = p;
    const size_t needed = sm80::carve_backward(launch.workspace, f, &g);
    const int64_t rows = f.batch * f.heads * f.lengths.q_len, blocks = ceil_div<int64_t>(rows, sm80::kBackwardThreads / 32);
    *is_taken = (rows == 0 || workspace_holds(launch, needed)) && blocks <= INT32_MAX;
    if (!*is_taken) return Status::kOk;
    g.copies_q = sm80::copies_rows(f.q);
    g.copies_k = sm80::copies_rows(f.k);
    g.copies_v = sm80::copies_rows(f.v);
    g.copies_dy = sm80::copies_rows(p.dy);
    g.pairs_dq = sm80::stores_pairs(p.dq);
    g.pairs_dk = sm80::stores_pairs(p.dk);
    g.pairs_dv = sm80::stores_pairs(p.dv);
    g.pairs_dbias = is_aligned(p.dbias, 2 * sizeof(T));
    if (rows > 0)
        BK_TRY(launch_kernel(launch, {dim3(static_cast<unsigned>(blocks)), dim3(sm80::kBackwardThreads)},
                             sm80::attention_delta_kernel<T>, g));
    if (p.dsinks != nullptr && f.rules.sinks != nullptr && f.heads > 0)
        BK_TRY(launch_kernel(launch, {dim3(static_cast<unsigned>(f.heads)), dim3(sm80::kBackwardThreads)},
                             sm80::attention_dsinks_kernel<T>, g));
    if (p.dbias != nullptr && rows * f.lengths.k_len > 0)
        BK_TRY(fill_bytes(launch, p.dbias, 0, static_cast<size_t>(rows * f.lengths.k_len) * sizeof(T)));
    const int64_t width = f.d_k > f.d_v ? f.d_k : f.d_v;
    if (width <= 64) return sm80::launch_backward<T, 64>(launch, g, is_taken);
    if (width <= 128) return sm80::launch_backward<T, 128>(launch, g, is_taken);
    return sm80::launch_backward<T, 256>(launch, g, is_taken);
}

}  // namespace bk
