// SPDX-License-Identifier: Apache-2.0
// Values of a tile on both sides of passes of lengths that are not powers of two (fft/mixed/pass.cuh).
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/mixed/tile.cuh"
#include "fft/packed_real.h"
#include "fft/pass_values.cuh"
#include "fft/power_pass.cuh"
#include "fft/problem.h"
#include "fft/roots.h"

namespace bk {

template <class R>
BK_DEVICE FftValue<R> mixed_product(const FftValue<R>& a, const FftValue<R>& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// A value of a lane that begins at `in`, of a side that has a form of its own.
template <class R>
BK_DEVICE FftValue<R> mixed_any_value(const MixedPass<R>& of, const LaneOffset& at, int e, const R* x) {
    const FftPass& pass = of.pass;
    if (pass.packing != FftPacking::kUnpacks) return take_value(pass, at, e, x);
    const int64_t reals = pass.present - 2 * e;  // `present` counts real numbers
    FftValue<R> value{R(0), R(0)};
    if (reals > 0) value.re = x[2 * (at.in + e * pass.in)];
    if (reals > 1) value.im = x[2 * (at.in + e * pass.in) + 1];
    return value;
}

// Values of a tile, words or real numbers, from read(item), `batch` of them on their way at once.
template <int batch, class R, class Value, class Read>
BK_DEVICE void mixed_read(const MixedPass<R>& of, int used, Value* tile, int pitch, const Read& read) {
    const int threads = static_cast<int>(blockDim.x);
    const MixedWalk walk = MixedWalk::of(of, of.in_values, of.reads_lanes, used);
    const MixedSteps slot = MixedSteps::of(pitch, 1, walk.lanes_first);
#pragma unroll 1
    for (int base = static_cast<int>(threadIdx.x); base < walk.count; base += batch * threads) {
        Value values[batch];
        int slots[batch];
#pragma unroll
        for (int u = 0; u < batch; ++u) {
            const MixedItem at = MixedItem::of(walk, base + u * threads);
            slots[u] = at.is_used ? slot(at) : -1;
            values[u] = Value{};
            if (at.is_used) values[u] = read(at);
        }
#pragma unroll
        for (int u = 0; u < batch; ++u)
            if (slots[u] >= 0) tile[slots[u]] = values[u];
    }
}

// Half a Hermitian fiber, packed.
template <class R, class At>
BK_DEVICE void mixed_read_halves(const MixedPass<R>& of, int used, const FftWord<R>* from, const At& in, FftWord<R>* tile,
                                 const FftWord<R>* roots) {
    const int threads = static_cast<int>(blockDim.x);
    const MixedWalk walk = MixedWalk::of(of, of.in_values, of.reads_lanes, used);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < walk.count; i += threads) {
        const MixedItem at = MixedItem::of(walk, i);
        if (!at.is_used) continue;
        const int k = at.value();
        FftValue<R> value = from[in(at)], image = from[in(at.lane(), of.length - k)];
        if (k == 0) value.im = image.im = R(0);
        const FftRoot<R> root = power_root(roots, k);
        pack_pair(value, image, root.c, root.s);
        FftWord<R>* lane = tile + at.lane() * of.pitch;
        lane[k] = {value.im, value.re};
        if (k > 0) lane[of.length - k] = {image.im, image.re};
    }
}

// Offsets of values of lanes that begin anywhere.
struct MixedFar {
    const int64_t* starts;  // of `in` or `out` of the first offset
    int64_t by_value;

    BK_DEVICE int64_t operator()(int lane, int value) const {
        return starts[lane * static_cast<int>(sizeof(LaneOffset) / sizeof(int64_t))] + value * by_value;
    }
    BK_DEVICE int64_t operator()(const MixedItem& at) const { return (*this)(at.lane(), at.value()); }
};

// Values of a side of words or reals: in(item) or in(lane, position) is where one is in x.
template <class R, class At>
BK_DEVICE void mixed_load_side(const MixedPass<R>& of, int used, const R* x, const At& in, FftWord<R>* tile,
                               const FftWord<R>* words) {
    constexpr int kBatch = sizeof(R) == 4 ? 8 : 4;
    const auto* from = reinterpret_cast<const FftWord<R>*>(x);
    const bool swaps = of.pass.in_swaps[0];
    if (of.pass.packing == FftPacking::kPacks) {
        mixed_read_halves(of, used, from, in, tile, words + of.pair_roots);
    } else if (of.is_half) {
        mixed_read<kBatch>(of, used, reinterpret_cast<R*>(tile), 2 * of.pitch, [&](const MixedItem& at) { return x[in(at)]; });
    } else if (of.in_side == MixedSide::kWords) {
        mixed_read<kBatch>(of, used, tile, of.pitch, [&](const MixedItem& at) {
            const FftWord<R> value = from[in(at)];
            return swaps ? FftWord<R>{value.im, value.re} : value;
        });
    } else {
        mixed_read<kBatch>(of, used, tile, of.pitch, [&](const MixedItem& at) {
            const R value = x[in(at)];
            return swaps ? FftWord<R>{R(0), value} : FftWord<R>{value, R(0)};
        });
    }
}

template <class R>
BK_DEVICE void mixed_load(const MixedPass<R>& of, uint32_t tile_number, int used, const LaneOffset* offsets, const R* x,
                          FftWord<R>* tile, const FftWord<R>* words) {
    const FftPass& pass = of.pass;
    if (of.is_near_in) {
        const int64_t start = int64_t{tile_number} * of.lanes * pass.axis[0].in;
        mixed_load_side(
            of, used, x + (of.in_side == MixedSide::kReals ? start : 2 * start),
            MixedSteps::of(static_cast<int>(pass.axis[0].in), static_cast<int>(pass.in), of.reads_lanes && used > 0), tile,
            words);
    } else if (pass.packing == FftPacking::kPacks || of.in_side != MixedSide::kAny) {
        mixed_load_side(of, used, x, MixedFar{&offsets->in, pass.in}, tile, words);
    } else {
        mixed_read<1>(of, used, tile, of.pitch, [&](const MixedItem& at) {
            const FftValue<R> value = mixed_any_value(of, offsets[at.lane()], at.value(), x);
            return FftWord<R>{value.re, value.im};
        });
    }
    if (!of.is_chirped) return;
    __syncthreads();
#pragma unroll 1
    for (int lane = 0; lane < used; ++lane)
#pragma unroll 1
        for (int e = static_cast<int>(threadIdx.x); e < of.n; e += static_cast<int>(blockDim.x)) {
            FftWord<R>& at = tile[lane * of.pitch + e];
            const FftValue<R> value = e < of.length ? mixed_product<R>(at, words[of.chirps + e]) : FftValue<R>{R(0), R(0)};
            at = {value.re, value.im};
        }
}

// The filter of a convolution: conj(c[j]) from both ends on.
template <class R>
BK_DEVICE void mixed_filter(const MixedPass<R>& of, FftWord<R>* tile, const FftWord<R>* words) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < of.n; i += static_cast<int>(blockDim.x)) {
        const int e = i < of.length ? i : of.n - i;
        const FftWord<R> chirp = e < of.length ? words[of.chirps + e] : FftWord<R>{R(0), R(0)};
        tile[i] = {chirp.re, -chirp.im};
    }
}

template <class R>
BK_DEVICE FftValue<R> mixed_result(const MixedPass<R>& of, const FftWord<R>* lane, int k, const FftWord<R>* words) {
    const FftValue<R> value = lane[k];
    return of.is_chirped ? mixed_product<R>({value.im, value.re}, words[of.chirps + k]) : value;
}

// Results of a side of words or reals: out(item) or out(lane, position) is where one is in y.
template <class R, class At>
BK_DEVICE void mixed_store_side(const MixedPass<R>& of, int used, const FftWord<R>* tile, const FftWord<R>* words, R* y,
                                const At& out) {
    const int threads = static_cast<int>(blockDim.x);
    const MixedWalk walk = MixedWalk::of(of, of.out_values, of.writes_lanes, used);
    const R scale = static_cast<R>(of.pass.scale);
    auto* to = reinterpret_cast<FftWord<R>*>(y);
    if (of.pass.packing == FftPacking::kUnpacks) {
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x); i < walk.count; i += threads) {
            const MixedItem item = MixedItem::of(walk, i);
            if (!item.is_used) continue;
            const FftWord<R>* lane = tile + item.lane() * of.pitch;
            const int k = item.value();
            FftValue<R> value = mixed_result(of, lane, k, words), image;
            if (k == 0) {  // it is its own image
                image = {value.re - value.im, R(0)};
                value = {value.re + value.im, R(0)};
            } else {
                image = mixed_result(of, lane, of.length - k, words);
                const FftRoot<R> root = power_root(words + of.pair_roots, k);
                unpack_pair(value, image, root.c, root.s);
            }
            to[out(item)] = {value.re * scale, value.im * scale};
            if (2 * k != of.length) to[out(item.lane(), of.length - k)] = {image.re * scale, image.im * scale};
        }
        return;
    }
    const bool swaps = of.pass.out_swaps[0], has_words = of.out_side == MixedSide::kWords;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < walk.count; i += threads) {
        const MixedItem item = MixedItem::of(walk, i);
        if (!item.is_used) continue;
        FftValue<R> value = mixed_result(of, tile + item.lane() * of.pitch, item.value(), words);
        if (swaps) value = {value.im, value.re};
        if (has_words)
            to[out(item)] = {value.re * scale, value.im * scale};
        else
            y[out(item)] = value.re * scale;
    }
}

template <class R>
BK_DEVICE void mixed_store(const MixedPass<R>& of, uint32_t tile_number, int used, const LaneOffset* offsets,
                           const FftWord<R>* tile, const FftWord<R>* words, R* y) {
    const FftPass& pass = of.pass;
    if (of.is_near_out) {
        const int64_t start = int64_t{tile_number} * of.lanes * pass.axis[0].out;
        mixed_store_side(
            of, used, tile, words, y + (of.out_side == MixedSide::kReals ? start : 2 * start),
            MixedSteps::of(static_cast<int>(pass.axis[0].out), static_cast<int>(pass.out), of.writes_lanes && used > 0));
        return;
    }
    const MixedFar out{&offsets->out, pass.out};
    if (of.out_side != MixedSide::kAny && pass.period == 0) return mixed_store_side(of, used, tile, words, y, out);
    const int threads = static_cast<int>(blockDim.x);
    const MixedWalk walk = MixedWalk::of(of, of.out_values, of.writes_lanes, used);
    const R scale = static_cast<R>(pass.scale);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < walk.count; i += threads) {
        const MixedItem item = MixedItem::of(walk, i);
        if (!item.is_used) continue;
        const LaneOffset& at = offsets[item.lane()];
        const int k = item.value();
        FftValue<R> value = mixed_result(of, tile + item.lane() * of.pitch, k, words);
        if (pass.period != 0) {
            const FftRoot<R> root =
                pass.period <= kShortRoots ? short_root<R>(k * at.rest, pass.period) : unit_root<R>(k * at.rest, pass.period);
            value = rotated(value, root);
        }
        if (of.out_side == MixedSide::kAny) {
            store_value(pass, at, k, value, y);
            continue;
        }
        if (pass.out_swaps[0]) value = {value.im, value.re};
        if (of.out_side == MixedSide::kWords)
            reinterpret_cast<FftWord<R>*>(y)[out(item)] = {value.re * scale, value.im * scale};
        else
            y[out(item)] = value.re * scale;
    }
}

}  // namespace bk
