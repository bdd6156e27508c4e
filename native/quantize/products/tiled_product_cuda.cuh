// SPDX-License-Identifier: Apache-2.0
// Tiles of products with quantised weights, by mma.sync. Rows of weights are the rows of the mma, rows of x its columns: an
// f32 is the exact sum of three bf16, each a column of its own.
//
// The bytes of the weights arrive by cp.async in stages of 128 or 256 K elements, two of them, those of x in slabs of 64 K
// elements, three of them. While a block multiplies a slab, it decodes the next one: codes as E into shared memory, and a
// scale and an offset for each group of 16 or 32 beside them. Sums of x over the groups multiply the offsets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/launch_cuda.h"
#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/tensor_core.cuh"
#include "core/types/vec.h"
#include "quantize/products/tiled_product.h"
#include "quantize/products/tiled_weights.cuh"
#include "quantize/products/weight_stages.cuh"

namespace bk {

constexpr int kSlabK = 64, kSlabBytes = 2 * kSlabK, kXSlabs = 3, kSlabGroups = kSlabK / 16;

template <int kWeightRows, int kXColumns, int kWarpsAlongWeights, int kWarpsAlongX>
struct ProductTile {
    static constexpr int kW = kWeightRows, kX = kXColumns, kWarpsW = kWarpsAlongWeights, kWarpsX = kWarpsAlongX;
    static constexpr int kWarps = kWarpsW * kWarpsX, kThreads = 32 * kWarps, kResident = kThreads == 128 ? 3 : 1;
    static constexpr int kWarpRows = kW / kWarpsW, kWarpColumns = kX / kWarpsX;
    static constexpr int kRowBlocks = kWarpRows / 16, kColumnBlocks = kWarpColumns / 8;

    // Shared memory in bytes: slabs of x and of weights, scales, offsets, sums of x, and stages; at the end the results.
    static constexpr int kWeights = kXSlabs * kX * kSlabBytes, kScales = kWeights + 2 * kW * kSlabBytes,
                         kOffsets = kScales + 2 * kSlabGroups * kW * 4, kSums = kOffsets + 2 * kSlabGroups * kW * 4,
                         kStages = kSums + 2 * kSlabGroups * kX * 4;
    static constexpr int kResultPitch = kW + 4;
    static_assert(kX * kResultPitch * 4 <= kStages + 2 * kW * 48, "results overwrite the operands");
};

// Stages of a format: rows of `pitch` bytes, an odd number of vectors, so that eight rows' words are in different banks.
struct StageLayout {
    int32_t k, block, block_bytes, align;
    int32_t vectors, lanes, pitch;  // of a row; lanes that copy one: the least power of two that is not below `vectors`
    bool has_small_groups, has_offset;

    // Sets all from a form.
    template <class Form>
    BK_HD void operator()(Form) {
        block = Form::kBlock;
        block_bytes = Form::kBlockBytes;
        align = Form::kAlign;
        has_small_groups = Form::kGroup == 16;
        has_offset = Form::kHasOffset;
        k = block <= 128 ? 128 : 256;
        vectors = (k / block * block_bytes + 14) / 16 + 1;
        pitch = 16 * (vectors | 1);
        for (lanes = 1; lanes < vectors;) lanes *= 2;
    }
};

BK_DEVICE int slab_offset(int row, int vector) { return row * kSlabBytes + (vector ^ (row & 7)) * 16; }

// A block's tile of weights.
template <class Tile>
struct TileOfWeights {
    const TiledProduct& p;
    const StageLayout& layout;
    char* shared;
    int64_t first;  // row of the weights
    int rows;

    BK_DEVICE const uint8_t* row_at(int r, int64_t k) const {
        return p.weights.bytes + (first + r) * p.weights.row_bytes + k / layout.block * layout.block_bytes;
    }
    // Bytes keep their address modulo 16 where blocks are aligned, so that copies are.
    BK_DEVICE int skipped(const uint8_t* from) const {
        const uintptr_t address = reinterpret_cast<uintptr_t>(from);
        return address % static_cast<uintptr_t>(layout.align) == 0 ? static_cast<int>(address % 16) : 0;
    }
    BK_DEVICE uint8_t* stage_row(int64_t stage, int r) const {
        return reinterpret_cast<uint8_t*>(shared) + Tile::kStages + ((stage & 1) * Tile::kW + r) * layout.pitch;
    }

    // Issues the loads of a stage.
    BK_DEVICE void fill(int64_t stage) const {
        const int64_t k = stage * layout.k, left = p.k - k;
        if (left <= 0) return;
        const int values = left < layout.k ? static_cast<int>(left) : layout.k,
                  bytes = values / layout.block * layout.block_bytes;
        const int thread = static_cast<int>(threadIdx.x);
        const uint8_t *const low = row_at(0, 0), *const high = row_at(rows, 0);
        if (reinterpret_cast<uintptr_t>(low) % static_cast<uintptr_t>(layout.align) != 0) {
#pragma unroll 1
            for (int r = thread / 32; r < rows; r += Tile::kWarps)
                for (int b = thread % 32; b < bytes; b += 32) stage_row(stage, r)[b] = row_at(r, k)[b];
            return;
        }
        const int lane = thread & (layout.lanes - 1), step = Tile::kThreads / layout.lanes;
        if (lane >= layout.vectors) return;
#pragma unroll 1
        for (int r = thread / layout.lanes; r < rows; r += step) {
            const uint8_t* const from = row_at(r, k);
            const int before = skipped(from);
            if (16 * lane < before + bytes) copy_vector(stage_row(stage, r) + 16 * lane, from - before + 16 * lane, low, high);
        }
    }

    // Decodes a slab. Four lanes have adjacent words of a row; the rows of half a warp are even or odd, since then their
    // vectors are in different banks.
    template <class E>
    BK_DEVICE void decode(int64_t slab) const {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, part = lane % 4;
        const int64_t k = slab * kSlabK, stage = k / layout.k;
        const int at = static_cast<int>(k - stage * layout.k), depth = static_cast<int>(min(p.k - k, int64_t{kSlabK}));
        char* const to = shared + Tile::kWeights + (slab & 1) * (Tile::kW * kSlabBytes);
        float* const scales = reinterpret_cast<float*>(shared + Tile::kScales) + (slab & 1) * (kSlabGroups * Tile::kW);
        float* const offsets = reinterpret_cast<float*>(shared + Tile::kOffsets) + (slab & 1) * (kSlabGroups * Tile::kW);
        visit_form(p.weights.format, [&](auto form) {
            using Form = decltype(form);
            constexpr int kGroups = Form::kGroup == 16 ? kSlabGroups : kSlabGroups / 2, kGroupK = kSlabK / kGroups;
#pragma unroll 1
            for (int r = 8 * warp + lane / 4 % 4 * 2 + lane / 16; r < rows; r += 8 * Tile::kWarps) {
                const uint8_t* const row = stage_row(stage, r) + skipped(row_at(r, stage * layout.k));
#pragma unroll 1  // not unrolled: the code of all formats counts in the size of the library
                for (int i = 0; i < kSlabGroups; ++i) {
                    uint32_t pair[2] = {};
                    if (16 * i < depth) Form::template pairs<E>(row, at + 16 * i + 4 * part, pair);
                    *reinterpret_cast<uint2*>(to + slab_offset(r, 2 * i + part / 2) + part % 2 * 8) = uint2{pair[0], pair[1]};
                }
                if (part >= kGroups) continue;
                codec::Affine affine{0.f, 0.f};
                if (kGroupK * part < depth)
                    affine = Form::affine(p.weights, row, at + kGroupK * part, first + r, k + kGroupK * part);
                scales[part * Tile::kW + r] = affine.scale;
                if constexpr (Form::kHasOffset) offsets[part * Tile::kW + r] = affine.offset;
            }
        });
    }
};

// A block's tile of x, `rows` rows from `first` on.
template <class E, class Tile>
struct TileOfX {
    const TiledProduct& p;
    const StageLayout& layout;
    char* shared;
    int64_t first;
    int rows;
    bool is_aligned;

    BK_DEVICE char* slab_at(int64_t slab) const { return shared + slab % kXSlabs * (Tile::kX * kSlabBytes); }

    BK_DEVICE void fill(int64_t slab) const {
        const int64_t k = slab * kSlabK;
        const int left = static_cast<int>(min(p.k - k, int64_t{kSlabK}));  // of a multiple of 16
        if (left <= 0) return;
        char* const to = slab_at(slab);
        const int thread = static_cast<int>(threadIdx.x);
        if constexpr (std::is_same_v<E, bf16>)
            if (p.dtype == FloatDtype::kF32) return fill_parts(to, k, left);
        const int vector = thread % 8;
        const E* from = static_cast<const E*>(p.x) + (first + thread / 8) * p.x_row + k + 8 * vector;
#pragma unroll
        for (int r = thread / 8; r < Tile::kX; r += Tile::kThreads / 8, from += Tile::kThreads / 8 * p.x_row) {
            const bool is_there = r < rows && 8 * vector < left;
            char* const own = to + slab_offset(r, vector);
            if (is_aligned) {
                start_copy_16(own, is_there ? from : p.x, is_there ? 16 : 0);
                continue;
            }
            Vec<E, 8> eight{};
            if (is_there)
                for (int i = 0; i < 8; ++i) eight.lane[i] = from[i];
            store(reinterpret_cast<E*>(own), eight);
        }
    }

    // Sums of x over the groups.
    BK_DEVICE void sum_groups(int64_t slab) const {
        const char* const from = slab_at(slab);
        float* const sums = reinterpret_cast<float*>(shared + Tile::kSums) + (slab & 1) * (kSlabGroups * Tile::kX);
        const int groups = layout.has_small_groups ? kSlabGroups : kSlabGroups / 2, vectors = 8 / groups;
#pragma unroll 1
        for (int index = static_cast<int>(threadIdx.x); index < groups * Tile::kX; index += Tile::kThreads) {
            const int column = index % Tile::kX, group = index / Tile::kX;
            float sum = 0;
            for (int v = group * vectors; v < (group + 1) * vectors; ++v) {
                const auto eight = load<8>(reinterpret_cast<const E*>(from + slab_offset(column, v)));
                for (int i = 0; i < 8; ++i) sum += widen_lane(eight, i);
            }
            sums[index] = sum;
        }
    }

private:
    // f32 as three columns; what is beyond K is 0.
    BK_DEVICE void fill_parts(char* to, int64_t k, int left) const {
#pragma unroll 1
        for (int index = static_cast<int>(threadIdx.x); index < rows * 16; index += Tile::kThreads) {
            const int r = index / 16, four = index % 16;
            float values[4] = {};
            if (4 * four < left)
                load_four(values, static_cast<const float*>(p.x) + (first + r) * p.x_row + k + 4 * four, 1, p.dtype,
                          is_aligned);
#pragma unroll
            for (int part = 0; part < 3; ++part) {
                const uint2 pairs{bf16_part(values[0], part) | bf16_part(values[1], part) << 16,
                                  bf16_part(values[2], part) | bf16_part(values[3], part) << 16};
                *reinterpret_cast<uint2*>(to + slab_offset(3 * r + part, four / 2) + four % 2 * 8) = pairs;
            }
        }
    }
};

// A warp's sums.
template <class E, class Tile>
struct TileSums {
    float total[Tile::kRowBlocks][Tile::kColumnBlocks][4] = {};

    // Adds a slab, whose groups have kSteps times 16 K elements.
    template <int kSteps>
    BK_DEVICE void add(const char* shared, int64_t slab, bool has_offset) {
        constexpr int kColumnBlocks = Tile::kColumnBlocks;
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4,
                  t = lane % 4;
        const int first_row = warp / Tile::kWarpsX * Tile::kWarpRows, first_column = warp % Tile::kWarpsX * Tile::kWarpColumns;
        const char* const x = shared + slab % kXSlabs * (Tile::kX * kSlabBytes);
        const char* const weights = shared + Tile::kWeights + (slab & 1) * (Tile::kW * kSlabBytes);
        const int buffer = static_cast<int>(slab & 1) * kSlabGroups;
        const float* const scales = reinterpret_cast<const float*>(shared + Tile::kScales) + buffer * Tile::kW + first_row + g;
        const float* const offsets =
            reinterpret_cast<const float*>(shared + Tile::kOffsets) + buffer * Tile::kW + first_row + g;
        const float* const sums =
            reinterpret_cast<const float*>(shared + Tile::kSums) + buffer * Tile::kX + first_column + 2 * t;
#pragma unroll 1
        for (int group = 0; group < kSlabGroups / kSteps; ++group) {
            uint32_t columns[kSteps][kColumnBlocks][2];
#pragma unroll
            for (int step = 0; step < kSteps; ++step)
#pragma unroll
                for (int c = 0; c < kColumnBlocks; c += 2) {
                    uint32_t words[4];
                    ldmatrix_x4(words, x + slab_offset(first_column + 8 * c + lane % 8 + lane / 16 * 8,
                                                       2 * (group * kSteps + step) + lane / 8 % 2));
                    for (int i = 0; i < 4; ++i) columns[step][c + i / 2][i % 2] = words[i];
                }
#pragma unroll
            for (int q = 0; q < Tile::kRowBlocks; ++q) {
                float sum[kColumnBlocks][4] = {};
#pragma unroll
                for (int step = 0; step < kSteps; ++step) {
                    uint32_t codes[4];
                    ldmatrix_x4(codes,
                                weights + slab_offset(first_row + 16 * q + lane % 16, 2 * (group * kSteps + step) + lane / 16));
#pragma unroll
                    for (int c = 0; c < kColumnBlocks; ++c) Mma<E>::run(sum[c], codes, columns[step][c]);
                }
                const float* const scale = scales + group * Tile::kW + 16 * q;
                const float two[2] = {scale[0], scale[8]};
#pragma unroll
                for (int c = 0; c < kColumnBlocks; ++c)
#pragma unroll
                    for (int v = 0; v < 4; ++v) total[q][c][v] = math::fma(two[v / 2], sum[c][v], total[q][c][v]);
                if (!has_offset) continue;
                const float* const offset = offsets + group * Tile::kW + 16 * q;
                const float pair[2] = {offset[0], offset[8]};
#pragma unroll
                for (int c = 0; c < kColumnBlocks; ++c) {
                    const auto of_x = load<2>(sums + group * Tile::kX + 8 * c);
#pragma unroll
                    for (int v = 0; v < 4; ++v) total[q][c][v] = math::fma(pair[v / 2], of_x.lane[v % 2], total[q][c][v]);
                }
            }
        }
    }

    // Adds the columns of a row of x, bias and total, four adjacent results at a time.
    BK_DEVICE void store_results(char* shared, const TiledProduct& p, int64_t first_weight, int64_t first_x, int rows,
                                 int columns_of_row, bool is_vector) const {
        float* const results = reinterpret_cast<float*>(shared);
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4,
                  t = lane % 4;
        const int first_row = warp / Tile::kWarpsX * Tile::kWarpRows, first_column = warp % Tile::kWarpsX * Tile::kWarpColumns;
#pragma unroll
        for (int q = 0; q < Tile::kRowBlocks; ++q)
#pragma unroll
            for (int c = 0; c < Tile::kColumnBlocks; ++c)
#pragma unroll
                for (int v = 0; v < 4; ++v)
                    results[(first_column + 8 * c + 2 * t + v % 2) * Tile::kResultPitch + first_row + 16 * q + 8 * (v / 2) +
                            g] = total[q][c][v];
        __syncthreads();
        constexpr int kFours = Tile::kW / 4;
#pragma unroll 1
        for (int index = static_cast<int>(threadIdx.x); index < rows * kFours; index += Tile::kThreads) {
            const int r = index / kFours, at = index % kFours * 4;
            const int64_t j = first_weight + at, to = (first_x + r) * p.y_row + j;
            if (j >= p.n) continue;
            float four[4] = {};
            for (int part = columns_of_row - 1; part >= 0; --part) {
                const auto own = load<4>(results + (r * columns_of_row + part) * Tile::kResultPitch + at);
                for (int i = 0; i < 4; ++i) four[i] += own.lane[i];
            }
            for (int i = 0; i < 4; ++i)
                if (p.bias != nullptr && j + i < p.n) four[i] += load_float(p.bias, j + i, p.dtype);
            if (!is_vector) {
                for (int i = 0; i < 4; ++i)
                    if (j + i < p.n) store_float(p.y, to + i, p.dtype, four[i]);
            } else if (p.dtype == FloatDtype::kF32) {
                store(static_cast<float*>(p.y) + to, Vec<float, 4>{{four[0], four[1], four[2], four[3]}});
            } else {
                Vec<E, 4> rounded;
                for (int i = 0; i < 4; ++i) rounded.lane[i] = narrow<E>(four[i]);
                store(static_cast<E*>(p.y) + to, rounded);
            }
        }
    }
};

// Whether x and y are read and written by vectors.
struct TileVectors {
    bool x, y;
};

// blockIdx.x is a tile of weights, blockIdx.y a tile of x.
template <class E, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kResident)
    tiled_product_kernel(const __grid_constant__ TiledProduct p, const __grid_constant__ StageLayout layout,
                         TileVectors vectors) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const shared = reinterpret_cast<char*>(shared_words);
    const int columns_of_row = p.dtype == FloatDtype::kF32 ? 3 : 1, most = Tile::kX / columns_of_row;
    const int64_t first_weight = static_cast<int64_t>(blockIdx.x) * Tile::kW;
    const TileOfWeights<Tile> weights{p, layout, shared, first_weight,
                                      static_cast<int>(min(p.n - first_weight, int64_t{Tile::kW}))};
    const int64_t slabs = (p.k + kSlabK - 1) / kSlabK;
#pragma unroll 1
    for (int64_t first = static_cast<int64_t>(blockIdx.y) * most; first < p.m;
         first += static_cast<int64_t>(gridDim.y) * most) {
        const TileOfX<E, Tile> x{
            p, layout, shared, first, static_cast<int>(min(p.m - first, static_cast<int64_t>(most))), vectors.x};
        const auto decode = [&](int64_t slab) {
            weights.template decode<E>(slab);
            if (layout.has_offset) x.sum_groups(slab);
        };
        TileSums<E, Tile> sums;
        weights.fill(0);
        x.fill(0);
        end_copy_group();
        x.fill(1);
        end_copy_group();
        wait_for_copies<1>();
        __syncthreads();
        if (slabs > 0) decode(0);
#pragma unroll 1
        for (int64_t slab = 0; slab < slabs; ++slab) {
            wait_for_copies<0>();
            __syncthreads();  // the slab is decoded, the next one of x has arrived, and all have read the one before
            x.fill(slab + 2);
            if (slab * kSlabK % layout.k == 0) weights.fill(slab * kSlabK / layout.k + 1);
            end_copy_group();
            if (slab + 1 < slabs) decode(slab + 1);
            if (layout.has_small_groups)
                sums.template add<1>(shared, slab, layout.has_offset);
            else
                sums.template add<2>(shared, slab, layout.has_offset);
        }
        wait_for_copies<0>();
        __syncthreads();  // the results overwrite the operands
        sums.store_results(shared, p, first_weight, first, x.rows, columns_of_row, vectors.y);
        __syncthreads();  // the next tile overwrites the results
    }
}

template <class E, class Tile>
Status launch_tiles(const Launch& launch, const TiledProduct& p, const StageLayout& layout, unsigned shared) {
    const int64_t rows = Tile::kX / (p.dtype == FloatDtype::kF32 ? 3 : 1), sets = ceil_div(p.m, rows),
                  bytes = p.dtype == FloatDtype::kF32 ? 4 : 2;
    const TileVectors vectors{is_aligned(p.x, 16) && p.x_row * bytes % 16 == 0,
                              is_aligned(p.y, static_cast<size_t>(4 * bytes)) && p.y_row % 4 == 0 && p.n % 4 == 0};
    Grid grid{dim3(static_cast<unsigned>(ceil_div<int64_t>(p.n, Tile::kW)), static_cast<unsigned>(std::min(sets, kMaxGridY))),
              dim3(Tile::kThreads)};
    grid.shared = shared;
    return launch_kernel(launch, grid, tiled_product_kernel<E, Tile>, p, layout, vectors);
}

// The tile that is asked for or has the least estimate, if the chip's shared memory has space for its operands, else a
// smaller one.
template <class E>
Status launch_tiled_product(const Launch& launch, const TiledProduct& p) {
    using Small = ProductTile<kTileExtents[0].weights, kTileExtents[0].x, 2, 2>;
    using Medium = ProductTile<kTileExtents[1].weights, kTileExtents[1].x, 2, 4>;
    using Large = ProductTile<kTileExtents[2].weights, kTileExtents[2].x, 2, 4>;
    StageLayout layout{};
    visit_form(p.weights.format, layout);
    const int64_t columns = columns_of(p.m, p.dtype);
    const int shared[kTiles] = {Small::kStages + 2 * Small::kW * layout.pitch, Medium::kStages + 2 * Medium::kW * layout.pitch,
                                Large::kStages + 2 * Large::kW * layout.pitch};
    int chosen = std::max(p.tile, 0);
    for (int i = 1; i < kTiles && p.tile < 0; ++i)
        if (has_shared(shared[i]) && cycles_of(kTileExtents[i], columns, p.n) < cycles_of(kTileExtents[chosen], columns, p.n))
            chosen = i;
    while (chosen > 0 && !has_shared(shared[chosen])) --chosen;
    const unsigned bytes = static_cast<unsigned>(shared[chosen]);
    if (chosen == 2) return launch_tiles<E, Large>(launch, p, layout, bytes);
    if (chosen == 1) return launch_tiles<E, Medium>(launch, p, layout, bytes);
    return launch_tiles<E, Small>(launch, p, layout, bytes);
}

}  // namespace bk
