// SPDX-License-Identifier: Apache-2.0
// Passes of a Fourier transform on a GPU: a block transforms some lanes in shared memory, in position, one radix after another.
// Values are loaded in reversed order of their digits. Roots of unity and digits are computed once a block, which then
// takes tile after tile. Powers of two have passes of their own (fft/power_pass.cuh).
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/core.h"
#include "fft/pass_values.cuh"
#include "fft/power_pass.cuh"
#include "fft/power_rows.cuh"
#include "fft/problem.h"
#include "fft/roots.h"

namespace bk {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxLanes = 64;

// Values of a tile for which a block has enough to do.
template <class R>
constexpr int kTileValues = sizeof(R) == 4 ? 4096 : 2048;

// A value's position in shared memory: strides of powers of two then map to different banks.
BK_HD int padded(int i) { return i + (i >> 4); }

struct TilePass {
    FftPass pass;
    int64_t lanes, tiles;  // in all
    int tile_lanes, radices;
    int8_t radix[kFftRadices];
    FastDiv<uint32_t> of_lane[kFftRadices];   // butterflies of a lane, by radix
    FastDiv<uint32_t> of_block[kFftRadices];  // butterflies of a block, m
    FastDiv<uint32_t> values;                 // of a lane
    bool reads_lanes, writes_lanes;           // lanes lie closer together than values
};

template <int r, class R>
BK_DEVICE void radix_pass(const TilePass& of, int p, int m, int used, int pitch, FftWord<R>* tile, const FftWord<R>* roots) {
    const int n = of.pass.n, butterflies = n / r, step = n / (m * r);
    for (int q = threadIdx.x; q < used * butterflies; q += kThreads) {
        const auto lane = of.of_lane[p](static_cast<uint32_t>(q));
        const auto block = of.of_block[p](lane.remainder);
        FftWord<R>* values = tile + static_cast<int>(lane.quotient) * pitch;
        const int j = static_cast<int>(block.remainder), base = static_cast<int>(block.quotient) * m * r + j;
        FftValue<R> a[r];
        a[0] = values[padded(base)];
#pragma unroll
        for (int t = 1; t < r; ++t) {
            a[t] = rotated<R>(values[padded(base + t * m)], power_root(roots, j * t * step));
        }
        Butterfly<r, R, R>::apply(a);
#pragma unroll
        for (int t = 0; t < r; ++t) values[padded(base + t * m)] = {a[t].re, a[t].im};
    }
}

template <class R>
__global__ void __launch_bounds__(kThreads) fft_tile_kernel(TilePass of, const R* x, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    __shared__ LaneOffset offsets[kMaxLanes];
    const FftPass& pass = of.pass;
    const int n = pass.n, pitch = padded(n - 1) + 1;
    auto* tile = reinterpret_cast<FftWord<R>*>(shared);
    auto* roots = tile + of.tile_lanes * pitch;
    auto* positions = reinterpret_cast<uint16_t*>(roots + n);
    for (int i = threadIdx.x; i < n; i += kThreads) {
        const FftRoot<R> root = unit_root<R>(i, n);
        roots[i] = {root.c, root.s};
        int rest = i, size = n, at = 0;
        for (int p = of.radices; p-- > 0;) {
            size /= of.radix[p];
            at += rest % of.radix[p] * size;
            rest /= of.radix[p];
        }
        positions[i] = static_cast<uint16_t>(of.radices == 0 ? i : at);
    }
    for (int64_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
        const int64_t first = t * of.tile_lanes;
        const int used = static_cast<int>(of.lanes - first < of.tile_lanes ? of.lanes - first : of.tile_lanes);
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < used) offsets[threadIdx.x] = lane_offset(pass, first + threadIdx.x);
        __syncthreads();
        for (int i = threadIdx.x; i < used * n; i += kThreads) {
            const auto along = of.values(static_cast<uint32_t>(i));
            const int lane = of.reads_lanes ? i % used : static_cast<int>(along.quotient);
            const int e = of.reads_lanes ? i / used : static_cast<int>(along.remainder);
            const FftValue<R> value = take_value(pass, offsets[lane], e, x);
            tile[lane * pitch + padded(positions[e])] = {value.re, value.im};
        }
        int m = 1;
        for (int p = 0; p < of.radices; m *= of.radix[p++]) {
            __syncthreads();
            switch (of.radix[p]) {
                case 2: radix_pass<2>(of, p, m, used, pitch, tile, roots); break;
                case 3: radix_pass<3>(of, p, m, used, pitch, tile, roots); break;
                case 4: radix_pass<4>(of, p, m, used, pitch, tile, roots); break;
                case 5: radix_pass<5>(of, p, m, used, pitch, tile, roots); break;
                case 7: radix_pass<7>(of, p, m, used, pitch, tile, roots); break;
                case 8: radix_pass<8>(of, p, m, used, pitch, tile, roots); break;
                case 11: radix_pass<11>(of, p, m, used, pitch, tile, roots); break;
                case 13: radix_pass<13>(of, p, m, used, pitch, tile, roots); break;
                default: break;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < used * n; i += kThreads) {
            const auto along = of.values(static_cast<uint32_t>(i));
            const int lane = of.writes_lanes ? i % used : static_cast<int>(along.quotient);
            const int k = of.writes_lanes ? i / used : static_cast<int>(along.remainder);
            FftValue<R> value = tile[lane * pitch + padded(k)];
            if (of.radices == 0) {  // a large prime factor: the definition
                value = {R(0), R(0)};
                for (int e = 0, angle = 0; e < n; ++e) {
                    value = value + rotated<R>(tile[lane * pitch + padded(e)], power_root(roots, angle));
                    angle = angle + k >= n ? angle + k - n : angle + k;
                }
            }
            if (pass.period != 0) {
                const FftRoot<R> root = unit_root<R>(k * offsets[lane].rest, pass.period);
                value = rotated(value, root.c, root.s);
            }
            store_value(pass, offsets[lane], k, value, y);
        }
    }
}

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
    TilePass of{};
    of.pass = pass;
    of.lanes = pass.lanes();
    const FftRadices radices = FftRadices::of(pass.n);
    of.radices = radices.count;
    int m = 1;
    for (int p = 0; p < radices.count; m *= radices.radix[p++]) {
        of.radix[p] = radices.radix[p];
        of.of_lane[p] = FastDiv<uint32_t>(pass.n / radices.radix[p]);
        of.of_block[p] = FastDiv<uint32_t>(m);
    }
    of.values = FastDiv<uint32_t>(pass.n);
    const auto distance = [](int64_t stride) { return stride < 0 ? -stride : stride; };
    const int64_t lane_in = pass.axes > 0 ? distance(pass.axis[0].in) : INT64_MAX;
    const int64_t lane_out = pass.axes > 0 ? distance(pass.axis[0].out) : INT64_MAX;
    of.reads_lanes = lane_in < distance(pass.in);
    of.writes_lanes = lane_out < distance(pass.out);
    of.tile_lanes = static_cast<int>(std::min<int64_t>({kMaxLanes, std::max<int64_t>(1, kTileValues<R> / pass.n), of.lanes}));
    const int64_t pitch = padded(pass.n - 1) + 1;
    const int64_t bytes = (of.tile_lanes * pitch + pass.n) * 2 * int64_t{sizeof(R)} + 2 * int64_t{pass.n};
    of.tiles = ceil_div<int64_t>(of.lanes, of.tile_lanes);
    const Grid grid{dim3(blocks_of(of.tiles, 8 * std::max<int64_t>(1, device_sms()))), dim3(kThreads), 1,
                    static_cast<unsigned>(bytes)};
    return launch_kernel(launch, grid, fft_tile_kernel<R>, of, static_cast<const R*>(x), static_cast<R*>(y));
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
