// SPDX-License-Identifier: Apache-2.0
// Cosine transforms of kind 2, and convolutions, of real rows in one pass on a GPU: they are transforms of pairs of real
// numbers (fft/power_pass.cuh) with their own first and last values.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "fft/core.h"
#include "fft/cosine_rows.h"
#include "fft/power_pass.cuh"

namespace bk {

// Blocks that an SM holds of kernels with so many registers.
template <class R>
constexpr int kRowBlocks = sizeof(R) == 4 ? 3 : 2;

// --- cosines -----------------------------------------------------------------------------------------------------------------

struct PowerCosine : PowerTile {
    FftCosineRows rows;
};

// exp(-2 pi i v / 64), 0 <= v <= 4, where v is known to the compiler.
template <class R>
BK_DEVICE FftRoot<R> sixty_fourth(int v) {
    constexpr double kCosine[5] = {1, 0.99518472667219688624, 0.98078528040323044913, 0.95694033573220886494,
                                   0.92387953251128675613};
    constexpr double kSine[5] = {0, 0.09801714032956060199, 0.19509032201612826785, 0.29028467725446236764,
                                 0.38268343236508977173};
    return {static_cast<R>(kCosine[v]), static_cast<R>(kSine[v])};
}

// Elements `at` and n - at of a row, of value X[at] of the real transform, where root is exp(-2 pi i at / 4 n).
template <class R>
BK_DEVICE void store_cosines(const FftCosineRows& of, int n, int at, const FftValue<R>& value, const FftRoot<R>& root, R* row) {
    const R scale = static_cast<R>(2 * of.scale), first = static_cast<R>(2 * of.scale * of.edge_out);
    row[of.is_sine ? n - 1 - at : at] = (value.re * root.c + value.im * root.s) * (at == 0 ? first : scale);
    if (at == 0 || 2 * at == n) return;
    row[of.is_sine ? at - 1 : n - at] = (value.re * root.s - value.im * root.c) * scale;
}

template <class R>
__global__ void __launch_bounds__(kPowerRowThreads, kRowBlocks<R>) fft_cosine_kernel(PowerCosine of, const R* x, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    auto* tile = reinterpret_cast<FftWord<R>*>(shared);
    auto* table = tile + (of.pitch() << of.log_lanes);
    power_tables<R>(of.log_n, table);
    const PowerLane at = PowerLane::of(of, false);
    const int half = 1 << of.log_n, n = 2 * half, step = of.step(), q = at.q;
    const R sign = of.rows.is_sine ? R(-1) : R(1);
    const FftRoot<R> pair_root = unit_root<R>(q, n), row_root = unit_root<R>(q, 4 * n);
    for (uint32_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
        const int64_t number = (int64_t{t} << of.log_lanes) + at.lane;
        const bool is_used = number < of.lanes;
        FftValue<R> a[8] = {};
        if (is_used) {  // elements of even positions, then those of odd ones from the end
            const R* row = x + number * n;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int low = 4 * (q + e * step), high = 2 * n - 1 - 4 * (q + (e + 4) * step);
                a[e] = {row[low], row[low + 2]};
                a[e + 4] = {sign * row[high], sign * row[high - 2]};
            }
        }
        power_transform(of, at, at, a, tile, table);
        const FftWord<R>* images = exchange_upper(of, at, a, tile, at.lane);
        if (!is_used) continue;
        R* row = y + number * n;
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const int k = q + v * step;
            FftValue<R> value = a[v], image;
            split_pair(k == 0, v, pair_root, images + (7 - v) * of.jump(), value, image);
            const FftRoot<R> root = row_root * sixty_fourth<R>(v);
            const R h = static_cast<R>(0.70710678118654752440);  // the image's angle is pi / 4 less this one
            store_cosines(of.rows, n, k, value, root, row);
            store_cosines(of.rows, n, half - k, image, FftRoot<R>{(root.c + root.s) * h, (root.c - root.s) * h}, row);
        }
        if (q == 0) store_cosines(of.rows, n, half / 2, {a[4].re, -a[4].im}, sixty_fourth<R>(4), row);
    }
}

template <class R>
bool fft_takes_cosine(const FftCosineRows& of) {
    return of.kind == 2 && of.n % 2 == 0 && is_power_length<R>(of.n / 2) && of.n / 2 <= 8 * kPowerRowThreads &&
           of.rows <= INT32_MAX / 2;
}

template <class R>
Status fft_cosine_pass(const FftCosineRows& of, const R* x, R* y, const Launch& launch) {
    PowerCosine pass{};
    static_cast<PowerTile&>(pass) = PowerTile::of(of.n / 2, of.rows, 8 * kPowerRowThreads);
    pass.rows = of;
    return launch_kernel(launch, pass.grid<R>(kRowBlocks<R> * kPowerRowThreads), fft_cosine_kernel<R>, pass, x, y);
}

// --- convolution -------------------------------------------------------------------------------------------------------------

struct PowerConvolution : PowerPass {
    FftSegments segments;
};

template <class R>
BK_DEVICE FftValue<R> product(const FftValue<R>& a, const FftValue<R>& b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// Transforms of pairs of real numbers become those of their convolution, times 2.
template <class R>
BK_DEVICE void multiply_pairs(const PowerTile& of, const PowerLane& at, bool is_used, const FftRoot<R>& root_of_q,
                              const FftWord<R>* spectrum, FftValue<R> (&a)[8], FftWord<R>* tile) {
    const int half = 1 << of.log_n, q = at.q, step = of.step(), jump = of.jump();
    FftWord<R>* own = tile + at.lane * of.pitch() + of.padded(q);
    FftWord<R>* images = exchange_upper(of, at, a, tile, at.lane);
    if (is_used) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const int k = q + v * step;
            const FftValue<R> by = spectrum[k], image_by = spectrum[half - k];
            const FftRoot<R> w = root_of_q * sixteenth<R>(v);
            if (k == 0) {
                const R sum = (a[0].re + a[0].im) * by.re, difference = (a[0].re - a[0].im) * image_by.re;
                a[0] = {sum + difference, sum - difference};
                continue;
            }
            FftValue<R> image = images[(7 - v) * jump];
            unpack_pair(a[v], image, w.c, w.s);
            a[v] = product(a[v], by);
            image = product(image, image_by);
            pack_pair(a[v], image, w.c, w.s);
            images[(7 - v) * jump] = {image.re, image.im};
        }
        if (q == 0) {  // the middle is its own image
            const FftValue<R> middle = product(FftValue<R>{a[4].re, -a[4].im}, FftValue<R>(spectrum[half / 2]));
            own[4 * jump] = {2 * middle.re, -2 * middle.im};
        }
    }
    __syncthreads();
#pragma unroll
    for (int v = 4; v < 8; ++v) a[v] = own[v * jump];
}

template <class R>
__global__ void __launch_bounds__(kPowerRowThreads, kRowBlocks<R>)
    fft_convolve_kernel(PowerConvolution of, const R* x, const R* spectra, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    auto* tile = reinterpret_cast<FftWord<R>*>(shared);
    auto* table = tile + (of.pitch() << of.log_lanes);
    power_tables<R>(of.log_n, table);
    const FftSegments& part = of.segments;
    const PowerLane own = PowerLane::of(of, false);
    const FftRoot<R> root_of_q = unit_root<R>(own.q, part.n);
    const int step = of.step();
    for (uint32_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
        const uint32_t number = power_lane_number(of, t, own.lane);
        const bool is_used = number < of.lanes;
        const LaneOffset at = power_offset(of, number);
        const int64_t before = at.rest * part.useful - (part.taps - 1);  // the result of element 0
        FftValue<R> a[8] = {};
        if (is_used) {
            const int64_t from = part.first + before;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const int64_t i = from + 2 * (own.q + e * step);
                if (i >= 0 && i < part.elements) a[e].re = x[at.in + i * of.pass.in];
                if (i + 1 >= 0 && i + 1 < part.elements) a[e].im = x[at.in + (i + 1) * of.pass.in];
            }
        }
        power_transform(of, own, own, a, tile, table);
        multiply_pairs(of, own, is_used, root_of_q, reinterpret_cast<const FftWord<R>*>(spectra) + at.position, a, tile);
#pragma unroll
        for (int e = 0; e < 8; ++e) a[e] = {a[e].im, a[e].re};
        power_transform(of, own, own, a, tile, table);
        if (!is_used) continue;
        const auto store = [&](int j, R value) {
            const int64_t result = before + j, whole = part.first + result;
            if (j < part.taps - 1 || result >= part.results) return;
            y[at.out + result * of.pass.out] = whole >= 0 && whole < part.last ? value : R(0);
        };
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            store(2 * (own.q + e * step), a[e].im);
            store(2 * (own.q + e * step) + 1, a[e].re);
        }
    }
}

template <class R>
Status fft_convolve_pass(const FftPass& lanes, const FftSegments& segments, const R* x, const R* spectra, R* y,
                         const Launch& launch) {
    PowerConvolution of{};
    static_cast<PowerTile&>(of) = PowerTile::of(segments.n / 2, lanes.lanes(), 8 * kPowerRowThreads);
    of.pass = lanes;
    of.set_extents();
    of.segments = segments;
    return launch_kernel(launch, of.grid<R>(kRowBlocks<R> * kPowerRowThreads), fft_convolve_kernel<R>, of, x, spectra, y);
}

}  // namespace bk
