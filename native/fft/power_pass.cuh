// SPDX-License-Identifier: Apache-2.0
// A pass of transforms of n = 2^p values on a GPU, n >= 16: a thread has eight of them in registers.
//
// The passes over a tile are those of Stockham: of radix 8, then of 2 or 4 if p asks for one. Butterfly q reads the values
// q + t n / 8, in memory at first, and in shared memory writes the slots where the next pass of radix 8 finds values alike.
// The last pass keeps its results in registers. Values of pairs of real numbers (fft/packed_real.h) meet their mirror images
// there too: those behind the middle are exchanged through shared memory. A split fiber has them in two lanes, which then
// belong to one tile. Roots of unity are computed once a block, which takes tile after tile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/packed_real.h"
#include "fft/pass_values.cuh"
#include "fft/problem.h"
#include "fft/roots.h"

namespace bk {

// Threads of a block, at most; each has eight values of a tile.
template <class R>
constexpr int kPowerThreads = sizeof(R) == 4 ? 512 : 256;
constexpr int kPowerRowThreads = 256;

// A complex number that one instruction loads.
template <class R>
struct alignas(2 * sizeof(R)) FftWord {
    R re, im;
    BK_HD operator FftValue<R>() const { return {re, im}; }
};

// Transforms of a tile.
struct PowerTile {
    uint32_t lanes, tiles;
    int32_t log_n, log_lanes;        // of a transform; of a tile
    int32_t skip;                    // log2 of the values behind which a slot of shared memory is left out
    bool reads_lanes, writes_lanes;  // lanes lie closer together than values

    BK_HD int padded(int i) const { return i + (i >> skip); }
    BK_HD int pitch() const { return padded((1 << log_n) - 1) + 1; }
    BK_HD int step() const { return 1 << (log_n - 3); }
    BK_HD int jump() const { return step() + (step() >> skip); }

    // Lanes of n values, as many in a tile as `values` hold.
    static PowerTile of(int64_t n, int64_t lanes, int64_t values) {
        PowerTile tile{};
        tile.lanes = static_cast<uint32_t>(lanes);
        while ((1 << tile.log_n) < n) ++tile.log_n;
        tile.skip = std::min(4, tile.log_n - 3);
        while (n << (tile.log_lanes + 1) <= values && (int64_t{1} << tile.log_lanes) < lanes) ++tile.log_lanes;
        tile.set_tiles();
        return tile;
    }
    void set_tiles() { tiles = static_cast<uint32_t>(ceil_div<int64_t>(lanes, int64_t{1} << log_lanes)); }
    // Blocks that fill the SMs, each of which holds so many threads.
    template <class R>
    Grid grid(int threads_of_sm = 2 * kPowerThreads<R>) const;
};

struct PowerPass : PowerTile {
    FftPass pass;
    FastDiv<uint32_t> extent[kFftAxes];
    FastDiv<uint32_t> fiber_tiles;   // of a fiber with mirrored lanes
    int64_t half_in, half_out;       // strides of half a Hermitian fiber
    bool is_plain_in, is_plain_out;  // complex numbers without a factor

    void set_extents() {
        for (int a = 0; a < pass.axes; ++a) extent[a] = FastDiv<uint32_t>(pass.axis[a].extent);
    }
};

// A lane of the tile and the values q + t n / 8 of it.
struct PowerLane {
    int lane, q;

    static BK_DEVICE PowerLane of(const PowerTile& of, bool lanes_first) {
        const int thread = static_cast<int>(threadIdx.x), log_step = of.log_n - 3;
        if (lanes_first) return {thread & ((1 << of.log_lanes) - 1), thread >> of.log_lanes};
        return {thread >> log_step, thread & ((1 << log_step) - 1)};
    }
};

// The number of a tile's lane among all. A tile of mirrored lanes has as many from the fiber's start on as from its end.
BK_DEVICE uint32_t power_lane_number(const PowerPass& of, uint32_t tile, int lane) {
    if (!of.pass.mirrors) return (tile << of.log_lanes) + static_cast<uint32_t>(lane);
    const uint32_t extent = of.extent[0].divisor(), half = 1u << (of.log_lanes - 1);
    const auto at = of.fiber_tiles(tile);
    const uint32_t low = at.remainder * half + (static_cast<uint32_t>(lane) & (half - 1));
    const uint32_t high = low == 0 ? extent / 2 : extent - low;
    return at.quotient * extent + (static_cast<uint32_t>(lane) < half ? low : high);
}

BK_DEVICE LaneOffset power_offset(const PowerPass& of, uint32_t index) {
    LaneOffset at{0, 0, 0, 0};
    for (int a = 0; a < of.pass.axes; ++a) {
        const FftAxis& axis = of.pass.axis[a];
        const bool is_last = a + 1 == of.pass.axes;
        const auto split = of.extent[a](index);
        const int64_t along = is_last ? index : split.remainder;
        index = split.quotient;
        at.in += along * axis.in;
        at.out += along * axis.out;
        at.position += along * axis.position;
        at.rest += along * axis.rest;
    }
    return at;
}

// Twice the values of the longest fibers whose roots 32-bit numbers compute.
constexpr int64_t kShortRoots = int64_t{1} << 28;

// The root k of n <= kShortRoots.
template <class R>
BK_DEVICE FftRoot<R> short_root(int64_t k, int64_t n) {
    return unit_root_of<R, int32_t>(static_cast<int32_t>(k), static_cast<int32_t>(n));
}

template <class R>
BK_DEVICE FftRoot<R> operator*(const FftRoot<R>& a, const FftRoot<R>& b) {
    return {a.c * b.c - a.s * b.s, a.s * b.c + a.c * b.s};
}
template <class R>
BK_DEVICE FftValue<R> rotated(const FftValue<R>& a, const FftRoot<R>& root) {
    return rotated(a, root.c, root.s);
}
template <class R>
BK_DEVICE FftRoot<R> power_root(const FftWord<R>* table, int at) {
    const FftWord<R> word = table[at];
    return {word.re, word.im};
}

// exp(-2 pi i v / 16), 0 <= v < 8, where v is known to the compiler.
template <class R>
BK_DEVICE FftRoot<R> sixteenth(int v) {
    constexpr double kCosine[9] = {1, 0.92387953251128675613,  0.70710678118654752440,  0.38268343236508977173,
                                   0, -0.38268343236508977173, -0.70710678118654752440, -0.92387953251128675613,
                                   -1};
    return {static_cast<R>(kCosine[v]), static_cast<R>(kCosine[v < 4 ? 4 - v : v - 4])};
}

// --- the passes over a tile --------------------------------------------------------------------------------------------------

// Roots of every pass behind the first, in its order: of t = 1, 2 and 4 below the radix, m of each.
template <class R>
BK_DEVICE void power_tables(int log_n, FftWord<R>* table) {
    for (int log_m = 3; log_m < log_n; log_m += 3) {
        const int log_r = log_n - log_m < 3 ? log_n - log_m : 3, m = 1 << log_m;
        for (int i = static_cast<int>(threadIdx.x); i < m * log_r; i += static_cast<int>(blockDim.x)) {
            const FftRoot<R> root = unit_root<R>((i & (m - 1)) << (i >> log_m), m << log_r);
            table[i] = {root.c, root.s};
        }
        table += m * log_r;
    }
}
inline int64_t power_table_values(int log_n) {
    int64_t count = 0;
    for (int log_m = 3; log_m < log_n; log_m += 3) count += int64_t{std::min(3, log_n - log_m)} << log_m;
    return count;
}

template <class R>
BK_DEVICE void power_butterfly8(FftValue<R> (&a)[8], const FftWord<R>* table, int j, int m) {
    const FftRoot<R> w1 = power_root(table, j), w2 = power_root(table, m + j), w4 = power_root(table, 2 * m + j);
    const FftRoot<R> w3 = w1 * w2;
    a[1] = rotated(a[1], w1);
    a[2] = rotated(a[2], w2);
    a[3] = rotated(a[3], w3);
    a[4] = rotated(a[4], w4);
    a[5] = rotated(a[5], w1 * w4);
    a[6] = rotated(a[6], w2 * w4);
    a[7] = rotated(a[7], w3 * w4);
    Butterfly<8, R, R>::apply(a);
}

// The values q + v n / 8 of the transform, in the order of v, from those of the first pass. `last` are the lanes and values
// that the thread gets.
template <class R>
BK_DEVICE void power_transform(const PowerTile& of, const PowerLane& first, const PowerLane& last, FftValue<R> (&a)[8],
                               FftWord<R>* tile, const FftWord<R>* table) {
    const int pitch = of.pitch(), step = of.step(), jump = of.jump();
    Butterfly<8, R, R>::apply(a);
    __syncthreads();
    FftWord<R>* to = tile + first.lane * pitch + of.padded(8 * first.q);
#pragma unroll
    for (int t = 0; t < 8; ++t) to[t + (t >> of.skip)] = {a[t].re, a[t].im};
    int log_m = 3;
    for (; log_m + 3 < of.log_n; log_m += 3) {
        const PowerLane at = PowerLane::of(of, false);
        const int m = 1 << log_m, j = at.q & (m - 1);
        __syncthreads();
        const FftWord<R>* from = tile + at.lane * pitch + of.padded(at.q);
#pragma unroll
        for (int t = 0; t < 8; ++t) a[t] = from[t * jump];
        power_butterfly8(a, table, j, m);
        __syncthreads();
        to = tile + at.lane * pitch + of.padded((at.q - j) * 8 + j);
#pragma unroll
        for (int t = 0; t < 8; ++t) to[of.padded(t * m)] = {a[t].re, a[t].im};
        table += 3 * m;
    }
    __syncthreads();
    const FftWord<R>* from = tile + last.lane * pitch + of.padded(last.q);
#pragma unroll
    for (int t = 0; t < 8; ++t) a[t] = from[t * jump];
    const int m = 1 << log_m;
    if (of.log_n - log_m == 3) {
        power_butterfly8(a, table, last.q, m);
    } else if (of.log_n - log_m == 2) {
#pragma unroll
        for (int u = 0; u < 2; ++u) {
            const int j = last.q + u * step;
            const FftRoot<R> w1 = power_root(table, j), w2 = power_root(table, m + j);
            a[u + 2] = rotated(a[u + 2], w1);
            a[u + 4] = rotated(a[u + 4], w2);
            a[u + 6] = rotated(a[u + 6], w1 * w2);
            butterfly4(a[u], a[u + 2], a[u + 4], a[u + 6]);
        }
    } else {
#pragma unroll
        for (int u = 0; u < 4; ++u) {
            const FftValue<R> b = rotated(a[u + 4], power_root(table, last.q + u * step));
            a[u + 4] = a[u] - b;
            a[u] = a[u] + b;
        }
    }
}

// --- pairs of real numbers ---------------------------------------------------------------------------------------------------

// The root of value k of a half fiber, k = position + q + v n / 8 in values of the pass, without the factor of v.
template <class R>
BK_DEVICE FftRoot<R> pair_root(const PowerPass& of, const LaneOffset& at, const FftRoot<R>& root_of_q) {
    return at.position == 0 ? root_of_q : root_of_q * short_root<R>(at.position, 2 * of.pass.length);
}

// Pairs of the inverse's real numbers, times 2, from half a Hermitian fiber, of which imaginary parts at both ends are not
// read. A value's mirror image lies in the same lane, or in one of the same tile, which shares its cache lines.
template <class R>
BK_DEVICE void load_halves(const PowerPass& of, const LaneOffset& at, int q, const FftRoot<R>& root_of_q, const R* x,
                           FftValue<R> (&a)[8]) {
    const FftPass& pass = of.pass;
    const auto* from = reinterpret_cast<const FftWord<R>*>(x);
    const FftRoot<R> root = pair_root(of, at, root_of_q);
    const int step = of.step();
#pragma unroll
    for (int t = 0; t < 8; ++t) {
        const int64_t e = q + t * step, k = at.position + e * pass.position;
        FftValue<R> value = from[at.in + e * pass.in];
        FftValue<R> image = from[at.in + (pass.length - k - at.position) * of.half_in];
        if (k == 0) value.im = image.im = R(0);
        const FftRoot<R> w = root * sixteenth<R>(t);
        pack_pair(value, image, w.c, w.s);
        a[t] = value;
    }
}

// Values behind the middle, v >= 4, in shared memory; the image of value v < 4 is `result`[(7 - v) jump], in lane `partner`.
// Value 0 of a lane that starts with the fiber has no image.
template <class R>
BK_DEVICE FftWord<R>* exchange_upper(const PowerTile& of, const PowerLane& at, const FftValue<R> (&a)[8], FftWord<R>* tile,
                                     int partner, bool is_start = true) {
    const int pitch = of.pitch(), step = of.step(), jump = of.jump();
    FftWord<R>* own = tile + at.lane * pitch + of.padded(at.q);
    __syncthreads();
#pragma unroll
    for (int v = 4; v < 8; ++v) own[v * jump] = {a[v].re, a[v].im};
    __syncthreads();
    const int image_of_q = is_start ? step - at.q : step - 1 - at.q;  // n / 8 for q = 0: a slot of the next v
    return tile + partner * pitch + (image_of_q == step ? jump : of.padded(image_of_q));
}

// Value k of the transform of pairs, k = q + v step, and its image, to values k and N - k of the half fiber.
template <class R>
BK_DEVICE void split_pair(bool is_first, int v, const FftRoot<R>& root_of_q, const FftWord<R>* image_at, FftValue<R>& value,
                          FftValue<R>& image) {
    if (is_first) {  // it is its own image
        image = {value.re - value.im, R(0)};
        value = {value.re + value.im, R(0)};
        return;
    }
    image = *image_at;
    const FftRoot<R> w = root_of_q * sixteenth<R>(v);
    unpack_pair(value, image, w.c, w.s);
}

// Values k and N - k of a half fiber, from those of the transform of its pairs.
template <class R>
BK_DEVICE void store_halves(const PowerPass& of, const PowerLane& last, const LaneOffset& at, bool is_used,
                            const FftRoot<R>& root_of_q, FftValue<R> (&a)[8], FftWord<R>* tile, R* y) {
    const FftPass& pass = of.pass;
    const int q = last.q, step = of.step();
    const bool is_start = at.position == 0, is_middle = pass.mirrors && 2 * at.position == of.extent[0].divisor();
    const int partner = is_start || is_middle ? last.lane : last.lane ^ (1 << (of.log_lanes - 1));
    const FftWord<R>* images = exchange_upper(of, last, a, tile, partner, is_start);
    if (!is_used) return;
    const FftRoot<R> root = pair_root(of, at, root_of_q);
    const R scale = static_cast<R>(pass.scale);
    auto* to = reinterpret_cast<FftWord<R>*>(y);
#pragma unroll
    for (int v = 0; v < 4; ++v) {
        const int64_t e = q + v * step, k = at.position + e * pass.position;
        FftValue<R> value = a[v], image;
        split_pair(k == 0, v, root, images + (7 - v) * of.jump(), value, image);
        to[at.out + e * pass.out] = {value.re * scale, value.im * scale};
        to[at.out + (pass.length - k - at.position) * of.half_out] = {image.re * scale, image.im * scale};
    }
    if (is_start && q == 0) to[at.out + 4 * step * pass.out] = {a[4].re * scale, -a[4].im * scale};
}

// --- the kernel --------------------------------------------------------------------------------------------------------------

template <class R>
BK_DEVICE void load_power(const PowerPass& of, const LaneOffset& at, int q, const R* x, FftValue<R> (&a)[8]) {
    const FftPass& pass = of.pass;
    const auto* from = reinterpret_cast<const FftWord<R>*>(x);
    const int step = of.step();
    if (of.is_plain_in) {
        from += at.in + q * pass.in;
#pragma unroll
        for (int t = 0; t < 8; ++t) a[t] = from[t * step * pass.in];
    } else if (pass.packing == FftPacking::kUnpacks) {  // `present` counts real numbers
#pragma unroll
        for (int t = 0; t < 8; ++t) {
            const int64_t e = q + t * step, reals = pass.present - 2 * (at.position + e * pass.position);
            a[t] = {R(0), R(0)};
            if (reals > 1) a[t] = from[at.in + e * pass.in];
            if (reals == 1) a[t].re = x[2 * (at.in + e * pass.in)];
        }
        return;
    } else {
#pragma unroll
        for (int t = 0; t < 8; ++t) a[t] = take_value(pass, at, q + t * step, x);
        return;
    }
    if (!pass.in_swaps[0]) return;
#pragma unroll
    for (int t = 0; t < 8; ++t) a[t] = {a[t].im, a[t].re};
}

// The rotation behind a pass that is not a split fiber's last.
template <class R>
BK_DEVICE void rotate_power(const PowerPass& of, const LaneOffset& at, int q, FftValue<R> (&a)[8]) {
    const int64_t period = of.pass.period, advance = at.rest << (of.log_n - 3);
    const FftRoot<R> w0 = short_root<R>(q * at.rest, period), w1 = short_root<R>(advance, period);
    const FftRoot<R> w4 = w0 * short_root<R>(4 * advance, period), w2 = w1 * w1, w3 = w2 * w1;
    a[0] = rotated(a[0], w0);
    a[1] = rotated(a[1], w0 * w1);
    a[2] = rotated(a[2], w0 * w2);
    a[3] = rotated(a[3], w0 * w3);
    a[4] = rotated(a[4], w4);
    a[5] = rotated(a[5], w4 * w1);
    a[6] = rotated(a[6], w4 * w2);
    a[7] = rotated(a[7], w4 * w3);
}

template <class R>
BK_DEVICE void store_power(const PowerPass& of, const LaneOffset& at, int q, FftValue<R> (&a)[8], R* y) {
    const FftPass& pass = of.pass;
    const int step = of.step();
    if (!of.is_plain_out) {
#pragma unroll
        for (int v = 0; v < 8; ++v) store_value(pass, at, q + v * step, a[v], y);
        return;
    }
    const R scale = static_cast<R>(pass.scale);
    auto* to = reinterpret_cast<FftWord<R>*>(y) + at.out + q * pass.out;
#pragma unroll
    for (int v = 0; v < 8; ++v) {
        const FftValue<R> value{a[v].re * scale, a[v].im * scale};
        to[v * step * pass.out] = pass.out_swaps[0] ? FftWord<R>{value.im, value.re} : FftWord<R>{value.re, value.im};
    }
}

template <class R>
__global__ void __launch_bounds__(kPowerThreads<R>, 2) fft_power_kernel(PowerPass of, const R* x, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    auto* tile = reinterpret_cast<FftWord<R>*>(shared);
    auto* table = tile + (of.pitch() << of.log_lanes);
    power_tables<R>(of.log_n, table);
    const FftPass& pass = of.pass;
    const PowerLane first = PowerLane::of(of, of.reads_lanes), last = PowerLane::of(of, of.writes_lanes);
    const bool packs = pass.packing == FftPacking::kPacks, unpacks = pass.packing == FftPacking::kUnpacks && pass.period == 0;
    FftRoot<R> root_of_q{R(1), R(0)};
    if (packs || unpacks) root_of_q = unit_root<R>(packs ? first.q : last.q, int64_t{2} << of.log_n);
    for (uint32_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
        FftValue<R> a[8] = {};
        const uint32_t from = power_lane_number(of, t, first.lane), to = power_lane_number(of, t, last.lane);
        if (from < of.lanes) {
            const LaneOffset at = power_offset(of, from);
            if (packs) {
                load_halves(of, at, first.q, root_of_q, x, a);
                if (pass.in_swaps[0])
#pragma unroll
                    for (int e = 0; e < 8; ++e) a[e] = {a[e].im, a[e].re};
            } else {
                load_power(of, at, first.q, x, a);
            }
        }
        power_transform(of, first, last, a, tile, table);
        const LaneOffset at = power_offset(of, to);
        if (unpacks) {
            store_halves(of, last, at, to < of.lanes, root_of_q, a, tile, y);
        } else if (to < of.lanes) {
            if (pass.period != 0) rotate_power(of, at, last.q, a);
            store_power(of, at, last.q, a, y);
        }
    }
}

// --- the launch --------------------------------------------------------------------------------------------------------------

template <class R>
Grid PowerTile::grid(int threads_of_sm) const {
    const int threads = step() << log_lanes;
    const int64_t bytes = ((pitch() << log_lanes) + power_table_values(log_n)) * int64_t{sizeof(FftWord<R>)};
    const int64_t resident = threads_of_sm / std::max(threads, 128) * std::max<int64_t>(1, device_sms());
    return Grid{dim3(static_cast<unsigned>(std::min<int64_t>(tiles, resident))), dim3(static_cast<unsigned>(threads)), 1,
                static_cast<unsigned>(bytes)};
}

template <class R>
constexpr bool is_power_length(int64_t n) {
    return n >= 16 && n <= 8 * kPowerThreads<R> && (n & (n - 1)) == 0;
}

template <class R>
bool is_power_pass(const FftPass& pass, const void* x, const void* y) {
    const auto addresses = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
    return is_power_length<R>(pass.n) && 2 * pass.length <= kShortRoots && pass.period <= kShortRoots &&
           addresses % sizeof(FftWord<R>) == 0 && pass.lanes() <= INT32_MAX / 2;
}

template <class R>
Status fft_power_pass(const FftPass& pass, const void* x, void* y, const Launch& launch) {
    const auto distance = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    const bool reads_lanes = pass.axes > 0 && distance(pass.axis[0].in) < distance(pass.in);
    const bool writes_lanes = pass.axes > 0 && distance(pass.axis[0].out) < distance(pass.out);
    // Lanes that lie together want many in a tile; of contiguous values a smaller one lets more blocks share an SM.
    const bool is_strided = pass.mirrors || reads_lanes || writes_lanes;
    PowerPass of{};
    static_cast<PowerTile&>(of) = PowerTile::of(pass.n, pass.lanes(), 8 * (is_strided ? kPowerThreads<R> : kPowerRowThreads));
    of.reads_lanes = reads_lanes;
    of.writes_lanes = writes_lanes;
    of.pass = pass;
    of.set_extents();
    of.half_in = pass.mirrors ? pass.axis[0].in : pass.in;
    of.half_out = pass.mirrors ? pass.axis[0].out : pass.out;
    if (pass.mirrors) {
        while (pass.axis[0].extent >> of.log_lanes == 0) --of.log_lanes;
        of.fiber_tiles = FastDiv<uint32_t>(pass.axis[0].extent >> of.log_lanes);
        of.set_tiles();
    }
    of.is_plain_in = pass.in_form == FftForm::kComplex && pass.in_factor == FftFactor::kNone && !pass.in_swaps[1] &&
                     pass.present >= (pass.packing == FftPacking::kUnpacks ? 2 * pass.length : pass.padded);
    of.is_plain_out = pass.out_form == FftForm::kComplex && pass.out_factor == FftFactor::kNone && !pass.out_swaps[1];
    return launch_kernel(launch, of.grid<R>(), fft_power_kernel<R>, of, static_cast<const R*>(x), static_cast<R*>(y));
}

}  // namespace bk
