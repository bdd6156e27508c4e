// SPDX-License-Identifier: Apache-2.0
// The tiles of Hopper forward attention for each head dimension.
#include "attention/sm90/forward_wgmma.cuh"

namespace bk {

// Head dimensions are padded to the next of these by TMA's zero fill.
template <class T>
Status forward_sm90a(const Launch& launch, const AttentionForward<T>& p, bool* is_taken) {
    if (!suits_wgmma_forward(p)) return Status::kOk;
    if (has_general_rules(p.rules)) {
        if (!suits_score_tile(p.rules)) return Status::kOk;
        if (p.d_k <= 64 && p.d_v <= 64) return launch_forward<T, ForwardTile<2, 128, 64, 64>, true>(launch, p, is_taken);
        if (p.d_k <= 128 && p.d_v <= 128) return launch_forward<T, ForwardTile<2, 128, 128, 128>, true>(launch, p, is_taken);
        return Status::kOk;
    }
    const bool is_long = p.rules.band.is_all();  // few tiles at the edge of the band
    if (p.d_k <= 64 && p.d_v <= 64) return launch_forward<T, ForwardTile<3, 128, 64, 64>, false>(launch, p, is_taken);
    if (p.d_k <= 96 && p.d_v <= 96) return launch_forward<T, ForwardTile<2, 128, 96, 96>, false>(launch, p, is_taken);
    if (p.d_k <= 128 && p.d_v <= 128)
        return is_long ? launch_forward<T, ForwardTile<2, 176, 128, 128>, false>(launch, p, is_taken)
                       : launch_forward<T, ForwardTile<2, 128, 128, 128>, false>(launch, p, is_taken);
    if (p.d_k <= 192 && p.d_v <= 128) return launch_forward<T, ForwardTile<2, 128, 192, 128>, false>(launch, p, is_taken);
    if (p.d_k <= 192 && p.d_v <= 192) return launch_forward<T, ForwardTile<2, 96, 192, 192>, false>(launch, p, is_taken);
    return launch_forward<T, ForwardTile<2, 80, 256, 256>, false>(launch, p, is_taken);
}

template Status forward_sm90a(const Launch&, const AttentionForward<f16>&, bool*);
template Status forward_sm90a(const Launch&, const AttentionForward<bf16>&, bool*);

}  // namespace bk
