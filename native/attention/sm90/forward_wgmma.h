// SPDX-License-Identifier: Apache-2.0
// Hopper forward attention: interface of attention/sm90/forward_*_sm90a.cu to the choice among cores.
#pragma once

#include <cstddef>

#include "attention/flash/problem.h"
#include "core/abi/arch.h"

namespace bk {

// *is_taken tells whether TMA can load the operands and the kernels serve the problem, and so the result was computed.
template <class T>
Status forward_sm90a(const Launch& launch, const AttentionForward<T>& p, bool* is_taken);

// Bytes of the counter from which blocks take tiles; without a workspace each block has one tile.
constexpr size_t kForwardWgmmaWorkspace = sizeof(int);

template <class T>
Status attention_forward_wgmma(const Launch& launch, const AttentionForward<T>& p, bool* is_taken) {
    const auto variant = choose({BK_SM(90a, forward_sm90a<T>)}, device_arch());
    return variant.run == nullptr ? Status::kOk : variant.run(launch, p, is_taken);
}

}  // namespace bk
