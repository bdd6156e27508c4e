// SPDX-License-Identifier: Apache-2.0
// The kernel of conv/narrow/narrow_problem.h for 16-bit elements: mma.sync on windows of a tile in shared memory.
//
// A block stages the weights once, and then, tile by tile, the pixels that a tile's positions read: each pixel is read once
// for all taps. A row of an ldmatrix matrix is a pixel's vector of channels, so that a tap moves its address alone. A
// warp computes 32 positions by the columns of a group. The order of additions is that of channels within taps, chunk after
// chunk, whatever the tiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "conv/epilogue.h"
#include "conv/narrow/narrow_problem.h"
#include "conv/tiled/pack.h"
#include "core/abi/workspace.h"
#include "core/intrinsics/tensor_core.cuh"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

template <class T>
constexpr bool kHasNarrowConv = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
struct NarrowConv {
    NarrowShape s;
    const T *source, *weight;
    Epilogue<T> e;  // d[channel, offset]; the bias is that of rows
    FastDiv<uint32_t> tile_vectors, reach, row, run;
    int64_t tiles, count;      // of a unit; of all
    bool is_simple, in_pairs;  // alpha is the whole epilogue; columns are stored in pairs
    bool in_rows;              // from registers, since columns are adjacent channels
};

// A tile of positions: those of depth `depth` from (y, x) on, of one image.
struct NarrowTile {
    int64_t unit, image;
    int depth, y, x;
};

// Stages the unit's weights as [pass, tap of depth, chunk, vector of K elements, column, channel of the vector].
template <class T>
BK_DEVICE void stage_narrow_weights(T* to, const NarrowConv<T>& p, const NarrowColumn* columns, int64_t unit, int thread) {
    constexpr int kLanes = kVectorLanes<T>;
    const NarrowShape& s = p.s;
    const int depth = s.depth(), across = s.axis[2].taps, taps = s.axis[1].taps * across;
    const int count = static_cast<int>(s.weight_bytes) / kVectorBytes;
    for (int index = thread; index < count; index += kNarrowThreads) {
        int rest = index / kNarrowColumns;
        const int column = index % kNarrowColumns, k = rest % depth;
        rest /= depth;
        const int chunk = rest % s.chunks;
        rest /= s.chunks;
        const int tap = k / s.vectors, window[kConvAxes] = {rest % s.axis[0].taps, tap / across, tap % across};
        const int64_t group = unit * s.passes + rest / s.axis[0].taps;
        const int64_t channel = (int64_t{chunk} * s.vectors + k % s.vectors) * kLanes;
        bool is_there = column < s.columns && tap < taps && group < s.groups && channel < s.inputs;
        int64_t offset = group * s.weight_g + channel * s.weight_in;
        if (is_there) {
            const NarrowColumn& own = columns[column];
            offset += own.channel * s.weight_out;
#pragma unroll
            for (int d = 0; d < kConvAxes; ++d) {
                const NarrowAxis& a = s.axis[d];
                const int at = a.first_tap + own.phase[d] * a.phase_tap + window[d] * a.window_tap;
                is_there = is_there && at >= 0 && at < a.filter_taps;
                offset += at * a.weight_stride;
            }
        }
        Vec<T, kLanes> weights{};
        if (is_there) {
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane) weights.lane[lane] = p.weight[offset + lane * s.weight_in];
        }
        store(to + index * kLanes, weights);
    }
}

// Starts copies of the pixels that the tile reads under the taps `tap` of depth, and of a chunk of their channels.
template <class T>
BK_DEVICE void load_narrow_tile(char* to, const NarrowConv<T>& p, const NarrowTile& tile, int tap, int chunk, int thread) {
    constexpr int kLanes = kVectorLanes<T>;
    const NarrowShape& s = p.s;
    const NarrowAxis &deep = s.axis[0], &down = s.axis[1], &across = s.axis[2];
    const int z = deep.first + tile.depth * deep.step + tap * deep.tap_step, first_y = down.first + tile.y * down.step,
              first_x = across.first + tile.x * across.step, count = s.reach[0] * s.reach[1] * s.tile_vectors();
    const int64_t first = (tile.unit * s.passes * s.inputs) + int64_t{chunk} * s.vectors * kLanes,
                  channels = s.groups * s.inputs;
    const T* const image = p.source + tile.image * s.source_n + z * deep.source_stride + first;
    const bool has_depth = z >= 0 && z < deep.extent;
    for (int index = thread; index < count; index += kNarrowThreads) {
        const DivMod<uint32_t> vector = p.tile_vectors(static_cast<uint32_t>(index)), pixel = p.reach(vector.quotient);
        const int y = first_y + static_cast<int>(pixel.quotient), x = first_x + static_cast<int>(pixel.remainder);
        const bool is_there = has_depth && static_cast<unsigned>(y) < static_cast<unsigned>(down.extent) &&
                              static_cast<unsigned>(x) < static_cast<unsigned>(across.extent) &&
                              first + vector.remainder * kLanes < channels;
        const T* const from = image + y * down.source_stride + x * across.source_stride + vector.remainder * kLanes;
        start_copy_16(to + vector.quotient * static_cast<uint32_t>(s.pitch()) + vector.remainder * kVectorBytes,
                      is_there ? from : p.source, is_there ? kVectorBytes : 0);
    }
}

// Adds the products of a warp's 32 rows, whose first pixels are `rows`, with a group's columns. K elements behind the last
// are those of `zeros`.
template <class T>
BK_DEVICE void add_narrow_tile(float (&sums)[2][2][4], const NarrowShape& s, const char* const (&rows)[2], const char* weights,
                               const char* zeros, int lane) {
    const int depth = s.depth(), down = s.axis[1].taps, across = s.axis[2].taps, vectors = s.vectors;
    const int next = s.axis[2].tap_step * s.pitch(),
              next_row = s.axis[1].tap_step * s.reach[1] * s.pitch() - across * next;  // behind the last tap of a row
    int vector = lane / 16, tap = 0, tap_row = 0, at = 0;
    const auto carry = [&] {
        if (vector < vectors) return;
        vector -= vectors;
        at += next;
        if (++tap < across) return;
        tap = 0;
        ++tap_row;
        at += next_row;
    };
    carry();
    const char* own_weights = weights + ((lane / 8 % 2) * kNarrowColumns + lane % 8 + lane / 16 * 8) * kVectorBytes;
    for (int k = 0; k < depth; k += 2) {
        const int offset = at + vector * kVectorBytes;
        const bool is_there = tap_row < down;
        uint32_t a[2][4], b[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) ldmatrix_x4(a[i], is_there ? rows[i] + offset : zeros);
        ldmatrix_x4(b, own_weights);
        own_weights += 2 * kNarrowColumns * kVectorBytes;
        const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
#pragma unroll
        for (int i = 0; i < 2; ++i) Mma<T>::run(sums[i][0], a[i], low);
        if (s.columns > 8) {
#pragma unroll
            for (int i = 0; i < 2; ++i) Mma<T>::run(sums[i][1], a[i], high);
        }
        vector += 2;
        carry();
        carry();  // a tap may have one vector
    }
}

// Stores 16 rows of results from `first_row` of the tile on, through the warp's staging.
template <class T>
BK_DEVICE void store_narrow_rows(const NarrowConv<T>& p, float* staging, const NarrowColumn* columns, const float (&sums)[2][4],
                                 const NarrowTile& tile, int64_t group, int first_row, int lane) {
    constexpr int kPitch = kNarrowColumns + 1;
    const NarrowShape& s = p.s;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int v = 0; v < 4; ++v) staging[(lane / 4 + v / 2 * 8) * kPitch + 8 * j + lane % 4 * 2 + v % 2] = sums[j][v];
    __syncwarp();
    if (group >= s.groups) return;
    const NarrowAxis &deep = s.axis[0], &down = s.axis[1], &across = s.axis[2];
    const int step = p.in_pairs ? 2 : 1, z = tile.depth * deep.phases;
    const int64_t base = tile.image * s.result_n + z * deep.result_stride;
    for (int first = 0; first < s.columns; first += s.run)
#pragma unroll 1
        for (int index = step * lane; index < 16 * s.run; index += 32 * step) {
            const DivMod<uint32_t> of_run = p.run(static_cast<uint32_t>(index));
            const int own = static_cast<int>(of_run.quotient), row = first_row + own;
            const DivMod<uint32_t> at = p.row(static_cast<uint32_t>(row));
            const int q_y = tile.y + static_cast<int>(at.quotient), q_x = tile.x + static_cast<int>(at.remainder);
            if (static_cast<int>(at.quotient) >= s.rows[0] || q_y >= down.positions || q_x >= across.positions) continue;
            const int y = q_y * down.phases, x = q_x * across.phases, j = first + static_cast<int>(of_run.remainder);
            const int64_t offset = base + y * down.result_stride + x * across.result_stride;
            const auto has = [&](const NarrowColumn& column) {
                return z + column.phase[0] < deep.results && y + column.phase[1] < down.results &&
                       x + column.phase[2] < across.results;
            };
            const float* const staged = staging + own * kPitch + j;
            if (p.in_pairs && has(columns[j]) && has(columns[j + 1])) {
                const int64_t to = offset + columns[j].offset + (group * s.outputs + columns[j].channel) * s.result_c;
                store(p.e.d + to,
                      Vec<T, 2>{{Epilogue<T>::stored(p.e.alpha * staged[0]), Epilogue<T>::stored(p.e.alpha * staged[1])}});
                continue;
            }
            for (int v = 0; v < step; ++v) {
                const NarrowColumn& column = columns[j + v];
                if (!has(column)) continue;
                const int64_t channel = group * s.outputs + column.channel, to = offset + column.offset;
                if (p.is_simple)
                    p.e.d[channel * s.result_c + to] = Epilogue<T>::stored(p.e.alpha * staged[v]);
                else
                    p.e.store_one(0, channel, to, staged[v]);
            }
        }
}

// Offsets in their image of a lane's rows: those of its fragments of results, or -1.
BK_DEVICE void locate_narrow_rows(int (&offset)[2][2], const NarrowShape& s, const FastDiv<uint32_t>& of_row,
                                  const NarrowTile& tile, int first_row, int lane) {
    const NarrowAxis &deep = s.axis[0], &down = s.axis[1], &across = s.axis[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const DivMod<uint32_t> at = of_row(static_cast<uint32_t>(first_row + 16 * i + 8 * half + lane / 4));
            const int y = tile.y + static_cast<int>(at.quotient), x = tile.x + static_cast<int>(at.remainder);
            const bool is_there = static_cast<int>(at.quotient) < s.rows[0] && y < down.positions && x < across.positions;
            offset[i][half] = is_there
                                  ? tile.depth * static_cast<int>(deep.result_stride) +
                                        y * static_cast<int>(down.result_stride) + x * static_cast<int>(across.result_stride)
                                  : -1;
        }
}

// Stores fragments of results: pairs of adjacent channels from `to` on.
template <class T>
BK_DEVICE void store_narrow_fragments(T* to, const NarrowConv<T>& p, const float (&sums)[2][2][4], const int (&offset)[2][2],
                                      int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                const int column = 8 * j + lane % 4 * 2;
                if (offset[i][half] < 0 || column >= p.s.columns) continue;
                const float (&own)[4] = sums[i][j];
                store(to + offset[i][half] + column, Vec<T, 2>{{Epilogue<T>::stored(p.e.alpha * own[2 * half]),
                                                                Epilogue<T>::stored(p.e.alpha * own[2 * half + 1])}});
            }
}

template <class T>
__global__ void __launch_bounds__(kNarrowThreads, 2) narrow_kernel(const __grid_constant__ NarrowConv<T> p) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    const NarrowShape& s = p.s;
    char* const pixels = reinterpret_cast<char*>(shared_words);
    char* const weights = pixels + s.tile_bytes;
    char* const zeros = weights + s.weight_bytes;
    NarrowColumn* const columns = reinterpret_cast<NarrowColumn*>(zeros + kVectorBytes);
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    float* const staging = reinterpret_cast<float*>(columns + kNarrowColumns) + warp * 16 * (kNarrowColumns + 1);
    if (thread < kVectorBytes / 4) reinterpret_cast<uint32_t*>(zeros)[thread] = 0;
    if (thread < kNarrowColumns) columns[thread] = s.column[thread];
    __syncthreads();

    const int first_row = 32 * warp, all_rows = s.rows[0] * s.rows[1];
    const char* rows[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = first_row + 16 * i + lane % 16;
        const DivMod<uint32_t> at = p.row(static_cast<uint32_t>(row < all_rows ? row : 0));
        rows[i] = pixels + (static_cast<int>(at.quotient) * s.axis[1].step * s.reach[1] +
                            static_cast<int>(at.remainder) * s.axis[2].step) *
                               s.pitch();
    }
    const int64_t begin = blockIdx.x * p.count / gridDim.x, end = (blockIdx.x + int64_t{1}) * p.count / gridDim.x;
    const int own_weights = s.depth() * kNarrowColumns * kVectorBytes;
    int64_t staged = -1;
    for (int64_t index = begin; index < end; ++index) {
        NarrowTile tile;
        tile.unit = index / p.tiles;
        uint32_t rest = static_cast<uint32_t>(index % p.tiles);
        const auto next = [&rest](int count) {
            const uint32_t at = rest % static_cast<uint32_t>(count);
            rest /= static_cast<uint32_t>(count);
            return static_cast<int>(at);
        };
        tile.x = next(s.tiles[1]) * s.rows[1];
        tile.y = next(s.tiles[0]) * s.rows[0];
        tile.depth = next(s.axis[0].positions);
        tile.image = rest;
        float sums[2][2][4] = {};
        int offsets[2][2];
        if (p.in_rows) locate_narrow_rows(offsets, s, p.row, tile, first_row, lane);
        for (int tap = 0; tap < s.axis[0].taps; ++tap)
            for (int chunk = 0; chunk < s.chunks; ++chunk) {
                __syncthreads();  // all have read the tile before, and its weights
                load_narrow_tile(pixels, p, tile, tap, chunk, thread);
                end_copy_group();
                if (staged != tile.unit) stage_narrow_weights(reinterpret_cast<T*>(weights), p, columns, tile.unit, thread);
                staged = tile.unit;
                wait_for_copies<0>();
                __syncthreads();
                if (first_row >= all_rows) continue;
                const bool is_last = tap == s.axis[0].taps - 1 && chunk == s.chunks - 1;
                for (int pass = 0; pass < s.passes; ++pass) {
                    const int offset = pass * s.vectors * kVectorBytes;
                    const char* const own[2] = {rows[0] + offset, rows[1] + offset};
                    add_narrow_tile<T>(sums, s, own, weights + ((pass * s.axis[0].taps + tap) * s.chunks + chunk) * own_weights,
                                       zeros, lane);
                    if (!is_last) continue;
                    const int64_t group = tile.unit * s.passes + pass;
                    if (p.in_rows) {
                        if (group < s.groups)
                            store_narrow_fragments(p.e.d + tile.image * s.result_n + group * s.outputs, p, sums, offsets, lane);
                    } else {
#pragma unroll
                        for (int i = 0; i < 2; ++i)
                            store_narrow_rows(p, staging, columns, sums[i], tile, group, first_row + 16 * i, lane);
                    }
#pragma unroll
                    for (int v = 0; v < 16; ++v) sums[v / 8][v / 4 % 2][v % 4] = 0;
                }
            }
    }
}

// --- host ------------------------------------------------------------------------------------------------------------

// A direction by this kernel, whose source is copied where channels are not adjacent.
struct NarrowPlan {
    NarrowShape shape;
    ConvShape source;  // with the strides of the copy
    int64_t copied = 0;
};

template <class T>
NarrowPlan narrow_plan(const ConvShape& s, ConvDirection direction) {
    NarrowPlan plan;
    if constexpr (kHasNarrowConv<T>) {
        if (direction == ConvDirection::kBackwardFilter || s.is_empty(direction)) return plan;
        const bool is_data = direction == ConvDirection::kBackwardData;
        constexpr int64_t kLanes = kVectorLanes<T>;
        plan.source = s;
        ConvStrides& own = is_data ? plan.source.y : plan.source.x;
        bool has_vectors = own.channel == 1 && (s.batch == 1 || own.outer % kLanes == 0);
        for (int d = 0; d < kConvAxes; ++d)
            has_vectors = has_vectors && ((is_data ? s.axis[d].out : s.axis[d].in) == 1 || own.axis[d] % kLanes == 0);
        if (!has_vectors) {
            if ((is_data ? s.group_out() : s.group_in()) % kLanes != 0) return plan;
            const PackedConv packed = PackedConv::of(s, kLanes);
            own = is_data ? packed.shape.y : packed.shape.x;
            plan.copied = is_data ? packed.y : packed.x;
        }
        plan.shape = narrow_shape(plan.source, is_data, max_shared_bytes(device_arch()));
    }
    return plan;
}

template <class T>
size_t narrow_workspace(const NarrowPlan& plan) {
    Carver carver;
    carver.take<T>(plan.copied);
    return carver.bytes();
}

// Computes `result` from `source` and w; sets *is_done if the kernel serves and suits it.
template <class T>
Status conv_by_narrow(const Launch& launch, const ConvShape& s, ConvDirection direction, const matmul_element_t<T>* source,
                      const matmul_element_t<T>* w, matmul_element_t<T>* result, const ConvEpilogue<T>& given, bool* is_done) {
    *is_done = false;
    if constexpr (kHasNarrowConv<T>) {
        const NarrowPlan plan = narrow_plan<T>(s, direction);
        if (!plan.shape.is_valid()) return Status::kOk;
        NarrowConv<T> p{};
        p.s = plan.shape;
        p.source = source;
        if (plan.copied > 0) {
            if (!workspace_holds(launch, narrow_workspace<T>(plan))) return Status::kOk;
            Carver carver(launch.workspace);
            T* const copy = carver.take<T>(plan.copied);
            const PackedConv packed = PackedConv::of(s, kVectorLanes<T>);
            if (direction == ConvDirection::kBackwardData)
                BK_TRY(pack_y(launch, s, packed, sizeof(T), source, copy));
            else
                BK_TRY(pack_x(launch, s, packed, sizeof(T), source, copy));
            p.source = copy;
        }
        if (!is_aligned(p.source, kVectorBytes)) return Status::kOk;
        *is_done = true;
        p.weight = w;
        p.e = conv_epilogue<T>(given, result, p.s.result_c);
        p.e.row_bias = given.bias;
        p.is_simple = !p.e.has_c() && p.e.row_bias == nullptr && p.e.z == nullptr && given.activation == Activation::kNone;
        p.in_pairs = p.is_simple && has_narrow_pairs(p.s) && is_aligned(result, 2 * sizeof(T));
        p.in_rows = p.in_pairs && has_narrow_rows(p.s);
        p.tile_vectors = FastDiv<uint32_t>(p.s.tile_vectors());
        p.reach = FastDiv<uint32_t>(p.s.reach[1]);
        p.row = FastDiv<uint32_t>(p.s.rows[1]);
        p.run = FastDiv<uint32_t>(p.s.run);
        p.tiles = p.s.batch * p.s.axis[0].positions * p.s.tiles[0] * p.s.tiles[1];
        p.count = p.tiles * p.s.units();
        Grid grid;
        grid.shared = p.s.tile_bytes + p.s.weight_bytes + kNarrowFixed;
        // Blocks are those that are resident at once.
        const int64_t resident = std::max<int64_t>(max_shared_bytes(device_arch()) / (grid.shared + (1 << 10)), 1);
        constexpr int64_t kMostResident = 2;  // by registers
        const int64_t blocks = std::min(p.count, device_sms() * std::min(resident, kMostResident));
        grid.blocks = dim3(static_cast<unsigned>(blocks));
        grid.threads = dim3(kNarrowThreads);
        return launch_kernel(launch, grid, narrow_kernel<T>, p);
    }
    return Status::kOk;
}

}  // namespace bk
