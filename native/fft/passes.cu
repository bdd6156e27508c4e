// SPDX-License-Identifier: Apache-2.0
// Passes of a Fourier transform on a GPU: a block transforms some lanes in shared memory, in position, one radix after another.
// Values are loaded in reversed order of their digits. Roots of unity and digits are computed once a block, which then
// takes tile after tile.
#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/math/fastdiv.h"
#include "fft/butterflies.h"
#include "fft/core.h"
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

struct LaneOffset {
    int64_t in, out, position, rest;
};

BK_DEVICE LaneOffset lane_offset(const FftPass& pass, int64_t index) {
    LaneOffset at{0, 0, 0, 0};
    for (int a = 0; a < pass.axes; ++a) {
        const FftAxis& axis = pass.axis[a];
        const int64_t along = index % axis.extent;
        index /= axis.extent;
        at.in += along * axis.in;
        at.out += along * axis.out;
        at.position += along * axis.position;
        at.rest += along * axis.rest;
    }
    return at;
}

template <class R>
BK_DEVICE FftValue<R> load_value(const FftPass& pass, const LaneOffset& at, int64_t e, const R* x) {
    const int64_t position = at.position + e * pass.position;
    if (pass.in_form != FftForm::kHermitian) {
        if (position >= pass.present) return {R(0), R(0)};
        if (pass.in_form == FftForm::kReal) return {x[at.in + e * pass.in], R(0)};
        return reinterpret_cast<const FftValue<R>*>(x)[at.in + e * pass.in];
    }
    const bool is_upper = 2 * position > pass.length;
    const int64_t stored = is_upper ? pass.length - position : position;
    if (stored >= pass.present) return {R(0), R(0)};
    FftValue<R> value = reinterpret_cast<const FftValue<R>*>(x)[at.in + stored * pass.in];
    if (stored == 0 || 2 * stored == pass.length) return {value.re, R(0)};
    const R interior = static_cast<R>(pass.interior);
    return {value.re * interior, (is_upper ? -value.im : value.im) * interior};
}

template <class R>
BK_DEVICE FftValue<R> times_factor(const FftPass& pass, FftFactor factor, int64_t position, const FftValue<R>& value) {
    const auto* spectrum = static_cast<const FftValue<R>*>(pass.spectrum);
    const FftValue<R> by = factor == FftFactor::kSpectrum ? spectrum[position] : chirp<R>(factor, position, pass);
    return {value.re * by.re - value.im * by.im, value.re * by.im + value.im * by.re};
}

// A value of the tile: from memory, with its factor.
template <class R>
BK_DEVICE FftValue<R> take_value(const FftPass& pass, const LaneOffset& at, int64_t e, const R* x) {
    const int64_t position = at.position + e * pass.position;
    FftValue<R> value{R(1), R(0)};
    if (pass.in_factor == FftFactor::kChirp && position >= pass.length) return {R(0), R(0)};
    if (pass.in_factor != FftFactor::kFilter) value = load_value(pass, at, e, x);
    if (pass.in_swaps[0]) value = {value.im, value.re};
    if (pass.in_factor != FftFactor::kNone) value = times_factor(pass, pass.in_factor, position, value);
    return pass.in_swaps[1] ? FftValue<R>{value.im, value.re} : value;
}

template <class R>
BK_DEVICE void store_value(const FftPass& pass, const LaneOffset& at, int64_t k, FftValue<R> value, R* y) {
    const R scale = static_cast<R>(pass.scale);
    const int64_t position = at.position + k * pass.position;
    if (pass.out_factor == FftFactor::kChirp && position >= pass.length) return;
    if (pass.out_swaps[0]) value = {value.im, value.re};
    if (pass.out_factor != FftFactor::kNone) value = times_factor(pass, pass.out_factor, position, value);
    if (pass.out_swaps[1]) value = {value.im, value.re};
    value = {value.re * scale, value.im * scale};
    if (pass.out_form == FftForm::kReal) {
        y[at.out + k * pass.out] = value.re;
    } else if (pass.out_form == FftForm::kComplex) {
        reinterpret_cast<FftValue<R>*>(y)[at.out + k * pass.out] = value;
    } else {
        if (2 * position > pass.length) return;
        const R interior = position == 0 || 2 * position == pass.length ? R(1) : static_cast<R>(pass.interior);
        reinterpret_cast<FftValue<R>*>(y)[at.out + position * pass.out] = {value.re * interior, value.im * interior};
    }
}

// A value of a cosine transform's tile, and a result of it; twists[k] = exp(-2 pi i k / 4 n).

BK_DEVICE int shuffled(int n, int j, bool* is_upper) {
    *is_upper = j >= (n + 1) / 2;
    return *is_upper ? 2 * (n - 1 - j) + 1 : 2 * j;
}

template <class R>
BK_DEVICE FftValue<R> take_cosine(const FftPass& pass, const LaneOffset& at, int e, const R* x, const FftRoot<R>* twists) {
    const int n = pass.n;
    const R* const row = x + at.in;
    if (pass.cosine.kind == 2) {
        bool is_upper;
        const R value = row[shuffled(n, e, &is_upper) * pass.in];
        return {pass.cosine.is_sine && is_upper ? -value : value, R(0)};
    }
    const int k = 2 * e > n ? n - e : e;  // of the Hermitian fiber
    const auto element = [&](int i) { return row[(pass.cosine.is_sine ? n - 1 - i : i) * pass.in]; };
    const FftRoot<R> root = twists[k];
    if (k == 0) return {R(0), element(0) * static_cast<R>(pass.cosine.edge)};  // parts are exchanged: the inverse
    const R a = element(k), b = element(n - k), im = 2 * k == n ? R(0) : a * root.s - b * root.c;
    return {2 * e > n ? -im : im, a * root.c + b * root.s};
}

template <class R>
BK_DEVICE void store_cosine(const FftPass& pass, const LaneOffset& at, int k, const FftValue<R>& value, R* y,
                            const FftRoot<R>* twists) {
    const int n = pass.n;
    const R scale = static_cast<R>(pass.scale);
    R* const row = y + at.out;
    if (pass.cosine.kind == 2) {
        const FftRoot<R> root = twists[k];
        const R sum = value.re * root.c + value.im * root.s;
        row[(pass.cosine.is_sine ? n - 1 - k : k) * pass.out] =
            R(2) * sum * (k == 0 ? static_cast<R>(pass.scale * pass.cosine.edge) : scale);
    } else {
        bool is_upper;
        const int to = shuffled(n, k, &is_upper);
        row[to * pass.out] = value.im * (pass.cosine.is_sine && is_upper ? -scale : scale);
    }
}

template <int r, class R>
BK_DEVICE void radix_pass(const TilePass& of, int p, int m, int used, int pitch, FftValue<R>* tile, const FftRoot<R>* roots) {
    const int n = of.pass.n, butterflies = n / r, step = n / (m * r);
    for (int q = threadIdx.x; q < used * butterflies; q += kThreads) {
        const auto lane = of.of_lane[p](static_cast<uint32_t>(q));
        const auto block = of.of_block[p](lane.remainder);
        FftValue<R>* values = tile + static_cast<int>(lane.quotient) * pitch;
        const int j = static_cast<int>(block.remainder), base = static_cast<int>(block.quotient) * m * r + j;
        FftValue<R> a[r];
        a[0] = values[padded(base)];
#pragma unroll
        for (int t = 1; t < r; ++t) {
            const FftRoot<R> root = roots[j * t * step];
            a[t] = rotated(values[padded(base + t * m)], root.c, root.s);
        }
        Butterfly<r, R, R>::apply(a);
#pragma unroll
        for (int t = 0; t < r; ++t) values[padded(base + t * m)] = a[t];
    }
}

// Roots of unity, and the positions of values in reversed order of their digits.
template <class R>
BK_DEVICE void fill_tables(const TilePass& of, FftRoot<R>* roots, uint16_t* positions) {
    const int n = of.pass.n;
    for (int i = threadIdx.x; i < n; i += kThreads) {
        roots[i] = unit_root<R>(i, n);
        int rest = i, size = n, at = 0;
        for (int p = of.radices; p-- > 0;) {
            size /= of.radix[p];
            at += rest % of.radix[p] * size;
            rest /= of.radix[p];
        }
        positions[i] = static_cast<uint16_t>(of.radices == 0 ? i : at);
    }
}

// Transforms `used` lanes of a tile, whose values lie at those positions.
template <class R>
BK_DEVICE void transform_tile(const TilePass& of, int used, int pitch, FftValue<R>* tile, const FftRoot<R>* roots) {
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
}

template <class R>
__global__ void __launch_bounds__(kThreads, sizeof(R) == 4 ? 4 : 2) fft_tile_kernel(TilePass of, const R* x, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    __shared__ LaneOffset offsets[kMaxLanes];
    const FftPass& pass = of.pass;
    const int n = pass.n, pitch = padded(n - 1) + 1;
    auto* tile = reinterpret_cast<FftValue<R>*>(shared);
    auto* roots = reinterpret_cast<FftRoot<R>*>(tile + of.tile_lanes * pitch);
    auto* twists = roots + n;
    auto* positions = reinterpret_cast<uint16_t*>(twists + (pass.cosine.kind == 0 ? 0 : n));
    fill_tables(of, roots, positions);
    for (int i = threadIdx.x; pass.cosine.kind != 0 && i < n; i += kThreads) twists[i] = unit_root<R>(i, 4 * int64_t{n});
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
            tile[lane * pitch + padded(positions[e])] =
                pass.cosine.kind == 0 ? take_value(pass, offsets[lane], e, x) : take_cosine(pass, offsets[lane], e, x, twists);
        }
        transform_tile(of, used, pitch, tile, roots);
        __syncthreads();
        for (int i = threadIdx.x; i < used * n; i += kThreads) {
            const auto along = of.values(static_cast<uint32_t>(i));
            const int lane = of.writes_lanes ? i % used : static_cast<int>(along.quotient);
            const int k = of.writes_lanes ? i / used : static_cast<int>(along.remainder);
            FftValue<R> value = tile[lane * pitch + padded(k)];
            if (of.radices == 0) {  // a large prime factor: the definition
                value = {R(0), R(0)};
                for (int e = 0, angle = 0; e < n; ++e) {
                    value = value + rotated(tile[lane * pitch + padded(e)], roots[angle].c, roots[angle].s);
                    angle = angle + k >= n ? angle + k - n : angle + k;
                }
            }
            if (pass.period != 0) {
                const FftRoot<R> root = unit_root<R>(k * offsets[lane].rest, pass.period);
                value = rotated(value, root.c, root.s);
            }
            if (pass.cosine.kind == 0)
                store_value(pass, offsets[lane], k, value, y);
            else
                store_cosine(pass, offsets[lane], k, value, y, twists);
        }
    }
}

// Overlap-save: a lane is a pair of adjacent chunks of a fiber, one in the real and one in the imaginary parts.
struct ChunkPass {
    TilePass of;
    FftChunks chunks;
};

template <class R>
__global__ void __launch_bounds__(kThreads, sizeof(R) == 4 ? 3 : 2)
    fft_convolve_kernel(ChunkPass pairs, const R* x, const FftValue<R>* spectra, R* y) {
    BK_LAUNCH_SHARED(uint4, shared);
    __shared__ LaneOffset offsets[kMaxLanes];
    const TilePass& of = pairs.of;
    const FftChunks& chunks = pairs.chunks;
    const int n = of.pass.n, pitch = padded(n - 1) + 1, before = static_cast<int>(chunks.taps) - 1;
    auto* tile = reinterpret_cast<FftValue<R>*>(shared);
    auto* roots = reinterpret_cast<FftRoot<R>*>(tile + of.tile_lanes * pitch);
    auto* positions = reinterpret_cast<uint16_t*>(roots + n);
    fill_tables(of, roots, positions);
    const auto split = [&](int i, bool by_lanes, int used, int* lane) {
        const auto along = of.values(static_cast<uint32_t>(i));
        *lane = by_lanes ? i % used : static_cast<int>(along.quotient);
        return by_lanes ? i / used : static_cast<int>(along.remainder);
    };
    for (int64_t t = blockIdx.x; t < of.tiles; t += gridDim.x) {
        const int64_t first = t * of.tile_lanes;
        const int used = static_cast<int>(of.lanes - first < of.tile_lanes ? of.lanes - first : of.tile_lanes);
        __syncthreads();
        if (static_cast<int>(threadIdx.x) < used) offsets[threadIdx.x] = lane_offset(of.pass, first + threadIdx.x);
        __syncthreads();
        for (int i = threadIdx.x; i < used * n; i += kThreads) {
            int lane;
            const int e = split(i, of.reads_lanes, used, &lane);
            const int64_t even = chunks.start - before + e + 2 * offsets[lane].rest * chunks.valid, odd = even + chunks.valid;
            const R* const row = x + offsets[lane].in;
            const R re = even >= 0 && even < chunks.inputs ? row[even * of.pass.in] : R(0);
            const R im = odd >= 0 && odd < chunks.inputs ? row[odd * of.pass.in] : R(0);
            tile[lane * pitch + padded(positions[e])] = {re, im};
        }
        transform_tile(of, used, pitch, tile, roots);
        __syncthreads();
        // The inverse is a transform of exchanged parts. Products wait in registers while their positions are read.
        constexpr int kEach = kTileValues<R> / kThreads;
        FftValue<R> products[kEach];
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
            const int i = static_cast<int>(threadIdx.x) + k * kThreads;
            if (i >= used * n) break;
            int lane;
            const int e = split(i, false, used, &lane);
            const FftValue<R> value = tile[lane * pitch + padded(e)], by = spectra[offsets[lane].position + e];
            products[k] = {value.re * by.im + value.im * by.re, value.re * by.re - value.im * by.im};
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
            const int i = static_cast<int>(threadIdx.x) + k * kThreads;
            if (i >= used * n) break;
            int lane;
            const int e = split(i, false, used, &lane);
            tile[lane * pitch + padded(positions[e])] = products[k];
        }
        transform_tile(of, used, pitch, tile, roots);
        __syncthreads();
        for (int i = threadIdx.x; i < used * n; i += kThreads) {
            int lane;
            const int e = split(i, of.writes_lanes, used, &lane);
            if (e < before) continue;
            const FftValue<R> value = tile[lane * pitch + padded(e)];
            R* const row = y + offsets[lane].out;
            int64_t k = e - before + 2 * offsets[lane].rest * chunks.valid;
            for (const R each : {value.im, value.re}) {
                const int64_t at = k + chunks.start;  // of the full convolution
                const bool is_inside = at >= 0 && at < chunks.inputs + before;
                if (k < chunks.outputs) row[k * of.pass.out] = is_inside ? each : R(0);
                k += chunks.valid;
            }
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

// The tiles of a pass, and the grid of a kernel over them.
template <class R>
TilePass tile_pass(const FftPass& pass, Grid* grid) {
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
    const int64_t tables = pass.cosine.kind == 0 ? 1 : 2;
    const int64_t bytes = (of.tile_lanes * pitch + tables * pass.n) * 2 * int64_t{sizeof(R)} + 2 * int64_t{pass.n};
    of.tiles = ceil_div<int64_t>(of.lanes, of.tile_lanes);
    *grid = Grid{dim3(blocks_of(of.tiles, 8 * std::max<int64_t>(1, device_sms()))), dim3(kThreads), 1,
                 static_cast<unsigned>(bytes)};
    return of;
}

template <class R>
Status fft_pass(const FftPass& pass, const void* x, void* y, void*, const Launch& launch) {
    Grid grid;
    const TilePass of = tile_pass<R>(pass, &grid);
    return launch_kernel(launch, grid, fft_tile_kernel<R>, of, static_cast<const R*>(x), static_cast<R*>(y));
}

template <class R>
Status fft_convolve_chunks(const FftPass& pass, const FftChunks& chunks, const R* x, const R* spectra, R* y,
                           const Launch& launch) {
    Grid grid;
    const ChunkPass pairs{tile_pass<R>(pass, &grid), chunks};
    return launch_kernel(launch, grid, fft_convolve_kernel<R>, pairs, x, reinterpret_cast<const FftValue<R>*>(spectra), y);
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
template Status fft_convolve_chunks<float>(const FftPass&, const FftChunks&, const float*, const float*, float*, const Launch&);
template Status fft_convolve_chunks<double>(const FftPass&, const FftChunks&, const double*, const double*, double*,
                                            const Launch&);
template Status fft_direct<float>(const FftPass&, const void*, void*, const Launch&);
template Status fft_direct<double>(const FftPass&, const void*, void*, const Launch&);
template Status fft_unscramble<float>(const FftPass&, const FftParts&, void*, const Launch&);
template Status fft_unscramble<double>(const FftPass&, const FftParts&, void*, const Launch&);

}  // namespace bk
