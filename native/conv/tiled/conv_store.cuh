// SPDX-License-Identifier: Apache-2.0
// Results of an implicit GEMM: staged in shared memory, then stored along channels, or along pixels where these are adjacent.
#pragma once

#include <cstdint>
#include <type_traits>

#include "conv/tiled/conv_gemm.h"
#include "gemm/tiled/matmul_mma.cuh"
#include "gemm/tiled/matmul_tile_scheduler.cuh"

namespace bk {

// Sums of signed, or of unsigned, by signed bytes.
struct s8_sums {};
struct u8_sums {};
template <>
struct MatmulType<s8_sums> : MatmulType<i32_results<int8_t>> {};
template <>
struct MatmulType<u8_sums> : MatmulType<i32_results<uint8_t>> {};
template <>
struct MmaTraits<u8_sums> : MmaTraits<i32_results<uint8_t>> {
    using Step = Mma<u8_by_s8>;
};

// Destination of a kernel's results. Epilogue `e` has the strides of offsets: result (row, column) of a matrix is element
// row + column if channels are adjacent, else column * stride + row, in which case the bias is that of rows.
template <class T>
struct ConvStore {
    Epilogue<T> e;
    bool along_rows = false;  // adjacent rows are adjacent in memory, adjacent columns are not
    bool in_pairs = false;    // pairs of columns are aligned

    BK_DEVICE void pair(int64_t offset, int64_t column, int64_t end, matmul_scalar_t<T> first,
                        matmul_scalar_t<T> second) const {
        store_pair(e, 0, offset, column, end, first, second, in_pairs);
    }
    BK_DEVICE void one(int64_t offset, int64_t column, matmul_scalar_t<T> sum) const { e.store_one(0, column, offset, sum); }
};

// The activation of an 8-bit product. A call: inlined it would need registers beside those of all sums.
BK_DEVICE_COLD float activate_scaled(Activation activation, float z) {
    return Epilogue<float>::activated_as<float>(activation, z);
}

// 8-bit operands: exact sums, or scaled ones of a dtype known at run time.
struct ConvInt8Store {
    void* y = nullptr;
    int64_t column_stride = 1;
    ConvInt8Epilogue e;
    bool along_rows = false;

    BK_DEVICE void store(int64_t at, int64_t column, int32_t sum) const {
        if (e.type == ConvResult::kI32) {
            static_cast<int32_t*>(y)[at] = sum;
            return;
        }
        float z = e.alpha * static_cast<float>(sum);
        if (e.scale != nullptr) z *= e.scale[column];
        if (e.bias != nullptr) z += e.bias[column];
        if (e.activation != Activation::kNone) z = activate_scaled(e.activation, z);
        switch (e.type) {
            case ConvResult::kF16: static_cast<f16*>(y)[at] = narrow<f16>(z); break;
            case ConvResult::kBf16: static_cast<bf16*>(y)[at] = narrow<bf16>(z); break;
            case ConvResult::kI8: static_cast<int8_t*>(y)[at] = to_integer<int8_t>(math::rint<float>(z)); break;
            default: static_cast<float*>(y)[at] = z;
        }
    }
    BK_DEVICE void pair(int64_t offset, int64_t column, int64_t end, int32_t first, int32_t second) const {
#pragma unroll 1
        for (int v = 0; v < 2 && column + v < end; ++v) store(offset + column + v, column + v, v == 0 ? first : second);
    }
    BK_DEVICE void one(int64_t offset, int64_t column, int32_t sum) const {
        store(offset + column * column_stride, column, sum);
    }
};
template <>
struct ConvStore<s8_sums> : ConvInt8Store {};
template <>
struct ConvStore<u8_sums> : ConvInt8Store {};

constexpr int64_t kNoOffset = INT64_MIN;

template <class T, int kSide, class Maps>
BK_DEVICE void store_conv_tile(const ConvGemm<T>& p, const ConvStore<T>& to, const SplitK<matmul_scalar_t<T>>& split,
                               const WarpAccumulators<T, kSide>& sums, const Maps& maps, const TileCoord& coord, char* shared,
                               int64_t* row_offsets, int warp_row, int warp_column, int thread) {
    using S = matmul_scalar_t<T>;
    constexpr int kPitch = kStagedPitch<kSide>, kPairs = kSide / 2;
    S* const staging = reinterpret_cast<S*>(shared);
    const int64_t channel = coord.matrix * p.channels;
#pragma unroll 1
    for (int pass = 0; pass < WarpAccumulators<T, kSide>::kRows; ++pass) {
        __syncthreads();
        stage_rows<T, kSide>(staging, sums, pass, warp_row, warp_column, thread % 32, coord.k_extent);
        if (thread < 32) {
            const int64_t row = coord.row + tile_row_of<kSide>(thread, pass);
            int64_t offset = kNoOffset;
            if (row < p.m && split.count > 1) {
                offset = row;
            } else if (row < p.m) {
                const IndexPosition position = p.result.locate(row);
                bool is_there = true;
                for (int d = 0; d < kConvAxes; ++d)
                    is_there = is_there && position.at[d] + maps.result_shift[d] < p.result_extent[d];
                if (is_there) offset = position.offset + maps.result_offset + coord.matrix * p.result_group;
            }
            row_offsets[thread] = offset;
        }
        __syncthreads();
        if (to.along_rows && split.count == 1) {
#pragma unroll 1
            for (int index = thread; index < 32 * kSide; index += kMatmulThreads) {
                const int staged_row = index % 32, at = index / 32;
                const int64_t offset = row_offsets[staged_row], column = coord.column + at;
                if (offset == kNoOffset || column >= p.n) continue;
                to.one(offset, channel + column, staging[staged_row * kPitch + at]);
            }
            continue;
        }
#pragma unroll 1
        for (int index = thread; index < 32 * kPairs; index += kMatmulThreads) {
            const int staged_row = index / kPairs, at = index % kPairs * 2;
            const int64_t offset = row_offsets[staged_row], column = coord.column + at;
            if (offset == kNoOffset || column >= p.n) continue;
            const S* const pair = staging + staged_row * kPitch + at;
            if (split.count > 1)
                store_partial(split, coord, p.m, p.n, offset, column, pair[0], pair[1]);
            else
                to.pair(offset, channel + column, channel + p.n, pair[0], pair[1]);
        }
    }
}

}  // namespace bk
