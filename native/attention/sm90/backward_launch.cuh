// SPDX-License-Identifier: Apache-2.0
// Chooses the tile of Hopper backward attention.
#pragma once

#include "attention/sm90/backward_wgmma.cuh"

namespace bk {

// Head dimensions are padded to those of the tile by TMA's zero fill.
template <class T>
Status backward_sm90a(const Launch& launch, const AttentionBackward<T>& p, bool* is_taken) {
    if (!suits_wgmma_backward(p)) return Status::kOk;
    const BackwardExtents extents = backward_extents(p.forward.d_k, p.forward.d_v);
    if (extents.d_k == 64) return launch_backward<T, BackwardTile<2, 128, 64, 64>>(launch, p, true, is_taken);
    return launch_backward<T, BackwardTile<2, 64, 128, 128>>(launch, p, true, is_taken);
}

}  // namespace bk
