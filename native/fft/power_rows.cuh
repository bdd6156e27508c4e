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
            FftValue<R> value = a[v], image = a[v];
            if (k == 0) {
                value = {a[0].re + a[0].im, R(0)};
                image = {a[0].re - a[0].im, R(0)};
            } else {
                image = images[(7 - v) * of.jump()];
                const FftRoot<R> w = pair_root * sixteenth<R>(v);
                unpack_pair(value, image, w.c, w.s);
            }
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
    return of.kind == 2 && of.n % 2 == 0 && is_power_length<R>(of.n / 2) && of.n / 2 <= 8 * kPowerRowThreads && of.rows <= INT32_MAX / 2;
}

template <class R>
Status fft_cosine_pass(const FftCosineRows& of, const R* x, R* y, const Launch& launch) {
    PowerCosine pass{};
    static_cast<PowerTile&>(pass) = PowerTile::of(of.n / 2, of.rows, 8 * kPowerRowThreads);
    pass.rows = of;
    return launch_kernel(launch, pass.grid<R>(kRowBlocks<R> * kPowerRowThreads), fft_cosine_kernel<R>, pass, x, y);
}

}  // namespace bk
