// SPDX-License-Identifier: Apache-2.0
// Which tiles of fused attention serve a dtype on this machine.
#pragma once

#include "attention/flash/tiles_cpu.h"

namespace bk::attention_cpu {

template <class T>
constexpr Packing kFmaUnits = std::is_same_v<T, double> ? Packing::kF64 : Packing::kF32;

// body(Tiles) for the instruction set in use. Dot products give way to FMA where a panel has subnormals, so that the bits of a
// row may depend on adjacent rows: batch-invariant attention has none.
template <class T, class Body>
auto with_tiles(const Body& body, [[maybe_unused]] bool is_batch_invariant = false) {
#if BK_ISA_DISPATCH
    if constexpr (std::is_same_v<T, bf16>)
        if (has_dot_products() && !is_batch_invariant) return body(Tiles<T, Packing::kBf16Pairs, 64>());
    if (vector_bytes() == 64) return body(Tiles<T, kFmaUnits<T>, 64>());
    if (vector_bytes() == 32) return body(Tiles<T, kFmaUnits<T>, 32>());
#endif
    return body(Tiles<T, kFmaUnits<T>, 16>());
}

}  // namespace bk::attention_cpu
