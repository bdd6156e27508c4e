// SPDX-License-Identifier: Apache-2.0
// Passes over a tile of shared memory, of lengths that are not powers of two (fft/mixed/pass.cuh).
//
// A pass is Stockham's, from one copy of the tile to the other: butterfly q of radix r reads the values q + t n / r and writes
// (q - j) r + j + t m, where m is the product of the radices before and j = q mod m. Radices up to 16 are butterflies in
// registers; larger primes sum over the definition, folded as odd butterflies are.
#pragma once

#include <cstdint>

#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/mixed/plan.h"
#include "fft/pass_values.cuh"
#include "fft/power_pass.cuh"
#include "fft/problem.h"
#include "fft/roots.h"

namespace bk {

template <class R>
constexpr int kMixedThreads = sizeof(R) == 4 ? 384 : 256;
constexpr int kMixedLanes = 512;
template <class R>
constexpr int kMixedMost = sizeof(R) == 4 ? 8192 : 4096;  // values of a fiber

// A side of a pass in memory: complex numbers, real ones, or any form and factor.
enum class MixedSide : int8_t { kAny, kWords, kReals };

template <class R>
struct MixedPass : MixedTile {
    FftPass pass;
    int64_t total = 0;  // lanes in all
    uint32_t tiles = 0;
    FastDiv<uint32_t> of_lane[kMixedPasses];           // butterflies of a lane
    FastDiv<uint32_t> of_block[kMixedPasses];          // of a block
    FastDiv<uint32_t> in_values, out_values, of_tile;  // positions of a lane on each side; lanes of a tile
    FastDiv<uint32_t> extent[kFftAxes];
    MixedSide in_side = MixedSide::kAny, out_side = MixedSide::kAny;
    bool reads_lanes = false, writes_lanes = false;  // lanes lie closer together than values
    bool is_real = false;                            // all imaginary parts are zero in the first pass over a tile
    bool is_near_in = false, is_near_out = false;    // 32-bit numbers of one lane axis reach all values of a tile

    int threads() const;
    int64_t tile_bytes() const { return bytes(sizeof(FftWord<R>), is_near_in && is_near_out ? 0 : sizeof(LaneOffset)); }
};

// A walk over the positions of all lanes of a tile, of which either run fastest. Numbers of the walk are read once.
struct MixedWalk {
    FastDiv<uint32_t> by;
    int count, used;
    bool lanes_first;

    template <class R>
    static BK_DEVICE MixedWalk of(const MixedPass<R>& of, const FastDiv<uint32_t>& values, bool lanes_first, int used) {
        lanes_first = lanes_first && used > 0;  // a number of this tile, lest others stay in registers from tile to tile
        return {lanes_first ? of.of_tile : values, (lanes_first ? of.lanes : used) * static_cast<int>(values.divisor()),
                lanes_first ? used : INT32_MAX, lanes_first};
    }
};

// An item of a walk: quotient and remainder are a lane and a position, or the other way round.
struct MixedItem {
    int quotient, remainder;
    bool lanes_first, is_used;

    static BK_DEVICE MixedItem of(const MixedWalk& walk, int i) {
        const auto at = walk.by(static_cast<uint32_t>(i));
        const int remainder = static_cast<int>(at.remainder);
        return {static_cast<int>(at.quotient), remainder, walk.lanes_first, i < walk.count && remainder < walk.used};
    }
    BK_DEVICE int lane() const { return lanes_first ? remainder : quotient; }
    BK_DEVICE int value() const { return lanes_first ? quotient : remainder; }
};

// A linear function of lane and value.
struct MixedSteps {
    int by_lane, by_value;
    int by_quotient, by_remainder;

    static BK_DEVICE MixedSteps of(int by_lane, int by_value, bool lanes_first) {
        return {by_lane, by_value, lanes_first ? by_value : by_lane, lanes_first ? by_lane : by_value};
    }
    BK_DEVICE int operator()(const MixedItem& at) const { return at.quotient * by_quotient + at.remainder * by_remainder; }
    BK_DEVICE int operator()(int lane, int value) const { return lane * by_lane + value * by_value; }
};

template <class R>
BK_DEVICE LaneOffset mixed_offset(const MixedPass<R>& of, int64_t index) {
    if (of.total > INT32_MAX) return lane_offset(of.pass, index);
    LaneOffset at{0, 0, 0, 0};
    auto rest = static_cast<uint32_t>(index);
    for (int a = 0; a < of.pass.axes; ++a) {
        const FftAxis& axis = of.pass.axis[a];
        const auto split = of.extent[a](rest);
        const int64_t along = split.remainder;
        rest = split.quotient;
        at.in += along * axis.in;
        at.out += along * axis.out;
        at.position += along * axis.position;
        at.rest += along * axis.rest;
    }
    return at;
}

// Real fibers of an odd length are real numbers in the first pass, and Hermitian blocks of m values behind it, of which
// (m + 1) / 2 are kept: butterfly j of a block has the values of butterfly m - j as conjugates.
template <int r, class R>
BK_DEVICE void mixed_real_butterflies(const MixedPass<R>& of, int used, const FftWord<R>* from, FftWord<R>* to) {
    const int step = static_cast<int>(of.of_lane[0].divisor()), count = used * step;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        const auto lane = of.of_lane[0](static_cast<uint32_t>(i));
        const int q = static_cast<int>(lane.remainder), start = static_cast<int>(lane.quotient) * of.pitch;
        const R* values = reinterpret_cast<const R*>(from + start) + q;
        FftValue<R> a[r];
#pragma unroll
        for (int t = 0; t < r; ++t) a[t] = {values[t * step], R(0)};
        Butterfly<r, R, R>::apply(a);
        FftWord<R>* half = to + start + q * (r / 2 + 1);
#pragma unroll
        for (int t = 0; t <= r / 2; ++t) half[t] = {a[t].re, t == 0 ? R(0) : a[t].im};
    }
}

// `table` has the roots of t = 1, 2, 4 ... of each butterfly of a block.
template <int r, bool is_half, class R>
BK_DEVICE void mixed_butterflies(const MixedPass<R>& of, int p, int m, int used, const FftWord<R>* from, FftWord<R>* to,
                                 const FftWord<R>* table) {
    const int step = static_cast<int>(of.of_lane[p].divisor()), count = used * step;
    const int block = static_cast<int>(of.of_block[p].divisor());
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        const auto lane = of.of_lane[p](static_cast<uint32_t>(i));
        const int q = static_cast<int>(lane.remainder), start = static_cast<int>(lane.quotient) * of.pitch;
        FftValue<R> a[r];
#pragma unroll
        for (int t = 0; t < r; ++t) a[t] = from[start + q + t * step];
        int at = start + q * r, j = 0;
        if (m > 1) {
            const auto in_block = of.of_block[p](static_cast<uint32_t>(q));
            j = static_cast<int>(in_block.remainder);
            at = is_half ? start + static_cast<int>(in_block.quotient) * ((m * r + 1) / 2) : at - j * (r - 1);
            FftRoot<R> w[r];
            int word = j;
#pragma unroll
            for (int t = 1; t < r; t *= 2, word += block) w[t] = power_root(table, word);
#pragma unroll
            for (int t = 1; t < r; ++t) {
                const int high = t >= 8 ? 8 : t >= 4 ? 4 : t >= 2 ? 2 : 1;
                if (t != high) w[t] = w[high] * w[t - high];
                a[t] = rotated(a[t], w[t]);
            }
        }
        Butterfly<r, R, R>::apply(a);
        if (is_half) {
#pragma unroll
            for (int t = 0; t < r; ++t) {
                const int k = j + t * m;
                if (t < r / 2 || (t == r / 2 && 2 * k < m * r))
                    to[at + k] = {a[t].re, a[t].im};
                else if (j > 0)
                    to[at + m * r - k] = {a[t].re, -a[t].im};
            }
        } else {
#pragma unroll
            for (int t = 0; t < r; ++t) to[at + t * m] = {a[t].re, a[t].im};
        }
    }
}

template <int r, class R>
BK_DEVICE void mixed_odd(const MixedPass<R>& of, int p, int m, int used, const FftWord<R>* from, FftWord<R>* to,
                         const FftWord<R>* table) {
    if (!of.is_half)
        mixed_butterflies<r, false>(of, p, m, used, from, to, table);
    else if (p == 0)
        mixed_real_butterflies<r>(of, used, from, to);
    else
        mixed_butterflies<r, true>(of, p, m, used, from, to, table);
}
template <int r, class R>
BK_DEVICE void mixed_even(const MixedPass<R>& of, int p, int m, int used, const FftWord<R>* from, FftWord<R>* to,
                          const FftWord<R>* table) {
    mixed_butterflies<r, false>(of, p, m, used, from, to, table);
}

// Sums over the definition of kMixedSums values k and their mirror images, X[k] and X[r - k] = E -+ i O, where E and O are
// sums of cosines and sines over a[t] + a[r - t] and a[t] - a[r - t]: of both parts of a butterfly, or of two real ones.
constexpr int kMixedSums = 4;

template <bool is_real, class R>
BK_DEVICE void mixed_sums(const FftWord<R>* const (&from)[2], int step, int r, int m, int first, const FftWord<R>* roots,
                          FftWord<R>* const (&to)[2]) {
    constexpr unsigned kWord = sizeof(FftWord<R>);
    R even[2][kMixedSums], odd[2][kMixedSums];
    unsigned angle[kMixedSums];  // of k t, in bytes
#pragma unroll
    for (int s = 0; s < kMixedSums; ++s) {
        angle[s] = 0;
        even[0][s] = from[0][0].re;
        even[1][s] = is_real ? from[1][0].re : from[0][0].im;
        odd[0][s] = odd[1][s] = R(0);
    }
    const int half = r / 2;
    const unsigned advance = kWord * static_cast<unsigned>(m), period = advance * static_cast<unsigned>(r);
    int low = 0, high = r * step;
#pragma unroll 1
    for (int t = 1; t <= half; ++t) {
        low += step;
        high -= step;
        const FftWord<R> added = from[0][low], subtracted = from[0][high];
        const R sum[2] = {added.re, is_real ? from[1][low].re : added.im};
        const R difference[2] = {subtracted.re, is_real ? from[1][high].re : subtracted.im};
#pragma unroll
        for (int s = 0; s < kMixedSums; ++s) {
            const unsigned next = angle[s] + static_cast<unsigned>(first + s) * advance, wrapped = next - period;
            angle[s] = next < wrapped ? next : wrapped;  // below the period the difference is huge
            const FftWord<R> root = *reinterpret_cast<const FftWord<R>*>(reinterpret_cast<const char*>(roots) + angle[s]);
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                even[u][s] += sum[u] * root.re;
                odd[u][s] += difference[u] * root.im;
            }
        }
    }
#pragma unroll
    for (int s = 0; s < kMixedSums; ++s) {
        const int k = first + s;
        if (k > half) continue;
        if (is_real) {
#pragma unroll
            for (int u = 0; u < 2; ++u) {
                to[u][k * m] = {even[u][s], -odd[u][s]};
                if (k > 0) to[u][(r - k) * m] = {even[u][s], odd[u][s]};
            }
        } else {
            to[0][k * m] = {even[0][s] + odd[1][s], even[1][s] - odd[0][s]};
            if (k > 0) to[0][(r - k) * m] = {even[0][s] - odd[1][s], even[1][s] + odd[0][s]};
        }
    }
}

// Threads with work in the sums of one value and its mirror image of so many butterflies, and of all.
BK_HD int mixed_sum_butterflies(int count, bool is_real) { return is_real ? (count + 1) / 2 : count; }
BK_HD int mixed_sum_items(int r, int count, bool is_real) {
    return mixed_sum_butterflies(count, is_real) * (r / 2 / kMixedSums + 1);
}

// The roots are those of order m r.
template <class R>
BK_DEVICE void mixed_definition(const MixedPass<R>& of, int p, int m, int used, FftWord<R>* from, FftWord<R>* to,
                                const FftWord<R>* roots) {
    const int r = of.radices.radix[p], step = of.n / r, count = used * step, half = r / 2;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count * half; i += static_cast<int>(blockDim.x)) {
        const int t = i / count + 1;
        const auto lane = of.of_lane[p](static_cast<uint32_t>(i - (t - 1) * count));
        FftWord<R>* values = from + static_cast<int>(lane.quotient) * of.pitch + static_cast<int>(lane.remainder);
        FftValue<R> a = values[t * step], b = values[(r - t) * step];
        if (m > 1) {
            const int j = static_cast<int>(of.of_block[p](lane.remainder).remainder);
            a = rotated(a, power_root(roots, j * t));
            b = rotated(b, power_root(roots, j * (r - t)));
        }
        values[t * step] = {a.re + b.re, a.im + b.im};
        values[(r - t) * step] = {a.re - b.re, a.im - b.im};
    }
    __syncthreads();
    const bool is_real = p == 0 && of.is_real;
    const int items = mixed_sum_items(r, count, is_real), each = mixed_sum_butterflies(count, is_real);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < items; i += static_cast<int>(blockDim.x)) {
        const int group = i / each, own = i - group * each;
        const FftWord<R>* values[2];
        FftWord<R>* results[2];
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            const int butterfly = own + u * each < count ? own + u * each : own;
            const auto lane = of.of_lane[p](static_cast<uint32_t>(butterfly));
            const int q = static_cast<int>(lane.remainder), start = static_cast<int>(lane.quotient) * of.pitch;
            const int j = static_cast<int>(of.of_block[p](lane.remainder).remainder);
            values[u] = from + start + q;
            results[u] = to + start + q * r - j * (r - 1);
        }
        if (is_real)
            mixed_sums<true>(values, step, r, m, kMixedSums * group, roots, results);
        else
            mixed_sums<false>(values, step, r, m, kMixedSums * group, roots, results);
    }
}

// Transforms the lanes of a tile, whose copy begins at `copy`. Each pass exchanges the copies: the results' is returned.
template <class R>
BK_DEVICE int mixed_transform(const MixedPass<R>& of, int used, FftWord<R>* tiles, int copy, const FftWord<R>* words) {
    int m = 1;
    for (int p = 0; p < of.radices.count; m *= of.radices.radix[p++]) {
        const FftWord<R>* table = words + of.table[p];
        const int next = of.lanes * of.pitch - copy;
        FftWord<R>*const tile = tiles + copy, *const other = tiles + next;
        __syncthreads();
        switch (of.radices.radix[p]) {
            case 2: mixed_even<2>(of, p, m, used, tile, other, table); break;
            case 3: mixed_odd<3>(of, p, m, used, tile, other, table); break;
            case 4: mixed_even<4>(of, p, m, used, tile, other, table); break;
            case 5: mixed_odd<5>(of, p, m, used, tile, other, table); break;
            case 6: mixed_even<6>(of, p, m, used, tile, other, table); break;
            case 7: mixed_odd<7>(of, p, m, used, tile, other, table); break;
            case 8: mixed_even<8>(of, p, m, used, tile, other, table); break;
            case 9: mixed_odd<9>(of, p, m, used, tile, other, table); break;
            case 10: mixed_even<10>(of, p, m, used, tile, other, table); break;
            case 11: mixed_odd<11>(of, p, m, used, tile, other, table); break;
            case 12: mixed_even<12>(of, p, m, used, tile, other, table); break;
            case 13: mixed_odd<13>(of, p, m, used, tile, other, table); break;
            case 16: mixed_even<16>(of, p, m, used, tile, other, table); break;
            default: mixed_definition(of, p, m, used, tile, other, table); break;
        }
        copy = next;
    }
    __syncthreads();
    return copy;
}

// Roots of all passes, chirps exp(-i pi e^2 / N), and roots of pairs.
template <class R>
BK_DEVICE void mixed_tables(const MixedPass<R>& of, FftWord<R>* words) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    const auto root = [](int k, int n) {
        const FftRoot<R> found = short_root<R>(k, n);
        return FftWord<R>{found.c, found.s};
    };
    int m = 1;
    for (int p = 0; p < of.radices.count; m *= of.radices.radix[p++]) {
        const int r = of.radices.radix[p];
        FftWord<R>* table = words + of.table[p];
        if (of.radices.is_definition(p)) {
#pragma unroll 1
            for (int i = thread; i < m * r; i += threads) table[i] = root(i, m * r);
        } else if (p > 0) {
#pragma unroll 1
            for (int i = thread; i < of.block[p] * MixedTile::roots_of(r); i += threads) {
                const int t = i / of.block[p];
                table[i] = root((i - t * of.block[p]) << t, m * r);
            }
        }
    }
    if (of.is_chirped)
#pragma unroll 1
        for (int i = thread; i < of.length; i += threads) {
            const FftWord<R> found = root(i * i % (2 * of.length), 2 * of.length);
            words[of.chirps + i] = {found.re, -found.im};
        }
    if (of.pass.packing != FftPacking::kNone)
#pragma unroll 1
        for (int i = thread; i <= of.length / 2; i += threads) words[of.pair_roots + i] = root(i, 2 * of.length);
}

}  // namespace bk
