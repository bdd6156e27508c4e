// SPDX-License-Identifier: Apache-2.0
// Passes of lengths that are not powers of two on a GPU, whole in shared memory: memory is read once and written once.
//
// A block transforms tile after tile. Lengths with a prime factor above kMixedMostPrime are convolutions of a length without
// (fft/problem.h), both transforms of which and the filter's stay in shared memory. Radices are numbers of the launch: one
// kernel serves all lengths of a real type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/mixed/plan.h"
#include "fft/mixed/tile.cuh"
#include "fft/mixed/values.cuh"
#include "fft/pass_values.cuh"
#include "fft/problem.h"

namespace bk {

// --- the kernel --------------------------------------------------------------------------------------------------------------

template <class R>
__global__ void __launch_bounds__(2 * kMixedThreads<R>) fft_mixed_kernel(MixedPass<R> of, const R* x, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    auto* offsets = reinterpret_cast<LaneOffset*>(shared);
    const bool has_offsets = !of.is_near_in || !of.is_near_out;
    auto* const tiles = reinterpret_cast<FftWord<R>*>(offsets + (has_offsets ? of.lanes : 0));
    FftWord<R>* const words = tiles + 2 * of.lanes * of.pitch;
    mixed_tables(of, words);
    // A convolution transforms its filter at first, and each tile twice.
    enum : int { kFilter, kForward, kBack };
    int stage = of.is_chirped ? kFilter : kForward, used = 1;
    int copy = 0;  // where that of both with the tile's values begins
    for (uint32_t t = blockIdx.x; t < of.tiles;) {
        if (stage == kBack) {
#pragma unroll 1
            for (int lane = 0; lane < used; ++lane)
#pragma unroll 1
                for (int e = static_cast<int>(threadIdx.x); e < of.n; e += static_cast<int>(blockDim.x)) {
                    FftWord<R>& at = tiles[copy + lane * of.pitch + e];
                    const FftValue<R> product = mixed_product<R>(at, words[of.spectrum + e]);
                    at = {product.im, product.re};
                }
        } else if (stage == kFilter) {
            __syncthreads();
            mixed_filter(of, tiles + copy, words);
        } else {
            const int64_t first = int64_t{t} * of.lanes;
            used = static_cast<int>(of.total - first < of.lanes ? of.total - first : of.lanes);
            __syncthreads();
            if (has_offsets) {
#pragma unroll 1
                for (int lane = static_cast<int>(threadIdx.x); lane < used; lane += static_cast<int>(blockDim.x))
                    offsets[lane] = mixed_offset(of, first + lane);
                __syncthreads();
            }
            mixed_load(of, t, used, offsets, x, tiles + copy, words);
        }
        copy = mixed_transform(of, used, tiles, copy, words);
        if (stage == kFilter) {
            const R scale = R(1) / static_cast<R>(of.n);  // here, so that finite products do not overflow
#pragma unroll 1
            for (int e = static_cast<int>(threadIdx.x); e < of.n; e += static_cast<int>(blockDim.x))
                words[of.spectrum + e] = {tiles[copy + e].re * scale, tiles[copy + e].im * scale};
            stage = kForward;
        } else if (of.is_chirped && stage == kForward) {
            stage = kBack;
        } else {
            mixed_store(of, t, used, offsets, tiles + copy, words, y);
            stage = kForward;
            t += gridDim.x;
        }
    }
}

// --- the launch --------------------------------------------------------------------------------------------------------------

// The number that keeps most threads busy in all passes.
template <class R>
int MixedPass<R>::threads() const {
    int best = 0;
    int64_t least = INT64_MAX;
    const int64_t values = int64_t{lanes} * pitch, bytes = tile_bytes();
    const bool is_alone = 2 * (bytes + 1024) > max_shared_bytes(device_arch()) + 1024;  // on its SM
    const int most = is_alone ? 2 * kMixedThreads<R> : values < 4 * kMixedThreads<R> ? kMixedThreads<R> / 2 : kMixedThreads<R>;
    for (int count = most; count >= 96; count -= 32) {
        int64_t work = 0;
        for (int p = 0, m = 1; p < radices.count; m *= radices.radix[p++]) {
            const int r = radices.radix[p], all = lanes * butterflies(p, m);
            const bool sums = radices.is_definition(p);
            const int64_t rounds = ceil_div(sums ? mixed_sum_items(r, all, p == 0 && is_real) : all, count);
            work += rounds * count * (sums ? 4 * r : r + 4);
        }
        if (work < least) least = work, best = count;
    }
    return best;
}

// Whether shared memory holds a fiber.
template <class R>
bool is_mixed_length(int64_t n, bool packs) {
    return n <= kMixedMost<R> && has_shared(MixedTile::of(n, packs).bytes(sizeof(FftWord<R>), sizeof(LaneOffset)));
}

// Makes one axis of two whose strides agree.
inline void merge_axes(FftPass& pass) {
    int count = std::min(pass.axes, 1);
    for (int a = 1; a < pass.axes; ++a) {
        FftAxis& last = pass.axis[count - 1];
        const FftAxis& next = pass.axis[a];
        const auto continues = [&](int64_t FftAxis::* stride) { return next.*stride == last.*stride * last.extent; };
        if (continues(&FftAxis::in) && continues(&FftAxis::out) && continues(&FftAxis::position) && continues(&FftAxis::rest))
            last.extent *= next.extent;
        else
            pass.axis[count++] = next;
    }
    pass.axes = count;
}

template <class R>
Status fft_mixed_pass(FftPass pass, const void* x, void* y, const Launch& launch) {
    const auto distance = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    merge_axes(pass);
    MixedPass<R> of;
    const bool packs = pass.packing == FftPacking::kPacks, unpacks = pass.packing == FftPacking::kUnpacks;
    const auto is_word = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(FftWord<R>) == 0; };
    const bool is_whole = pass.position == 1 && pass.n == pass.length;
    const bool has_plain_in = pass.in_factor == FftFactor::kNone && !pass.in_swaps[1];
    if (has_plain_in && pass.present >= (unpacks ? 2 * pass.length : pass.padded)) {
        if (pass.in_form == FftForm::kComplex && is_word(x)) of.in_side = MixedSide::kWords;
        if (pass.in_form == FftForm::kReal) of.in_side = MixedSide::kReals;
    }
    const bool is_half_out = pass.out_form == FftForm::kHermitian && is_whole;
    if (pass.out_factor == FftFactor::kNone && !pass.out_swaps[1]) {
        const bool has_words = pass.out_form == FftForm::kComplex || (is_half_out && pass.interior == 1);
        if (has_words && is_word(y)) of.out_side = MixedSide::kWords;
        if (pass.out_form == FftForm::kReal) of.out_side = MixedSide::kReals;
    }
    const MixedRadices radices = MixedRadices::of(pass.n);
    const bool is_half = pass.n % 2 == 1 && radices.count > 0 && !radices.is_definition(0) && is_half_out &&
                         of.in_side == MixedSide::kReals && of.out_side == MixedSide::kWords && !pass.in_swaps[0] &&
                         !pass.out_swaps[0] && pass.period == 0;
    static_cast<MixedTile&>(of) = MixedTile::of(pass.n, pass.packing != FftPacking::kNone, is_half);
    of.pass = pass;
    of.total = pass.lanes();
    const auto is_near = [&](int64_t by_lane, int64_t by_value) {
        constexpr int64_t kMost = INT32_MAX / 2;
        return pass.axes < 2 && distance(by_lane) <= kMost / kMixedLanes && distance(by_value) <= kMost / kMixedMost<R>;
    };
    of.is_near_in = is_near(pass.axis[0].in, pass.in) && (packs || of.in_side != MixedSide::kAny);
    of.is_near_out = is_near(pass.axis[0].out, pass.out) && of.out_side != MixedSide::kAny && pass.period == 0;
    of.reads_lanes = pass.axes > 0 && distance(pass.axis[0].in) < distance(pass.in);
    of.writes_lanes = pass.axes > 0 && distance(pass.axis[0].out) < distance(pass.out);
    // Lanes that lie together want many in a tile; of contiguous values a smaller one lets more blocks share an SM.
    // Sums share roots between two butterflies of a thread.
    const bool is_large = of.reads_lanes || of.writes_lanes || (of.radices.count > 0 && of.radices.is_definition(0));
    const int64_t values = (is_large ? 32768 : 8192) / static_cast<int64_t>(sizeof(FftWord<R>));
    of.lanes = static_cast<int>(std::min<int64_t>({kMixedLanes, std::max<int64_t>(1, values / of.pitch), of.total}));
    while (of.lanes > 1 && !has_shared(of.tile_bytes())) --of.lanes;
    of.tiles = static_cast<uint32_t>(ceil_div<int64_t>(of.total, of.lanes));
    for (int p = 0, m = 1; p < of.radices.count; m *= of.radices.radix[p++]) {
        of.of_lane[p] = FastDiv<uint32_t>(of.butterflies(p, m));
        of.of_block[p] = FastDiv<uint32_t>(of.block[p]);
    }
    for (int a = 0; a < pass.axes; ++a) of.extent[a] = FastDiv<uint32_t>(pass.axis[a].extent);
    of.is_real = pass.in_form == FftForm::kReal && has_plain_in && !pass.in_swaps[0] && !of.is_chirped;
    of.in_values = FastDiv<uint32_t>(packs ? pass.n / 2 + 1 : pass.n);
    of.out_values = FastDiv<uint32_t>(unpacks || is_half_out ? pass.n / 2 + 1 : pass.n);
    of.of_tile = FastDiv<uint32_t>(of.lanes);
    const int threads = of.threads();
    const int64_t bytes = of.tile_bytes(), shared_of_sm = max_shared_bytes(device_arch()) + 1024;
    const int64_t resident =
        std::max<int64_t>(1, std::min<int64_t>(shared_of_sm / (bytes + 1024), 2 * kMixedThreads<R> / threads));
    const int64_t rounds = ceil_div<int64_t>(of.tiles, resident * std::max<int64_t>(1, device_sms()));
    const int64_t blocks = ceil_div<int64_t>(of.tiles, rounds);  // all of which take as many tiles, or one less
    const Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(blocks, kMaxGridX))), dim3(static_cast<unsigned>(threads)), 1,
                    static_cast<unsigned>(bytes)};
    return launch_kernel(launch, grid, fft_mixed_kernel<R>, of, static_cast<const R*>(x), static_cast<R*>(y));
}

}  // namespace bk
