// SPDX-License-Identifier: Apache-2.0
// Gradient of the filter of small groups, or of few input channels, for 16-bit elements: mma.sync on tiles of dy and the
// windows that they meet, each of which shared memory holds once for all taps.
//
//   rows of A         16 output channels of dy
//   columns of B      8 input channels under a tap, or 4 under two adjacent ones: a 16-byte vector of a pixel of x
//   K elements        pixels of dy
//
// Small groups: a warp has 16 channels of dy and the same of x under all taps; products across groups are dropped. Few
// channels: a warp has 64 channels of dy and four vectors of columns under one row of taps. A block has a slice of the
// tiles; warps share its pixels, and their sums, and those of slices, are added in their order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/depthwise/depthwise_filter_rows.cuh"
#include "conv/narrow/narrow_sums.cuh"
#include "conv/problem.h"
#include "core/abi/workspace.h"
#include "core/intrinsics/tensor_core.cuh"
#include "core/math/fastdiv.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kNarrowDyChannels = 64, kNarrowDyPitch = (kNarrowDyChannels / 8 + 1) * kVectorBytes;
constexpr int kNarrowTaps = 9;  // of small groups
constexpr int kNarrowWarps = kNarrowThreads / 32;

struct NarrowFilterShape {
    ConvAxis down, across;
    ConvStrides w;
    bool is_grouped = false;
    int group = 0;             // channels of a small group, or of x
    int pixel_bytes = 0;       // of x in shared memory
    int columns = 1;           // vectors of columns under a row of taps
    int items = 1, parts = 1;  // warps of a block with columns of their own, and that share pixels
    int rows[2] = {1, 1}, reach[2] = {1, 1}, tiles[2] = {1, 1};  // as in NarrowShape
    int64_t images = 1, c_in = 0, c_out = 0, units = 1, item_groups = 1, slices = 0, slice = 0;
    unsigned dy_bytes = 0, shared = 0;

    bool is_valid() const { return slices > 0; }
    BK_HD int64_t count() const { return images * tiles[0] * tiles[1]; }
    BK_HD int64_t size() const { return c_out * w.outer; }
    int64_t partials() const { return slices * parts; }
};

template <class T>
struct NarrowFilter {
    const T *x, *dy;
    float* partials;  // [slice, part, w]
    NarrowFilterShape s;
    FastDiv<uint32_t> reach, row;
    int64_t x_image, x_row, x_pixel, x_channel, dy_image, dy_row, dy_pixel;  // strides
};

// Stages pixels of x: cp.async of the 64 channels of a unit, or elements, padded with zeros.
template <class T, bool kIsGrouped>
BK_DEVICE void load_filter_windows(char* to, const NarrowFilter<T>& p, const T* image, int first_y, int first_x,
                                   int64_t channels, int thread) {
    const NarrowFilterShape& s = p.s;
    const int pixels = s.reach[0] * s.reach[1];
    const auto locate = [&](int pixel, int* y, int* x) {
        const DivMod<uint32_t> at = p.reach(static_cast<uint32_t>(pixel));
        *y = first_y + static_cast<int>(at.quotient);
        *x = first_x + static_cast<int>(at.remainder);
        return static_cast<unsigned>(*y) < static_cast<unsigned>(s.down.in) &&
               static_cast<unsigned>(*x) < static_cast<unsigned>(s.across.in);
    };
    int y = 0, x = 0;
    if constexpr (kIsGrouped) {
        for (int index = thread; index < pixels * 8; index += kNarrowThreads) {
            const int vector = index % 8, pixel = index / 8;
            const bool is_there = locate(pixel, &y, &x) && vector * 8 < channels;
            start_copy_16(to + pixel * s.pixel_bytes + vector * kVectorBytes,
                          is_there ? image + y * p.x_row + x * p.x_pixel + vector * 8 : p.x, is_there ? kVectorBytes : 0);
        }
    } else {
        const int quads = s.pixel_bytes / 8;
#pragma unroll 2
        for (int index = thread; index < pixels * quads; index += kNarrowThreads) {
            const int quad = quads == 1 ? 0 : index % quads, pixel = quads == 1 ? index : index / quads;
            const bool is_there = locate(pixel, &y, &x);
            const T* const from = image + y * p.x_row + x * p.x_pixel;
            Vec<T, 4> elements{};
#pragma unroll
            for (int c = 0; c < 4; ++c)
                if (is_there && 4 * quad + c < s.group) elements.lane[c] = from[(4 * quad + c) * p.x_channel];
            store(reinterpret_cast<T*>(to + index * 8), elements);
        }
    }
}

template <class T, bool kIsGrouped>
__global__ void __launch_bounds__(kNarrowThreads, 2) narrow_filter_kernel(const __grid_constant__ NarrowFilter<T> p) {
    constexpr int kRowTiles = kIsGrouped ? 1 : 4, kPairs = kIsGrouped ? kNarrowTaps : 2;  // pairs of vectors of columns
    BK_LAUNCH_SHARED(uint4, shared_words);
    const NarrowFilterShape& s = p.s;
    char* const dy_tile = reinterpret_cast<char*>(shared_words);
    char* const zeros = dy_tile + s.dy_bytes;
    char* const x_tile = zeros + kVectorBytes;
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    if (thread < kVectorBytes / 4) reinterpret_cast<uint32_t*>(zeros)[thread] = 0;

    int64_t block = blockIdx.x;
    const int64_t unit = block % s.units;
    block /= s.units;
    const int64_t item_group = block % s.item_groups, slice = block / s.item_groups;
    const int part = warp / s.items;
    const int64_t item = item_group * s.items + warp % s.items;
    const int row_bytes = s.reach[1] * s.pixel_bytes, taps = static_cast<int>(s.across.taps),
              tap_rows = static_cast<int>(s.down.taps), dilation_y = static_cast<int>(s.down.dilation),
              dilation_x = static_cast<int>(s.across.dilation);
    // Few channels: the row of taps, and its first vector of columns.
    const int quads = (s.columns + 3) / 4, tap_row = static_cast<int>(item) / quads, first = static_cast<int>(item) % quads * 4;
    const bool is_active = part < s.parts && (kIsGrouped || tap_row < tap_rows);

    int offsets[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
        if constexpr (kIsGrouped) {
            const int tap = i < tap_rows * taps ? i : 0;
            offsets[i] = tap / taps * dilation_y * row_bytes + tap % taps * dilation_x * s.pixel_bytes +
                         (static_cast<int>(item) * 2 + lane / 16) * kVectorBytes;
        } else {
            const int own = first + 2 * i + lane / 16, column = own < s.columns ? own : 0;
            offsets[i] =
                tap_row * dilation_y * row_bytes + column * (s.pixel_bytes == kVectorBytes ? dilation_x : 1) * kVectorBytes;
        }
    }
    const int a_offset = (kIsGrouped ? static_cast<int>(item) * 2 : 0) * kVectorBytes + lane / 8 % 2 * kVectorBytes;

    float sums[kRowTiles][2 * kPairs][4] = {};
    const int pixels = s.rows[0] * s.rows[1], step_y = static_cast<int>(s.down.step), step_x = static_cast<int>(s.across.step);
    const int64_t begin = slice * s.slice, end = begin + s.slice < s.count() ? begin + s.slice : s.count();
    for (int64_t index = begin; index < end; ++index) {
        const int tile_x = static_cast<int>(index % s.tiles[1]), tile_y = static_cast<int>(index / s.tiles[1] % s.tiles[0]);
        const int64_t image = index / s.tiles[1] / s.tiles[0];
        const int q_y = tile_y * s.rows[0], q_x = tile_x * s.rows[1];
        const int64_t channel = unit * kNarrowDyChannels;
        __syncthreads();  // all have read the tiles before
        const T* const dy = p.dy + image * p.dy_image + channel;
        for (int i = thread; i < pixels * 8; i += kNarrowThreads) {
            const int vector = i % 8, pixel = i / 8;
            const DivMod<uint32_t> at = p.row(static_cast<uint32_t>(pixel));
            const int y = q_y + static_cast<int>(at.quotient), x = q_x + static_cast<int>(at.remainder);
            const bool is_there =
                y < static_cast<int>(s.down.out) && x < static_cast<int>(s.across.out) && channel + vector * 8 < s.c_out;
            start_copy_16(dy_tile + pixel * kNarrowDyPitch + vector * kVectorBytes,
                          is_there ? dy + y * p.dy_row + x * p.dy_pixel + vector * 8 : p.dy, is_there ? kVectorBytes : 0);
        }
        load_filter_windows<T, kIsGrouped>(x_tile, p, p.x + image * p.x_image + (kIsGrouped ? channel : 0),
                                           q_y * step_y - static_cast<int>(s.down.pad),
                                           q_x * step_x - static_cast<int>(s.across.pad), s.c_in - channel, thread);
        end_copy_group();
        wait_for_copies<0>();
        __syncthreads();
        if (!is_active) continue;
        for (int first_pixel = 16 * part; first_pixel < pixels; first_pixel += 16 * s.parts) {
            const int of_a = first_pixel + lane % 8 + lane / 16 * 8, of_b = first_pixel + lane % 16;
            uint32_t a[kRowTiles][4];
#pragma unroll
            for (int i = 0; i < kRowTiles; ++i)
                ldmatrix_x4_trans(a[i],
                                  of_a < pixels ? dy_tile + of_a * kNarrowDyPitch + a_offset + i * 2 * kVectorBytes : zeros);
            const bool is_there = of_b < pixels;
            const DivMod<uint32_t> at = p.row(static_cast<uint32_t>(of_b));
            const char* const window = x_tile + static_cast<int>(at.quotient) * step_y * row_bytes +
                                       static_cast<int>(at.remainder) * step_x * s.pixel_bytes;
#pragma unroll
            for (int i = 0; i < kPairs; ++i) {
                uint32_t b[4];
                ldmatrix_x4_trans(b, is_there ? window + offsets[i] : zeros);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint32_t own[2] = {b[2 * half], b[2 * half + 1]};
#pragma unroll
                    for (int r = 0; r < kRowTiles; ++r) Mma<T>::run(sums[r][2 * i + half], a[r], own);
                }
            }
        }
    }
    if (!is_active) return;

    float* const to = p.partials + (slice * s.parts + part) * s.size();
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int j = 0; j < 2 * kPairs; ++j)
#pragma unroll
            for (int v = 0; v < 4; ++v) {
                const int row = lane / 4 + v / 2 * 8, column = lane % 4 * 2 + v % 2;
                const int64_t k = unit * kNarrowDyChannels + (kIsGrouped ? item * 16 : r * 16) + row;
                int c = 0, tap_y = tap_row, tap_x = 0;
                bool is_there = k < s.c_out;
                if constexpr (kIsGrouped) {
                    const int own = j % 2 * 8 + column;
                    c = own % s.group;
                    tap_y = j / 2 / taps;
                    tap_x = j / 2 % taps;
                    is_there = is_there && own / s.group == row / s.group && tap_y < tap_rows;
                } else {
                    const int lanes = s.pixel_bytes / static_cast<int>(sizeof(T));
                    c = column % lanes;
                    tap_x = (first + j) * (8 / lanes) + column / lanes;
                    is_there = is_there && c < s.group && tap_x < taps;
                }
                if (is_there) to[k * s.w.outer + tap_y * s.w.axis[1] + tap_x * s.w.axis[2] + c * s.w.channel] = sums[r][j][v];
            }
}

// --- host ------------------------------------------------------------------------------------------------------------

// Tiles that take the least time, by the loads and steps of a tile; false if none fit shared memory.
inline bool choose_narrow_filter_tiles(NarrowFilterShape* p, int taps_reach_x) {
    constexpr double kCopyTime = 0.4, kElementsTime = 3, kStepTime = 40;  // cycles of a vector, and of 16 pixels
    const int out_y = static_cast<int>(p->down.out), out_x = static_cast<int>(p->across.out);
    double best = 0;
    for (int x = 1; x <= std::min(out_x, kNarrowRows); ++x) {
        const int tiles_x = (out_x + x - 1) / x;
        if (x != (out_x + tiles_x - 1) / tiles_x) continue;
        const int most_y = std::min(out_y, kNarrowRows / x), tiles_y = (out_y + most_y - 1) / most_y,
                  y = (out_y + tiles_y - 1) / tiles_y;
        const int64_t reach_y = (y - 1) * p->down.step + (p->down.taps - 1) * p->down.dilation + 1,
                      reach_x = ((x - 1) * p->across.step + taps_reach_x + 1) / 2 * 2,
                      windows = reach_y * reach_x * p->pixel_bytes, dy = int64_t{x} * y * kNarrowDyPitch,
                      bytes = windows + dy + kVectorBytes;
        if (bytes > kFilterRowShared) continue;
        const double of_x = static_cast<double>(windows / kVectorBytes) * (p->is_grouped ? kCopyTime : kElementsTime),
                     of_dy = static_cast<double>(dy / kVectorBytes) * kCopyTime;
        const double time = static_cast<double>(tiles_x) * tiles_y * (of_x + of_dy + (x * y + 15) / 16 * kStepTime);
        if (best != 0 && time >= best) continue;
        best = time;
        set_tile(p, y, x, reach_y, reach_x, tiles_y, tiles_x);
        p->dy_bytes = static_cast<unsigned>(dy);
        p->shared = static_cast<unsigned>(bytes);
    }
    return best != 0;
}

// The gradient of a filter whose dy, and x of small groups, have adjacent channels; not valid where the kernel does not serve
// or suit it.
inline NarrowFilterShape narrow_filter_shape(const ConvShape& s) {
    NarrowFilterShape p;
    const ConvAxis &deep = s.axis[0], &down = s.axis[1], &across = s.axis[2];
    constexpr int64_t kMostReach = 1 << 16, kBlock = 16, kFew = 8, kLeastTiles = 32;
    const bool is_flat = deep.taps == 1 && deep.step == 1 && deep.pad == 0 && deep.in == 1 && deep.out == 1;
    if (!is_flat || s.is_empty(ConvDirection::kBackwardFilter) || s.batch < 1) return p;
    for (const ConvAxis* a : {&down, &across})
        if (a->in + a->pad + a->step + a->reach() > kMostReach) return p;
    p.down = down;
    p.across = across;
    p.w = s.w;
    p.images = s.batch;
    p.c_in = s.c_in;
    p.c_out = s.c_out;
    p.group = static_cast<int>(std::min<int64_t>(s.group_in(), kMostReach));
    p.units = ceil_div<int64_t>(s.c_out, kNarrowDyChannels);
    int64_t reach_x = (across.taps - 1) * across.dilation + 1;
    p.is_grouped = s.groups > 1;
    if (p.is_grouped) {
        if (s.group_in() != s.group_out() || s.group_in() < 2 || kBlock % s.group_in() != 0 || s.taps() > kNarrowTaps) return p;
        if (s.c_in % kFew != 0) return p;
        p.pixel_bytes = kNarrowDyPitch;
        p.items = kNarrowDyChannels / static_cast<int>(kBlock);
    } else {
        if (s.c_in > kFew || s.c_out % kFew != 0) return p;
        const bool in_pairs = s.c_in <= 4 && across.step % 2 == 0 && across.dilation == 1;
        p.pixel_bytes = in_pairs ? kVectorBytes / 2 : kVectorBytes;
        p.columns = static_cast<int>(in_pairs ? ceil_div<int64_t>(across.taps, 2) : across.taps);
        if (in_pairs) reach_x = 2 * int64_t{p.columns};
        const int64_t items = down.taps * ceil_div(p.columns, 4);
        p.item_groups = ceil_div<int64_t>(items, kNarrowWarps);
        p.items = static_cast<int>(ceil_div(items, p.item_groups));
    }
    p.parts = kNarrowWarps / p.items;
    if (!choose_narrow_filter_tiles(&p, static_cast<int>(reach_x))) return p;
    const int64_t tiles = p.count(), wanted = 2 * kReferenceSms / (p.units * p.item_groups);
    if (tiles < kLeastTiles) return p;
    p.slice = ceil_div(tiles, std::max<int64_t>(wanted, 1));
    p.slices = ceil_div(tiles, p.slice);
    return p;
}

// The gradient by this kernel. What has no adjacent channels, or no aligned vectors of them, is copied.
struct NarrowFilterPlan {
    NarrowFilterShape shape;
    PackedConv packed;
    bool copies_x = false, copies_y = false;
};

template <class T>
NarrowFilterPlan narrow_filter_plan(const ConvShape& s) {
    NarrowFilterPlan plan;
    if constexpr (kHasNarrowConv<T>) {
        plan.shape = narrow_filter_shape(s);
        if (!plan.shape.is_valid()) return plan;
        constexpr int64_t kLanes = kVectorLanes<T>;
        const auto has_vectors = [&](const ConvStrides& at, bool of_x) {
            bool found = at.channel == 1 && (s.batch == 1 || at.outer % kLanes == 0);
            for (int d = 0; d < kConvAxes; ++d)
                found = found && ((of_x ? s.axis[d].in : s.axis[d].out) == 1 || at.axis[d] % kLanes == 0);
            return found;
        };
        plan.packed = PackedConv::of(s, 1);  // without padding: all channels together are whole vectors
        plan.copies_x = plan.shape.is_grouped && !has_vectors(s.x, true);
        plan.copies_y = !has_vectors(s.y, false);
    }
    return plan;
}

struct NarrowFilterSpace {
    void *x, *y;
    float* partials;
    size_t bytes;

    static NarrowFilterSpace of(const NarrowFilterPlan& plan, void* base) {
        NarrowFilterSpace own{};
        Carver carver(base);
        constexpr int64_t kSize = 2;
        own.x = carver.take<char>(plan.copies_x ? kSize * plan.packed.x : 0);
        own.y = carver.take<char>(plan.copies_y ? kSize * plan.packed.y : 0);
        own.partials = carver.take<float>(plan.shape.partials() * plan.shape.size());
        own.bytes = carver.bytes();
        return own;
    }
};

// Computes dw; sets *is_done if the kernel serves and suits it.
template <class T>
Status filter_by_narrow(const Launch& launch, const ConvShape& s, const matmul_element_t<T>* x, const matmul_element_t<T>* dy,
                        matmul_element_t<T>* dw, const ConvEpilogue<T>& given, bool* is_done) {
    *is_done = false;
    if constexpr (kHasNarrowConv<T>) {
        const NarrowFilterPlan plan = narrow_filter_plan<T>(s);
        if (!plan.shape.is_valid()) return Status::kOk;
        const NarrowFilterSpace own = NarrowFilterSpace::of(plan, launch.workspace);
        if (!workspace_holds(launch, own.bytes)) return Status::kOk;
        const bool reads_x = plan.shape.is_grouped && !plan.copies_x, reads_y = !plan.copies_y;
        if ((reads_x && !is_aligned(x, kVectorBytes)) || (reads_y && !is_aligned(dy, kVectorBytes))) return Status::kOk;
        *is_done = true;
        NarrowFilter<T> p{};
        p.s = plan.shape;
        p.partials = own.partials;
        p.x = x;
        p.dy = dy;
        ConvStrides of_x = s.x, of_y = s.y;
        if (plan.copies_x) {
            BK_TRY(pack_x(launch, s, plan.packed, sizeof(T), x, own.x));
            p.x = static_cast<const T*>(own.x);
            of_x = plan.packed.shape.x;
        }
        if (plan.copies_y) {
            BK_TRY(pack_y(launch, s, plan.packed, sizeof(T), dy, own.y));
            p.dy = static_cast<const T*>(own.y);
            of_y = plan.packed.shape.y;
        }
        p.x_image = of_x.outer;
        p.x_row = of_x.axis[1];
        p.x_pixel = of_x.axis[2];
        p.x_channel = of_x.channel;
        p.dy_image = of_y.outer;
        p.dy_row = of_y.axis[1];
        p.dy_pixel = of_y.axis[2];
        p.reach = FastDiv<uint32_t>(p.s.reach[1]);
        p.row = FastDiv<uint32_t>(p.s.rows[1]);
        const int64_t blocks = p.s.units * p.s.item_groups * p.s.slices, size = p.s.size(),
                      sum_blocks = ceil_div<int64_t>(size, kFilterSumColumns);
        if (std::max(blocks, sum_blocks) > kMaxGridX)
            return fail(Status::kUnsupported, "a filter of %lld elements has more blocks than a grid",
                        static_cast<long long>(size));
        Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kNarrowThreads)};
        grid.shared = p.s.shared;
        BK_TRY(launch_kernel(launch, grid, p.s.is_grouped ? narrow_filter_kernel<T, true> : narrow_filter_kernel<T, false>, p));
        Epilogue<T> e = conv_epilogue<T>(given, dw, s.w.outer);
        return launch_kernel(launch, {dim3(static_cast<unsigned>(sum_blocks)), dim3(kFilterSumColumns * kFilterSumParts)},
                             add_filter_partials_kernel<T>, e, p.partials, p.s.partials(), size, s.w.outer);
    }
    return Status::kOk;
}

}  // namespace bk
