// SPDX-License-Identifier: Apache-2.0
// Passes of lengths that are not powers of two on a GPU, whole in shared memory: memory is read once and written once.
//
// A block transforms tile after tile. A pass over a tile is Stockham's, from one copy of the tile to the other: butterfly q of
// radix r reads the values q + t n / r and writes (q - j) r + j + t m, where m is the product of the radices before and
// j = q mod m. Radices up to 16 are butterflies in registers; larger primes sum over the definition, folded as odd butterflies
// are. Lengths with still larger prime factors are convolutions of a length without (fft/problem.h), both transforms of which
// and the filter's stay in shared memory. Radices are numbers of the launch: one kernel serves all lengths of a real type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/mixed_plan.h"
#include "fft/packed_real.h"
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
    FastDiv<uint32_t> of_block[kMixedPasses];          // m
    FastDiv<uint32_t> in_values, out_values, of_tile;  // positions of a lane on each side; lanes of a tile
    FastDiv<uint32_t> extent[kFftAxes];
    MixedSide in_side = MixedSide::kAny, out_side = MixedSide::kAny;
    bool reads_lanes = false, writes_lanes = false;  // lanes lie closer together than values
    bool is_real = false;                            // all imaginary parts are zero in the first pass over a tile

    int threads() const;
};

// A position of a tile's lane.
struct MixedItem {
    int lane, e;

    static BK_DEVICE MixedItem of(const FastDiv<uint32_t>& values, const FastDiv<uint32_t>& lanes, bool lanes_first, int i) {
        const auto at = (lanes_first ? lanes : values)(static_cast<uint32_t>(i));
        const int quotient = static_cast<int>(at.quotient), remainder = static_cast<int>(at.remainder);
        return lanes_first ? MixedItem{remainder, quotient} : MixedItem{quotient, remainder};
    }
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

// --- the passes over a tile --------------------------------------------------------------------------------------------------

// `table` has the roots of t = 1, 2, 4 ... of each j < m.
template <int r, class R>
BK_DEVICE void mixed_butterflies(const MixedPass<R>& of, int p, int m, int used, const FftWord<R>* from, FftWord<R>* to,
                                 const FftWord<R>* table) {
    const int step = of.n / r, count = used * step;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        const auto lane = of.of_lane[p](static_cast<uint32_t>(i));
        const int q = static_cast<int>(lane.remainder), start = static_cast<int>(lane.quotient) * of.pitch;
        FftValue<R> a[r];
#pragma unroll
        for (int t = 0; t < r; ++t) a[t] = from[start + q + t * step];
        int at = start + q * r;
        if (m > 1) {
            const int j = static_cast<int>(of.of_block[p](static_cast<uint32_t>(q)).remainder);
            at -= j * (r - 1);
            FftRoot<R> w[r];
            int word = j;
#pragma unroll
            for (int t = 1; t < r; t *= 2, word += m) w[t] = power_root(table, word);
#pragma unroll
            for (int t = 1; t < r; ++t) {
                const int high = t >= 8 ? 8 : t >= 4 ? 4 : t >= 2 ? 2 : 1;
                if (t != high) w[t] = w[high] * w[t - high];
                a[t] = rotated(a[t], w[t]);
            }
        }
        Butterfly<r, R, R>::apply(a);
#pragma unroll
        for (int t = 0; t < r; ++t) to[at + t * m] = {a[t].re, a[t].im};
    }
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
#pragma unroll 2
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

// Transforms the lanes of a tile. Each pass exchanges the two copies, so that `tile` has the results.
template <class R>
BK_DEVICE void mixed_transform(const MixedPass<R>& of, int used, FftWord<R>*& tile, FftWord<R>*& other,
                               const FftWord<R>* words) {
    int m = 1;
    for (int p = 0; p < of.radices.count; m *= of.radices.radix[p++]) {
        const FftWord<R>* table = words + of.table[p];
        __syncthreads();
        switch (of.radices.radix[p]) {
            case 2: mixed_butterflies<2>(of, p, m, used, tile, other, table); break;
            case 3: mixed_butterflies<3>(of, p, m, used, tile, other, table); break;
            case 4: mixed_butterflies<4>(of, p, m, used, tile, other, table); break;
            case 5: mixed_butterflies<5>(of, p, m, used, tile, other, table); break;
            case 6: mixed_butterflies<6>(of, p, m, used, tile, other, table); break;
            case 7: mixed_butterflies<7>(of, p, m, used, tile, other, table); break;
            case 8: mixed_butterflies<8>(of, p, m, used, tile, other, table); break;
            case 9: mixed_butterflies<9>(of, p, m, used, tile, other, table); break;
            case 10: mixed_butterflies<10>(of, p, m, used, tile, other, table); break;
            case 11: mixed_butterflies<11>(of, p, m, used, tile, other, table); break;
            case 12: mixed_butterflies<12>(of, p, m, used, tile, other, table); break;
            case 13: mixed_butterflies<13>(of, p, m, used, tile, other, table); break;
            case 16: mixed_butterflies<16>(of, p, m, used, tile, other, table); break;
            default: mixed_definition(of, p, m, used, tile, other, table); break;
        }
        FftWord<R>* const results = other;
        other = tile;
        tile = results;
    }
    __syncthreads();
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
            for (int i = thread; i < m * MixedTile::roots_of(r); i += threads) {
                const int t = i / m;
                table[i] = root((i - t * m) << t, m * r);
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

// --- values of a tile --------------------------------------------------------------------------------------------------------

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

// Words of a tile from read(offset of the lane, position), `batch` of them on their way at once.
template <int batch, class R, class Read>
BK_DEVICE void mixed_read(const MixedPass<R>& of, int used, const LaneOffset* offsets, FftWord<R>* tile, const Read& read) {
    const int threads = static_cast<int>(blockDim.x), per_lane = static_cast<int>(of.in_values.divisor());
    const int count = (of.reads_lanes ? of.lanes : used) * per_lane;
#pragma unroll 1
    for (int base = static_cast<int>(threadIdx.x); base < count; base += batch * threads) {
        FftValue<R> values[batch];
        int slots[batch];
#pragma unroll
        for (int u = 0; u < batch; ++u) {
            const int i = base + u * threads;
            const MixedItem item = MixedItem::of(of.in_values, of.of_tile, of.reads_lanes, i);
            slots[u] = i < count && item.lane < used ? item.lane * of.pitch + item.e : -1;
            values[u] = {R(0), R(0)};
            if (slots[u] >= 0) values[u] = read(offsets[item.lane], item.e);
        }
#pragma unroll
        for (int u = 0; u < batch; ++u)
            if (slots[u] >= 0) tile[slots[u]] = {values[u].re, values[u].im};
    }
}

// Half a Hermitian fiber, packed.
template <class R>
BK_DEVICE void mixed_read_halves(const MixedPass<R>& of, int used, const LaneOffset* offsets, const R* x, FftWord<R>* tile,
                                 const FftWord<R>* roots) {
    const auto* from = reinterpret_cast<const FftWord<R>*>(x);
    const int threads = static_cast<int>(blockDim.x), per_lane = static_cast<int>(of.in_values.divisor());
    const int count = (of.reads_lanes ? of.lanes : used) * per_lane;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
        const MixedItem item = MixedItem::of(of.in_values, of.of_tile, of.reads_lanes, i);
        if (item.lane >= used) continue;
        const int k = item.e;
        const int64_t in = offsets[item.lane].in;
        FftValue<R> value = from[in + k * of.pass.in], image = from[in + (of.length - k) * of.pass.in];
        if (k == 0) value.im = image.im = R(0);
        const FftRoot<R> root = power_root(roots, k);
        pack_pair(value, image, root.c, root.s);
        FftWord<R>* lane = tile + item.lane * of.pitch;
        lane[k] = {value.im, value.re};
        if (k > 0) lane[of.length - k] = {image.im, image.re};
    }
}

template <class R>
BK_DEVICE void mixed_load(const MixedPass<R>& of, int used, const LaneOffset* offsets, const R* x, FftWord<R>* tile,
                          const FftWord<R>* words) {
    constexpr int kBatch = sizeof(R) == 4 ? 8 : 4;
    const FftPass& pass = of.pass;
    if (pass.packing == FftPacking::kPacks) {
        mixed_read_halves(of, used, offsets, x, tile, words + of.pair_roots);
    } else if (of.in_side == MixedSide::kWords) {
        mixed_read<kBatch>(of, used, offsets, tile, [&](const LaneOffset& at, int e) -> FftValue<R> {
            const FftValue<R> value = reinterpret_cast<const FftWord<R>*>(x)[at.in + e * pass.in];
            return pass.in_swaps[0] ? FftValue<R>{value.im, value.re} : value;
        });
    } else if (of.in_side == MixedSide::kReals) {
        mixed_read<kBatch>(of, used, offsets, tile, [&](const LaneOffset& at, int e) -> FftValue<R> {
            const R value = x[at.in + e * pass.in];
            return pass.in_swaps[0] ? FftValue<R>{R(0), value} : FftValue<R>{value, R(0)};
        });
    } else {
        mixed_read<1>(of, used, offsets, tile,
                      [&](const LaneOffset& at, int e) -> FftValue<R> { return mixed_any_value(of, at, e, x); });
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
BK_DEVICE void mixed_store(const MixedPass<R>& of, int used, const LaneOffset* offsets, const FftWord<R>* tile,
                           const FftWord<R>* words, R* y) {
    const FftPass& pass = of.pass;
    const int threads = static_cast<int>(blockDim.x), per_lane = static_cast<int>(of.out_values.divisor());
    const int count = (of.writes_lanes ? of.lanes : used) * per_lane;
    const bool unpacks = pass.packing == FftPacking::kUnpacks;
    const R scale = static_cast<R>(pass.scale);
    const auto result = [&](const FftWord<R>* lane, int k) {
        const FftValue<R> value = lane[k];
        return of.is_chirped ? mixed_product<R>({value.im, value.re}, words[of.chirps + k]) : value;
    };
    auto* to = reinterpret_cast<FftWord<R>*>(y);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
        const MixedItem item = MixedItem::of(of.out_values, of.of_tile, of.writes_lanes, i);
        if (item.lane >= used) continue;
        const FftWord<R>* lane = tile + item.lane * of.pitch;
        const LaneOffset& at = offsets[item.lane];
        const int k = item.e;
        FftValue<R> value = result(lane, k);
        if (unpacks) {
            FftValue<R> image;
            if (k == 0) {  // it is its own image
                image = {value.re - value.im, R(0)};
                value = {value.re + value.im, R(0)};
            } else {
                image = result(lane, of.length - k);
                const FftRoot<R> root = power_root(words + of.pair_roots, k);
                unpack_pair(value, image, root.c, root.s);
            }
            to[at.out + k * pass.out] = {value.re * scale, value.im * scale};
            if (2 * k != of.length) to[at.out + (of.length - k) * pass.out] = {image.re * scale, image.im * scale};
            continue;
        }
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
            to[at.out + k * pass.out] = {value.re * scale, value.im * scale};
        else
            y[at.out + k * pass.out] = value.re * scale;
    }
}

// --- the kernel --------------------------------------------------------------------------------------------------------------

template <class R>
__global__ void __launch_bounds__(kMixedThreads<R>, 2) fft_mixed_kernel(MixedPass<R> of, const R* x, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    auto* offsets = reinterpret_cast<LaneOffset*>(shared);
    auto* tile = reinterpret_cast<FftWord<R>*>(offsets + of.lanes);
    FftWord<R>* other = tile + of.lanes * of.pitch;
    FftWord<R>* const words = other + of.lanes * of.pitch;
    FftWord<R>* const spectrum = words + of.spectrum;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    mixed_tables(of, words);
    // A convolution transforms its filter at first, and each tile twice.
    enum : int { kFilter, kForward, kBack };
    int stage = of.is_chirped ? kFilter : kForward, used = 1;
    for (uint32_t t = blockIdx.x; t < of.tiles;) {
        if (stage == kBack) {
#pragma unroll 1
            for (int lane = 0; lane < used; ++lane)
#pragma unroll 1
                for (int e = thread; e < of.n; e += threads) {
                    FftWord<R>& at = tile[lane * of.pitch + e];
                    const FftValue<R> product = mixed_product<R>(at, spectrum[e]);
                    at = {product.im, product.re};
                }
        } else {
            __syncthreads();
            if (stage == kFilter) {
                mixed_filter(of, tile, words);
            } else {
                const int64_t first = int64_t{t} * of.lanes;
                used = static_cast<int>(of.total - first < of.lanes ? of.total - first : of.lanes);
#pragma unroll 1
                for (int lane = thread; lane < used; lane += threads) offsets[lane] = mixed_offset(of, first + lane);
                __syncthreads();
                mixed_load(of, used, offsets, x, tile, words);
            }
        }
        mixed_transform(of, used, tile, other, words);
        if (stage == kFilter) {
            const R scale = R(1) / static_cast<R>(of.n);  // here, so that finite products do not overflow
#pragma unroll 1
            for (int e = thread; e < of.n; e += threads) spectrum[e] = {tile[e].re * scale, tile[e].im * scale};
            stage = kForward;
        } else if (of.is_chirped && stage == kForward) {
            stage = kBack;
        } else {
            mixed_store(of, used, offsets, tile, words, y);
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
    const int most = lanes * n < 4 * kMixedThreads<R> ? kMixedThreads<R> / 2 : kMixedThreads<R>;
    for (int count = most; count >= 96; count -= 32) {
        int64_t work = 0;
        for (int p = 0; p < radices.count; ++p) {
            const int r = radices.radix[p], butterflies = lanes * (n / r);
            const bool sums = radices.is_definition(p);
            const int64_t rounds = ceil_div(sums ? mixed_sum_items(r, butterflies, p == 0 && is_real) : butterflies, count);
            work += rounds * count * (sums ? 4 * r : r + 4);
        }
        if (work < least) least = work, best = count;
    }
    return best;
}

template <class R>
int64_t mixed_bytes(const MixedTile& tile) {
    return tile.bytes(sizeof(FftWord<R>), sizeof(LaneOffset));
}

// Whether shared memory holds a fiber.
template <class R>
bool is_mixed_length(int64_t n, bool packs) {
    return n <= kMixedMost<R> && has_shared(mixed_bytes<R>(MixedTile::of(n, packs)));
}

template <class R>
Status fft_mixed_pass(const FftPass& pass, const void* x, void* y, const Launch& launch) {
    const auto distance = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    MixedPass<R> of;
    static_cast<MixedTile&>(of) = MixedTile::of(pass.n, pass.packing != FftPacking::kNone);
    of.pass = pass;
    of.total = pass.lanes();
    of.reads_lanes = pass.axes > 0 && distance(pass.axis[0].in) < distance(pass.in);
    of.writes_lanes = pass.axes > 0 && distance(pass.axis[0].out) < distance(pass.out);
    // Lanes that lie together want many in a tile; of contiguous values a smaller one lets more blocks share an SM.
    // Sums share roots between two butterflies of a thread.
    const bool is_large = of.reads_lanes || of.writes_lanes || (of.radices.count > 0 && of.radices.is_definition(0));
    const int64_t values = (is_large ? 32768 : 16384) / static_cast<int64_t>(sizeof(FftWord<R>));
    of.lanes = static_cast<int>(std::min<int64_t>({kMixedLanes, std::max<int64_t>(1, values / of.n), of.total}));
    while (of.lanes > 1 && !has_shared(mixed_bytes<R>(of))) --of.lanes;
    of.tiles = static_cast<uint32_t>(ceil_div<int64_t>(of.total, of.lanes));
    int m = 1;
    for (int p = 0; p < of.radices.count; m *= of.radices.radix[p++]) {
        of.of_lane[p] = FastDiv<uint32_t>(of.n / of.radices.radix[p]);
        of.of_block[p] = FastDiv<uint32_t>(m);
    }
    for (int a = 0; a < pass.axes; ++a) of.extent[a] = FastDiv<uint32_t>(pass.axis[a].extent);
    const bool packs = pass.packing == FftPacking::kPacks, unpacks = pass.packing == FftPacking::kUnpacks;
    const auto is_word = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(FftWord<R>) == 0; };
    const bool is_whole = pass.position == 1 && pass.n == pass.length;
    const bool has_plain_in = pass.in_factor == FftFactor::kNone && !pass.in_swaps[1];
    if (has_plain_in && pass.present >= (unpacks ? 2 * pass.length : pass.padded)) {
        if (pass.in_form == FftForm::kComplex && is_word(x)) of.in_side = MixedSide::kWords;
        if (pass.in_form == FftForm::kReal) of.in_side = MixedSide::kReals;
    }
    of.is_real = pass.in_form == FftForm::kReal && has_plain_in && !pass.in_swaps[0] && !of.is_chirped;
    const bool is_half = pass.out_form == FftForm::kHermitian && is_whole;
    if (pass.out_factor == FftFactor::kNone && !pass.out_swaps[1]) {
        const bool has_words = pass.out_form == FftForm::kComplex || (is_half && pass.interior == 1);
        if (has_words && is_word(y)) of.out_side = MixedSide::kWords;
        if (pass.out_form == FftForm::kReal) of.out_side = MixedSide::kReals;
    }
    of.in_values = FastDiv<uint32_t>(packs ? pass.n / 2 + 1 : pass.n);
    of.out_values = FastDiv<uint32_t>(unpacks || is_half ? pass.n / 2 + 1 : pass.n);
    of.of_tile = FastDiv<uint32_t>(of.lanes);
    const int threads = of.threads();
    const int64_t bytes = mixed_bytes<R>(of), shared_of_sm = max_shared_bytes(device_arch()) + 1024;
    const int64_t resident =
        std::max<int64_t>(1, std::min<int64_t>(shared_of_sm / (bytes + 1024), 2 * kMixedThreads<R> / threads));
    const int64_t rounds = ceil_div<int64_t>(of.tiles, resident * std::max<int64_t>(1, device_sms()));
    const int64_t blocks = ceil_div<int64_t>(of.tiles, rounds);  // all of which take as many tiles, or one less
    const Grid grid{dim3(static_cast<unsigned>(std::min<int64_t>(blocks, kMaxGridX))), dim3(static_cast<unsigned>(threads)), 1,
                    static_cast<unsigned>(bytes)};
    return launch_kernel(launch, grid, fft_mixed_kernel<R>, of, static_cast<const R*>(x), static_cast<R*>(y));
}

}  // namespace bk
