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
    switch (extents.d_k) {
        case 64: return launch_backward<T, BackwardTile<128, 64, 64>>(launch, p, true, is_taken);
        case 96: return launch_backward<T, BackwardTile<64, 96, 96>>(launch, p, true, is_taken);
        case 128: return launch_backward<T, BackwardTile<64, 128, 128>>(launch, p, true, is_taken);
        case 192:
            return extents.d_v == 128 ? launch_backward<T, BackwardTile<64, 192, 128, false>>(launch, p, true, is_taken)
                                      : launch_backward<T, BackwardTile<64, 192, 192>>(launch, p, true, is_taken);
        default: return launch_backward<T, BackwardTile<64, 256, 256>>(launch, p, true, is_taken);
    }
}

}  // namespace bk
