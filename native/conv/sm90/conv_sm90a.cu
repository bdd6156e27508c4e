// SPDX-License-Identifier: Apache-2.0
// Persistent warp-specialised Hopper convolution: the GEMM of gemm/sm90/matmul_sm90a.cu whose producer loads windows of an
// image. sm_90a alone.
//
// Clusters of two blocks compute vertically adjacent tiles: each loads half of B and multicasts it.
#include <algorithm>
#include <cstdint>

#include "conv/sm90/conv_wgmma.h"
#include "core/intrinsics/cluster.cuh"
#include "core/intrinsics/image_map.h"
#include "core/math/fastdiv.h"
#include "gemm/sm90/matmul_wgmma_mainloop.cuh"
#include "gemm/tiled/matmul_finish.cuh"

namespace bk {
namespace {

constexpr int kBoxBytes = 64 * kSwizzleBytes;  // of 64 elements across k by 64 along it

// Operands of the producer. Axes are depth, height and width.
struct ConvLoads {
    TensorMap image, matrix;
    FastDiv<uint32_t> windows[kTapAxes], taps[kTapAxes], chunks;
    int first[kTapAxes], step[kTapAxes], tap_step[kTapAxes];
    int channels;                             // rounded up to whole stages
    int first_weight, weight_step[kTapAxes];  // in matrices of w's map
    int64_t result_step[kTapAxes + 1];        // of windows along each axis and of images, in pitches of the results
    int64_t steps, slice_steps;
    int blocks;
    bool is_filter, is_mapped, b_is_mn_major;

    BK_DEVICE ImagePixel pixel(int64_t index) const {
        const DivMod<uint32_t> w = windows[2](static_cast<uint32_t>(index)), h = windows[1](w.quotient),
                               d = windows[0](h.quotient);
        return {first[2] + static_cast<int>(w.remainder) * step[2], first[1] + static_cast<int>(h.remainder) * step[1],
                first[0] + static_cast<int>(d.remainder) * step[0], static_cast<int>(d.quotient)};
    }
};

// Rows of the results, in pitches.
struct MappedRows {
    const ConvLoads& loads;

    BK_DEVICE int64_t operator()(int64_t row) const {
        const DivMod<uint32_t> w = loads.windows[2](static_cast<uint32_t>(row)), h = loads.windows[1](w.quotient),
                               d = loads.windows[0](h.quotient);
        return d.quotient * loads.result_step[3] + d.remainder * loads.result_step[0] + h.remainder * loads.result_step[1] +
               w.remainder * loads.result_step[2];
    }
};

// A tap, and the channels of its stage. Steps through K elements add to it, since divisions would take a stage's time.
struct TapWalk {
    int channel, at[kTapAxes];
    int offset[kTapAxes], weight;

    BK_DEVICE TapWalk(const ConvLoads& loads, int64_t step) {
        const DivMod<uint32_t> chunk = loads.chunks(static_cast<uint32_t>(step)), w = loads.taps[2](chunk.quotient),
                               h = loads.taps[1](w.quotient);
        channel = static_cast<int>(chunk.remainder) * static_cast<int>(kConvDepth);
        at[0] = static_cast<int>(h.quotient);
        at[1] = static_cast<int>(h.remainder);
        at[2] = static_cast<int>(w.remainder);
        weight = loads.first_weight;
        for (int d = 0; d < kTapAxes; ++d) {
            offset[d] = at[d] * loads.tap_step[d];
            weight += at[d] * loads.weight_step[d];
        }
    }
    BK_DEVICE TapOffset tap() const {
        return {static_cast<uint16_t>(offset[2]), static_cast<uint16_t>(offset[1]), static_cast<uint16_t>(offset[0])};
    }
    BK_DEVICE void advance(const ConvLoads& loads) {
        channel += static_cast<int>(kConvDepth);
        if (channel < loads.channels) return;
        channel = 0;
#pragma unroll
        for (int d = kTapAxes; d-- > 0;) {
            ++at[d];
            offset[d] += loads.tap_step[d];
            weight += loads.weight_step[d];
            if (at[d] < static_cast<int>(loads.taps[d].divisor())) return;
            weight -= at[d] * loads.weight_step[d];
            at[d] = offset[d] = 0;
        }
    }
};

// Loads a stage of the forward convolution or of the gradient of x: windows under one tap, and that tap's filters.
template <int kColumns, class Tile>
BK_DEVICE void load_windows(char* to, const ConvLoads& loads, const ImagePixel& pixel, int column, const TapWalk& walk,
                            uint64_t* barrier, int rank) {
    tma_load_image(to, loads.image, walk.channel, pixel, walk.tap(), barrier);
    const bool is_shared = loads.blocks > 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (is_shared && half != rank) continue;
        char* const b = to + Tile::kABytes + half * (Tile::kBBytes / 2);
        const int first = column + half * Tile::kHalf;
        const auto load = [&](char* box, int inner, int outer) {
            if (is_shared)
                tma_load_multicast(box, loads.matrix, inner, outer, walk.weight, barrier, 3);
            else
                tma_load(box, loads.matrix, inner, outer, walk.weight, barrier);
        };
        if (loads.b_is_mn_major && kColumns == 64) {  // halves along k
            load(b, column, walk.channel + half * static_cast<int>(kConvDepth / 2));
        } else if (loads.b_is_mn_major) {
#pragma unroll
            for (int i = 0; i < kColumns / 128; ++i) load(b + i * kBoxBytes, first + 64 * i, walk.channel);
        } else {
            load(b, walk.channel, first);
        }
    }
}

// Taps and channels of the tile's columns, in boxes of 64 columns.
template <int kColumns>
struct ColumnTaps {
    static constexpr int kBoxes = kColumns / 64;
    TapOffset tap[kBoxes];
    int channel[kBoxes];

    BK_DEVICE ColumnTaps(const ConvLoads& loads, int64_t column) {
#pragma unroll
        for (int i = 0; i < kBoxes; ++i) {
            const TapWalk walk(loads, column / 64 + i);
            tap[i] = walk.tap();
            channel[i] = walk.channel;
        }
    }
};

// Loads a stage of the gradient of w: 64 pixels of dy, and their windows under the taps of the tile's columns.
template <int kColumns, class Tile>
BK_DEVICE void load_pixels(char* to, const ConvLoads& loads, int row, const ColumnTaps<kColumns>& columns, int64_t step,
                           uint64_t* barrier, int rank) {
    const int64_t first = step * kConvDepth;
    const ImagePixel pixel = loads.pixel(first);
    tma_load(to, loads.matrix, row, static_cast<int>(first), 0, barrier);
    tma_load(to + kBoxBytes, loads.matrix, row + 64, static_cast<int>(first), 0, barrier);
    const bool is_shared = loads.blocks > 1;
    constexpr int kBoxes = ColumnTaps<kColumns>::kBoxes;
#pragma unroll
    for (int i = 0; i < kBoxes; ++i) {
        if (is_shared && 2 * i / kBoxes != rank) continue;
        char* const box = to + Tile::kABytes + i * kBoxBytes;
        if (is_shared)
            tma_load_image_multicast(box, loads.image, columns.channel[i], pixel, columns.tap[i], barrier, 3);
        else
            tma_load_image(box, loads.image, columns.channel[i], pixel, columns.tap[i], barrier);
    }
}

// This block's tile, out of tile number `index` of its cluster; coord.matrix is the slice.
template <class T>
BK_DEVICE TileCoord conv_tile(const Matmul<T>& p, const ConvLoads& loads, int64_t index, int64_t tiles_m, int64_t tiles_n,
                              int columns, int rank) {
    TileCoord coord;
    coord.matrix = index / (tiles_m * tiles_n);
    set_tile(coord, index % (tiles_m * tiles_n), tiles_m, tiles_n, loads.blocks * static_cast<int>(kWgmmaRows), columns);
    coord.row += rank * kWgmmaRows;
    coord.row_end = p.m;
    coord.column_end = p.n;
    coord.k_begin = coord.matrix * loads.slice_steps;
    coord.k_extent = min(loads.slice_steps, loads.steps - coord.k_begin);  // in stages
    return coord;
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kBlockThreads, 1)
    conv_wgmma_kernel(const __grid_constant__ Matmul<T> p, const __grid_constant__ ConvLoads loads, int64_t tiles_m,
                      int64_t tiles_n, int64_t count, const __grid_constant__ StoreMode stores) {
    using Tile = WgmmaTile<T, kColumns>;
    BK_LAUNCH_SHARED(uint4, shared_words);
    char* const base = reinterpret_cast<char*>(shared_words);
    char* const tiles = base + (1024 - shared_address(base) % 1024) % 1024;
    auto* const full = reinterpret_cast<uint64_t*>(tiles + Tile::kStages * Tile::kPitch);
    uint64_t* const empty = full + Tile::kStages;
    auto* const staging = reinterpret_cast<float*>(empty + Tile::kStages);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    const int blocks = loads.blocks, rank = rank_in_cluster() % blocks;
    if (thread == 0) {
        for (int stage = 0; stage < Tile::kStages; ++stage) {
            init_barrier(full + stage, 1);
            init_barrier(empty + stage, blocks * kConsumers * kWarpgroupThreads / 32);
        }
        publish_barriers();
    }
    sync_cluster();

    PipelineState state;
    if (warp >= kConsumers * kWarpgroupThreads / 32) {
        reg_dealloc<40>();
        const bool is_producer = warp == kConsumers * kWarpgroupThreads / 32;
        for (int64_t index = blockIdx.x / blocks; is_producer && index < count; index += gridDim.x / blocks) {
            const TileCoord coord = conv_tile(p, loads, index, tiles_m, tiles_n, kColumns, rank);
            const auto load_stages = [&](const auto& load) {
                for (int64_t step = coord.k_begin; step < coord.k_begin + coord.k_extent; ++step) {
                    wait_for_phase(empty + state.stage, state.parity ^ 1);
                    uint64_t* const barrier = full + state.stage;
                    if (lane == 0) arrive_expecting(barrier, Tile::kBytes);
                    load(tiles + state.stage * Tile::kPitch, step, barrier);
                    __syncwarp();
                    state.advance(Tile::kStages);
                }
            };
            if (kColumns > 64 && loads.is_filter) {
                const ColumnTaps<kColumns> columns(loads, coord.column);
                load_stages([&](char* to, int64_t step, uint64_t* barrier) {
                    if (lane == 0)
                        load_pixels<kColumns, Tile>(to, loads, static_cast<int>(coord.row), columns, step, barrier, rank);
                });
            } else {
                const ImagePixel pixel = loads.pixel(coord.row);
                TapWalk walk(loads, coord.k_begin);
                load_stages([&](char* to, int64_t, uint64_t* barrier) {
                    if (lane == 0)
                        load_windows<kColumns, Tile>(to, loads, pixel, static_cast<int>(coord.column), walk, barrier, rank);
                    walk.advance(loads);
                });
            }
        }
    } else {
        reg_alloc<232>();
        const int warpgroup = warp / (kWarpgroupThreads / 32);
        auto* const warp_staging = staging + warp * 16 * kStagingPitch;
        for (int64_t index = blockIdx.x / blocks; index < count; index += gridDim.x / blocks) {
            const TileCoord coord = conv_tile(p, loads, index, tiles_m, tiles_n, kColumns, rank);
            float sums[kColumns / 2];
            if (coord.k_extent == 0)
                for (int v = 0; v < kColumns / 2; ++v) sums[v] = 0;
            const auto add = [&](auto a_is_mn_major, auto b_is_mn_major) {
                mainloop<T, kColumns, decltype(a_is_mn_major)::value, decltype(b_is_mn_major)::value>(
                    sums, tiles, full, empty, state, coord.k_extent, 0, warpgroup, lane, blocks);
            };
            constexpr std::true_type kMnMajor;
            constexpr std::false_type kKMajor;
            if (kColumns > 64 && loads.is_filter)
                add(kMnMajor, kMnMajor);
            else
                loads.b_is_mn_major ? add(kKMajor, kMnMajor) : add(kKMajor, kKMajor);
            const int64_t row = coord.row + 16 * warp;
            if (loads.is_mapped)
                store_staged_tile<T, kColumns>(p, sums, warp_staging, coord, row, lane, stores.in_pairs, MappedRows{loads});
            else
                store_sums<T, kColumns>(p, sums, warp_staging, coord, row, lane, stores);
        }
    }
    sync_cluster();  // peers may still arrive at this block's barriers
}

Status no_map(const char* what, int64_t rows, int64_t channels) {
    return fail(Status::kInternal, "the driver makes no tensor map of %s of %lld rows and %lld channels", what,
                static_cast<long long>(rows), static_cast<long long>(channels));
}

template <class T>
Status make_maps(const ConvWgmma<T>& conv, ConvLoads* loads) {
    const TapSums& s = conv.sums;
    if (conv.steps == 0) return Status::kOk;
    ImageAxis axes[kTapAxes];
    for (int d = 0; d < kTapAxes; ++d) axes[d] = image_axis(s.axis[d]);
    const int pixels = static_cast<int>(conv.is_filter ? kConvDepth : kConvRows);
    if (!make_image_map(&loads->image, conv.image, s.inputs, axes, s.batch, s.source_n, pixels))
        return no_map("an image", s.batch, s.inputs);
    if (conv.is_filter) {
        const int64_t rows = s.batch * s.positions();
        if (make_tensor_map(&loads->matrix, conv.matrix, s.outputs, rows, conv.matrix_pitch, 1, conv.matrix_pitch * rows, 64))
            return Status::kOk;
        return no_map("a gradient", rows, s.outputs);
    }
    const int64_t unit = tap_unit(s);
    int64_t matrices = 1;
    for (const TapAxis& a : s.axis) matrices += a.taps > 1 ? (a.taps - 1) * (std::abs(a.weight_stride) / unit) : 0;
    const bool is_k_major = s.weight_in == 1;
    const int64_t inner = is_k_major ? s.inputs : s.outputs, outer = is_k_major ? s.outputs : s.inputs,
                  pitch = is_k_major ? s.weight_out : s.weight_in;
    if (make_tensor_map(&loads->matrix, conv.matrix, inner, outer, pitch, matrices, unit,
                        is_k_major ? conv.columns / 2 : static_cast<int>(conv.columns == 64 ? kConvDepth / 2 : kConvDepth)))
        return Status::kOk;
    return no_map("a filter", outer, inner);
}

template <class T, int kColumns>
Status launch_conv_wgmma(const Launch& launch, const ConvWgmma<T>& conv, const Epilogue<T>& epilogue) {
    const TapSums& s = conv.sums;
    ConvLoads loads{};
    BK_TRY(make_maps(conv, &loads));
    const int64_t unit = std::max<int64_t>(tap_unit(s), 1);
    for (int d = 0; d < kTapAxes; ++d) {
        const TapAxis& a = s.axis[d];
        loads.windows[d] = FastDiv<uint32_t>(a.positions);
        loads.taps[d] = FastDiv<uint32_t>(a.taps);
        loads.first[d] = static_cast<int>(a.first);
        loads.step[d] = static_cast<int>(a.step);
        loads.tap_step[d] = a.taps > 1 ? static_cast<int>(a.tap_step) : 0;
        loads.weight_step[d] = a.taps > 1 ? static_cast<int>(a.weight_stride / unit) : 0;
        loads.result_step[d] = a.positions > 1 ? a.result_stride / conv.pitch : 0;
    }
    loads.result_step[kTapAxes] = s.batch > 1 ? s.result_n / conv.pitch : 0;
    loads.chunks = FastDiv<uint32_t>(conv.chunks);
    loads.channels = static_cast<int>(conv.chunks * kConvDepth);
    loads.first_weight = static_cast<int>(conv.first_weight / unit);
    loads.steps = conv.steps;
    loads.slice_steps = conv.slice_steps;
    loads.is_filter = conv.is_filter;
    loads.is_mapped = conv.is_mapped;
    loads.b_is_mn_major = conv.is_filter || s.weight_in != 1;

    Matmul<T> p{};
    p.m = conv.m;
    p.n = conv.n;
    p.k = conv.steps * kConvDepth;
    p.batch = conv.slices;
    p.epilogue = epilogue;
    SplitKOf<T> split;
    split.count = conv.slices;
    if (conv.slices > 1) {
        Carver carver(launch.workspace);
        split.partials = carver.take<float>(conv.partials());
        p.epilogue = {};
        p.epilogue.alpha = 1;
        p.epilogue.d = reinterpret_cast<matmul_element_t<T>*>(split.partials);
        p.epilogue.d_at = {conv.n, 1, conv.m * conv.n};
        p.epilogue.is_wide = true;
    }
    const int64_t tiles_down = ceil_div<int64_t>(conv.m, kWgmmaRows);
    loads.blocks = pairs_tiles(tiles_down) ? 2 : 1;
    const int64_t tiles_m = ceil_div<int64_t>(tiles_down, loads.blocks), tiles_n = ceil_div<int64_t>(conv.n, kColumns);
    int64_t count = 0;
    BK_TRY(count_tiles(tiles_m, tiles_n, conv.slices, &count));
    const int64_t clusters = std::min(count, device_sms() / loads.blocks);
    Grid grid{dim3(static_cast<unsigned>(clusters * loads.blocks)), dim3(kBlockThreads)};
    grid.cluster = static_cast<unsigned>(loads.blocks);
    grid.shared = WgmmaTile<T, kColumns>::kShared;
    BK_TRY(launch_kernel(launch, grid, conv_wgmma_kernel<T, kColumns>, p, loads, tiles_m, tiles_n, count, store_mode_of(p)));
    return conv.slices > 1 ? finish(launch, epilogue, split, conv.n, conv.m, conv.n) : Status::kOk;
}

}  // namespace

template <class T>
Status conv_sm90a(const Launch& launch, const ConvWgmma<T>& conv, const Epilogue<T>& epilogue) {
    if (conv.columns == 64) return launch_conv_wgmma<T, 64>(launch, conv, epilogue);
    return conv.columns == 128 ? launch_conv_wgmma<T, 128>(launch, conv, epilogue)
                               : launch_conv_wgmma<T, 256>(launch, conv, epilogue);
}

template Status conv_sm90a(const Launch&, const ConvWgmma<f16>&, const Epilogue<f16>&);
template Status conv_sm90a(const Launch&, const ConvWgmma<bf16>&, const Epilogue<bf16>&);

}  // namespace bk
