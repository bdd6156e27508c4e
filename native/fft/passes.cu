// SPDX-License-Identifier: Apache-2.0
// Fourier transforms on a GPU: passes of powers of two (fft/power_pass.cuh) and of other lengths (fft/mixed/pass.cuh), and
// transforms that passes cannot do.
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/core.h"
#include "fft/mixed/pass.cuh"
#include "fft/pass_values.cuh"
#include "fft/power_pass.cuh"
#include "fft/power_rows.cuh"
#include "fft/problem.h"
#include "fft/roots.h"

namespace bk {
namespace {

constexpr int kThreads = 256;
// Values of the longest power of two that one pass transforms. Parts of a split fiber have at most a quarter.
template <class R>
constexpr int kTileValues = sizeof(R) == 4 ? 4096 : 2048;

template <class R>
__global__ void __launch_bounds__(kThreads) fft_direct_kernel(FftPass fiber, int64_t count, const R* x, R* y) {
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x; index < count; index += step) {
        const int64_t n = fiber.length, k = index % n;
        const LaneOffset at = lane_offset(fiber, index / n);
        FftValue<R> sum{R(0), R(0)};
        for (int64_t j = 0, angle = 0; j < n; ++j) {
            const FftRoot<R> root = unit_root<R>(angle, n);
            sum = sum + rotated(take_value(fiber, at, j, x), root.c, root.s);
            angle = angle + k >= n ? angle + k - n : angle + k;
        }
        store_value(fiber, at, k, sum, y);
    }
}

template <class R>
__global__ void __launch_bounds__(kThreads)
    fft_unscramble_kernel(FftPass fiber, FftParts parts, int64_t count, FftValue<R>* y) {
    // The position in the order of the parts of the value that belongs to `position`.
    const auto source = [&parts](int64_t position, int64_t length) {
        int64_t at = 0;
        for (int p = 0; p < parts.count; ++p) {
            length /= parts.n[p];
            at += position % parts.n[p] * length;
            position /= parts.n[p];
        }
        return at;
    };
    const int64_t step = int64_t{gridDim.x} * kThreads;
    for (int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x; index < count; index += step) {
        const int64_t n = fiber.length, start = index % n;
        int64_t position = source(start, n);
        if (position == start) continue;
        while (position > start) position = source(position, n);
        if (position != start) continue;  // the least position of a cycle moves it
        FftValue<R>* row = y + lane_offset(fiber, index / n).out;
        const FftValue<R> first = row[start * fiber.out];
        for (int64_t from = source(start, n); from != start; position = from, from = source(from, n))
            row[position * fiber.out] = row[from * fiber.out];
        row[position * fiber.out] = first;
    }
}

unsigned blocks_of(int64_t count, int64_t most) { return static_cast<unsigned>(std::min(count, most)); }

}  // namespace

template <class R>
int64_t fft_most_values() {
    return kTileValues<R>;
}
template <class R>
bool fft_takes_fiber(int64_t n, bool packs) {
    const bool is_power = n >= 16 && (n & (n - 1)) == 0;
    return is_power ? n <= kTileValues<R> : is_mixed_length<R>(n, packs);
}
template <class R>
int64_t fft_most_tile_values() {
    return kTileValues<R>;
}
template <class R>
int64_t fft_tile_bytes(int64_t, int64_t) {
    return 0;
}

template <class R>
Status fft_pass(const FftPass& pass, const void* x, void* y, void*, const Launch& launch) {
    if (is_power_pass<R>(pass, x, y)) return fft_power_pass<R>(pass, x, y, launch);
    return fft_mixed_pass<R>(pass, x, y, launch);
}

template <class R>
Status fft_direct(const FftPass& fiber, const void* x, void* y, const Launch& launch) {
    const int64_t count = fiber.lanes() * fiber.length;
    const Grid grid{dim3(blocks_of(ceil_div<int64_t>(count, kThreads), kMaxGridX)), dim3(kThreads)};
    return launch_kernel(launch, grid, fft_direct_kernel<R>, fiber, count, static_cast<const R*>(x), static_cast<R*>(y));
}

template <class R>
Status fft_unscramble(const FftPass& fiber, const FftParts& parts, void* y, const Launch& launch) {
    const int64_t count = fiber.lanes() * fiber.length;
    const Grid grid{dim3(blocks_of(ceil_div<int64_t>(count, kThreads), kMaxGridX)), dim3(kThreads)};
    return launch_kernel(launch, grid, fft_unscramble_kernel<R>, fiber, parts, count, static_cast<FftValue<R>*>(y));
}

template int64_t fft_most_values<float>();
template int64_t fft_most_values<double>();
template bool fft_takes_fiber<float>(int64_t, bool);
template bool fft_takes_fiber<double>(int64_t, bool);
template int64_t fft_most_tile_values<float>();
template int64_t fft_most_tile_values<double>();
template int64_t fft_tile_bytes<float>(int64_t, int64_t);
template int64_t fft_tile_bytes<double>(int64_t, int64_t);
template Status fft_pass<float>(const FftPass&, const void*, void*, void*, const Launch&);
template Status fft_pass<double>(const FftPass&, const void*, void*, void*, const Launch&);
template Status fft_direct<float>(const FftPass&, const void*, void*, const Launch&);
template Status fft_direct<double>(const FftPass&, const void*, void*, const Launch&);
template Status fft_unscramble<float>(const FftPass&, const FftParts&, void*, const Launch&);
template Status fft_unscramble<double>(const FftPass&, const FftParts&, void*, const Launch&);

template bool fft_takes_cosine<float>(const FftCosineRows&);
template bool fft_takes_cosine<double>(const FftCosineRows&);
template Status fft_cosine_pass<float>(const FftCosineRows&, const float*, float*, const Launch&);
template Status fft_cosine_pass<double>(const FftCosineRows&, const double*, double*, const Launch&);
template Status fft_convolve_pass<float>(const FftPass&, const FftSegments&, const float*, const float*, float*, const Launch&);
template Status fft_convolve_pass<double>(const FftPass&, const FftSegments&, const double*, const double*, double*,
                                          const Launch&);

}  // namespace bk
