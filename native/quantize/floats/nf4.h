// SPDX-License-Identifier: Apache-2.0
// NF4 weights in the layout of row pairs: dequantisation, and products with 1, 2, 4 or 8 vectors.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "quantize/floats/four_bit.h"

namespace bk::floats {

struct Nf4Shape {
    int32_t n, k, block_size;

    int32_t row_pairs() const { return n / 2; }
    int32_t blocks() const { return k / block_size; }

    Work work() const { return Work::kAll; }
    Status check() const {
        for (const NamedExtent& e : {NamedExtent{"n", n}, NamedExtent{"k", k}, NamedExtent{"block_size", block_size}})
            if (e.value <= 0)
                return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
        if (k % block_size != 0)
            return fail(Status::kInvalidProblem, "k is %d, must be a multiple of block_size, %d", k, block_size);
        if (n % 2 != 0) return fail(Status::kInvalidProblem, "n is %d, must be even: bytes have two rows", n);
        return Status::kOk;
    }
    FourBitWeights weights(const uint8_t* packed, const float* absmax) const {
        return {FourBitLayout::kRowPairs,
                codec::CodeBook::kNf4,
                n,
                k,
                block_size,
                packed,
                {absmax, nullptr, nullptr, nullptr, nullptr}};
    }
};

template <class T>
struct Nf4Dequantize : Nf4Shape {
    Status run(const uint8_t* w_packed, const float* absmax, T* out, const Launch& launch) const {
        const bool aligned = k % kVectorBytes == 0 && is_aligned(w_packed, kVectorBytes) && is_aligned(out, kVectorBytes);
        const int64_t tiles = ceil_div<int64_t>(k, kFourBitTile);
        const RowPairsJob<T> job{weights(w_packed, absmax),
                                 tiles,
                                 blocks(),
                                 FastDiv<uint32_t>(block_size),
                                 block_size % RowPairsJob<T>::kColumns == 0,
                                 aligned,
                                 out};
        return run_row_pairs(launch, row_pairs() * tiles, k < kFourBitTile ? k : kFourBitTile, job);
    }
};

template <class T, int kVectors>
struct Nf4Gemv : Nf4Shape {
    static constexpr int32_t vectors() { return kVectors; }
    Status run(const uint8_t* w_packed, const float* absmax, const T* y, T* out, const Launch& launch) const {
        return four_bit_product<FourBitLayout::kRowPairs>(launch, weights(w_packed, absmax), kVectors, y, out);
    }
};

}  // namespace bk::floats

#if BK_CUDA
#include "quantize/floats/nf4_cuda.cuh"
#else
#include "quantize/floats/nf4_cpu.h"
#endif
