// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution and its gradient of data: a thread sums kResults results along one axis, for 16 bytes of
// adjacent channels, or for one channel where pixels are adjacent.
//
// Inputs slide through registers: where results are as far apart as taps, a tap needs one new input for all results, and those
// of kResults taps are loaded at once. Weights of the block's channels are staged in shared memory, in the compute type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/tap_sums.h"
#include "core/math/fastdiv.h"
#include "core/math/math.h"
#include "core/types/vec.h"
#include "gemm/tiled/matmul_mma.cuh"

namespace bk {

constexpr int kDepthwiseThreads = 128, kDepthwiseVectors = 8;  // channel vectors of a block, at most, if channels are adjacent
constexpr int64_t kDepthwiseStaged = 32 << 10;                 // bytes of staged weights
constexpr int64_t kMostDepthwisePhases = 16;                   // launches of a gradient of data

constexpr int64_t kFewDepthwiseTaps = 3;  // along results of a thread: more threads hide more latency

// Blocks on an SM, by registers.
template <int kLanes, int kResults>
constexpr int kDepthwiseBlocks = kLanes == 1 || kResults == 2 ? 5
                                 : kLanes < 8                 ? 4
                                                              : 3;

// result[n, r, q] = sum over m and t of weight[r * inputs + m, t] * source[n, r / outputs * inputs + m, q, t]: one of inputs
// and outputs, the channel multiplier, is 1. `along` is the axis of a thread's results, `outer` are the others.
template <class T>
struct DepthwiseSums {
    const T *source, *weight;
    Epilogue<T> e;  // d[channel, offset]; the bias is that of rows
    TapAxis along, outer[2];
    FastDiv<uint32_t> last, middle;  // slots along the last axis, and the one before
    FastDiv<uint32_t> by_chunks, by_tiles, by_all_taps, by_taps, by_taps_v;
    int64_t batch, channels, inputs, outputs, source_n, source_c, result_n, result_c, weight_row;
    int64_t slots, tiles, chunks;  // threads' results of an image; blocks of it; blocks of channels
    int vectors_log, block_slots;  // of a block
    bool by_channels;              // adjacent threads have adjacent channels
    bool along_last;               // or the axis before
    bool slides, stores_vectors;
};

template <class T, int kLanes, int kResults>
__global__ void __launch_bounds__(kDepthwiseThreads, kLanes* kResults > 16 ? 3 : 5)
    depthwise_kernel(const __grid_constant__ DepthwiseSums<T> p) {
    using C = compute_t<T>;
    BK_LAUNCH_SHARED(double, words);
    C* const staged = reinterpret_cast<C*>(words);
    const int thread = static_cast<int>(threadIdx.x);
    const int vectors = 1 << p.vectors_log;
    const int vector = p.by_channels ? thread & (vectors - 1) : thread / p.block_slots;
    const int own_slot = p.by_channels ? thread >> p.vectors_log : thread % p.block_slots;
    const DivMod<uint32_t> inner = p.by_channels ? p.by_chunks(blockIdx.x) : p.by_tiles(blockIdx.x),
                           outer = p.by_channels ? p.by_tiles(inner.quotient) : p.by_chunks(inner.quotient);
    const int64_t chunk = p.by_channels ? inner.remainder : outer.remainder,
                  tile = p.by_channels ? outer.remainder : inner.remainder;
    const int64_t n = outer.quotient, first_channel = chunk * vectors * kLanes, channel = first_channel + vector * kLanes;
    const int taps_u = static_cast<int>(p.outer[0].taps), taps_v = static_cast<int>(p.outer[1].taps),
              taps = static_cast<int>(p.along.taps), all_taps = taps_u * taps_v * taps, inputs = static_cast<int>(p.inputs);

    // Weights as [input, tap, segment, vector, lane of the segment]: adjacent threads read adjacent segments, of 16 bytes.
    constexpr int kSegment = kLanes < kVectorLanes<C> ? kLanes : kVectorLanes<C>;
    const int staged_channels = vectors * kLanes;
    for (int index = thread; index < inputs * all_taps * staged_channels; index += kDepthwiseThreads) {
        const DivMod<uint32_t> split = p.by_all_taps(static_cast<uint32_t>(index)), of_v = p.by_taps(split.remainder),
                               of_u = p.by_taps_v(of_v.quotient);
        const int tap = static_cast<int>(split.remainder), own = static_cast<int>(split.quotient) & (staged_channels - 1),
                  m = static_cast<int>(split.quotient) / staged_channels, lane = own % kLanes;
        const int64_t offset = of_v.remainder * p.along.weight_stride + of_u.remainder * p.outer[1].weight_stride +
                               of_u.quotient * p.outer[0].weight_stride;
        const int64_t of = first_channel + own;
        staged[(m * all_taps + tap) * staged_channels + (lane / kSegment * vectors + own / kLanes) * kSegment +
               lane % kSegment] =
            of < p.channels ? static_cast<C>(widen(p.weight[(of * inputs + m) * p.weight_row + offset])) : C(0);
    }
    __syncthreads();
    const int64_t slot = tile * p.block_slots + own_slot;
    if (vector >= vectors || slot >= p.slots || channel >= p.channels) return;

    const DivMod<uint32_t> last = p.last(static_cast<uint32_t>(slot)), middle = p.middle(last.quotient);
    const int64_t q_u = middle.quotient, q_along = int64_t{p.along_last ? last.remainder : middle.remainder} * kResults,
                  q_v = p.along_last ? middle.remainder : last.remainder;
    const int at = static_cast<int>(p.along.first + q_along * p.along.step), extent = static_cast<int>(p.along.extent),
              step = static_cast<int>(p.along.step), tap_step = static_cast<int>(p.along.tap_step);

    C sums[kResults][kLanes] = {};
    const int64_t source_channel = (p.outputs == 1 ? channel : channel / p.outputs) * inputs;
    for (int m = 0; m < inputs; ++m)
        for (int u = 0; u < taps_u; ++u) {
            const int64_t at_u = p.outer[0].first + q_u * p.outer[0].step + u * p.outer[0].tap_step;
            if (at_u < 0 || at_u >= p.outer[0].extent) continue;
            for (int v = 0; v < taps_v; ++v) {
                const int64_t at_v = p.outer[1].first + q_v * p.outer[1].step + v * p.outer[1].tap_step;
                if (at_v < 0 || at_v >= p.outer[1].extent) continue;
                const T* const row = p.source + n * p.source_n + (source_channel + m) * p.source_c +
                                     at_u * p.outer[0].source_stride + at_v * p.outer[1].source_stride;
                const C* const weights = staged + ((m * taps_u + u) * taps_v + v) * taps * staged_channels + vector * kSegment;
                C inside[kResults][kLanes];
                const auto read = [&](int coordinate) {
                    return load_if<kLanes>(static_cast<unsigned>(coordinate) < static_cast<unsigned>(extent),
                                           row + coordinate * p.along.source_stride);
                };
                const auto put_inside = [&](int slot_of, const Vec<T, kLanes>& elements) {
#pragma unroll
                    for (int lane = 0; lane < kLanes; ++lane)
                        inside[slot_of][lane] = static_cast<C>(widen_lane(elements, lane));
                };
                // Elements of the last result's next kResults taps, if results slide.
                Vec<T, kLanes> ahead[kResults];
                const auto read_ahead = [&](int first) {
#pragma unroll
                    for (int i = 0; i < kResults; ++i)
                        if (first + i < taps) ahead[i] = read(at + (first + i) * tap_step + (kResults - 1) * step);
                };
                if (p.slides) {
                    Vec<T, kLanes> before[kResults - 1];
#pragma unroll
                    for (int r = 0; r < kResults - 1; ++r) before[r] = read(at + r * step);
                    read_ahead(0);
#pragma unroll
                    for (int r = 0; r < kResults - 1; ++r) put_inside(r, before[r]);
                }
                for (int first = 0; first < taps; first += kResults) {
                    if (p.slides && first > 0) read_ahead(first);
#pragma unroll
                    for (int i = 0; i < kResults; ++i) {
                        const int tap = first + i;
                        if (tap >= taps) break;
                        if (p.slides) {
                            put_inside((i + kResults - 1) % kResults, ahead[i]);
                        } else {
#pragma unroll
                            for (int r = 0; r < kResults; ++r)
                                put_inside((i + r) % kResults, read(at + tap * tap_step + r * step));
                        }
                        C weight[kLanes];
#pragma unroll
                        for (int segment = 0; segment < kLanes / kSegment; ++segment) {
                            const auto some = load<kSegment>(weights + tap * staged_channels + segment * vectors * kSegment);
#pragma unroll
                            for (int lane = 0; lane < kSegment; ++lane) weight[segment * kSegment + lane] = some.lane[lane];
                        }
#pragma unroll
                        for (int r = 0; r < kResults; ++r)
#pragma unroll
                            for (int lane = 0; lane < kLanes; ++lane)
                                sums[r][lane] = math::fma(inside[(i + r) % kResults][lane], weight[lane], sums[r][lane]);
                    }
                }
            }
        }

    // One copy of the epilogue: each pass selects its registers.
    const int64_t offset = n * p.result_n + q_u * p.outer[0].result_stride + q_v * p.outer[1].result_stride;
    const int64_t left = p.along.positions - q_along;
    const int results = left < kResults ? static_cast<int>(left) : kResults;
    if constexpr (kLanes > 1) {
        if (p.stores_vectors) {  // alpha, bias and activation
#pragma unroll 1
            for (int pass = 0; pass < results; ++pass) {
                C z[kLanes / 2][2];
#pragma unroll
                for (int r = 0; r < kResults; ++r)
#pragma unroll
                    for (int lane = 0; lane < kLanes; ++lane)
                        if (r == pass) z[lane / 2][lane % 2] = p.e.alpha * sums[r][lane];
                if (p.e.row_bias != nullptr)
#pragma unroll
                    for (int lane = 0; lane < kLanes; ++lane) z[lane / 2][lane % 2] += widen(p.e.row_bias[channel + lane]);
                activate_pairs<T, T>(p.e.activation, z);
                Vec<T, kLanes> stored;
#pragma unroll
                for (int lane = 0; lane < kLanes; ++lane) stored.lane[lane] = Epilogue<T>::stored(z[lane / 2][lane % 2]);
                store(p.e.d + channel * p.result_c + offset + (q_along + pass) * p.along.result_stride, stored);
            }
            return;
        }
    }
#pragma unroll 1
    for (int pass = 0; pass < results * kLanes; ++pass) {
        C sum = 0;
#pragma unroll
        for (int r = 0; r < kResults; ++r)
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane)
                if (r * kLanes + lane == pass) sum = sums[r][lane];
        p.e.store_one(0, channel + pass % kLanes, offset + (q_along + pass / kLanes) * p.along.result_stride, sum);
    }
}

// Whether a problem has a depthwise kernel: its weights fit shared memory.
inline bool has_depthwise_sums(const TapSums& s) {
    if (s.inputs != 1 && s.outputs != 1) return false;
    return s.positions() < INT32_MAX && s.taps() * s.inputs * static_cast<int64_t>(sizeof(double)) * 8 <= kDepthwiseStaged;
}

// Whether a gradient of data has one for each phase, of which there are few.
inline bool has_depthwise_phases(const ConvShape& s) {
    int64_t phases = 1;
    for (const ConvAxis& a : s.axis) phases *= std::min({a.step, a.in, kMostDepthwisePhases + 1});
    if (phases > kMostDepthwisePhases) return false;
    TapSums bound;  // the taps of all phases
    bound.inputs = s.group_out();
    bound.outputs = s.group_in();
    for (int d = 0; d < kTapAxes; ++d) {
        bound.axis[d].positions = s.axis[d].in;
        bound.axis[d].taps = s.axis[d].taps;
    }
    return has_depthwise_sums(bound);
}

template <class T, int kLanes, int kResults>
Status launch_depthwise(const Launch& launch, DepthwiseSums<T> p, const TapSums& s) {
    using C = compute_t<T>;
    int64_t count[kTapAxes];
    for (int d = 0; d < kTapAxes; ++d) count[d] = s.axis[d].positions;
    int64_t& along = count[p.along_last ? 2 : 1];
    along = ceil_div<int64_t>(along, kResults);
    p.last = FastDiv<uint32_t>(count[2]);
    p.middle = FastDiv<uint32_t>(count[1]);
    p.slots = count[0] * count[1] * count[2];
    const int64_t channel_vectors = ceil_div<int64_t>(p.channels, kLanes);
    const int64_t bytes = s.taps() * s.inputs * kLanes * static_cast<int64_t>(sizeof(C));
    int vectors = 1;
    if (p.by_channels) {
        while (vectors < kDepthwiseVectors && vectors < channel_vectors) vectors *= 2;
    } else {  // planes of few slots share a block
        while (2 * vectors * p.slots <= kDepthwiseThreads && vectors < channel_vectors) vectors *= 2;
    }
    while (vectors > 1 && vectors * bytes > kDepthwiseStaged) vectors /= 2;
    p.vectors_log = 0;
    while (1 << p.vectors_log < vectors) ++p.vectors_log;
    p.block_slots = kDepthwiseThreads / vectors;
    p.tiles = ceil_div<int64_t>(p.slots, p.block_slots);
    p.chunks = ceil_div<int64_t>(channel_vectors, vectors);
    p.by_chunks = FastDiv<uint32_t>(p.chunks);
    p.by_tiles = FastDiv<uint32_t>(p.tiles);
    p.by_taps = FastDiv<uint32_t>(p.along.taps);
    p.by_taps_v = FastDiv<uint32_t>(p.outer[1].taps);
    p.by_all_taps = FastDiv<uint32_t>(s.taps());
    int64_t blocks = 0;
    if (__builtin_mul_overflow(p.tiles * p.chunks, p.batch, &blocks) || blocks > kMaxGridX)
        return fail(Status::kUnsupported, "%lld images of %lld x %lld blocks are more than a grid has",
                    static_cast<long long>(p.batch), static_cast<long long>(p.tiles), static_cast<long long>(p.chunks));
    Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kDepthwiseThreads)};
    grid.shared = static_cast<unsigned>(vectors * bytes);
    return launch_kernel(launch, grid, depthwise_kernel<T, kLanes, kResults>, p);
}

// `source`, `weight` and the epilogue's operands are those of the first tap and position.
template <class T>
Status depthwise_sums(const Launch& launch, const TapSums& s, const T* source, const T* weight, Epilogue<T> e) {
    constexpr int kLanes = kVectorLanes<T>, kPlaneResults = 8;
    DepthwiseSums<T> p{};
    p.source = source;
    p.weight = weight;
    p.e = e;
    p.batch = s.batch;
    p.channels = s.groups * s.outputs;
    p.inputs = s.inputs;
    p.outputs = s.outputs;
    p.source_n = s.source_n;
    p.source_c = s.source_c;
    p.result_n = s.result_n;
    p.result_c = s.result_c;
    p.weight_row = s.weight_g / (s.inputs * s.outputs);
    const auto is_aligned_axis = [](const TapAxis& a) {
        return (a.source_stride % kLanes == 0 || a.extent == 1) && (a.result_stride % kLanes == 0 || a.positions == 1);
    };
    const bool has_vectors = s.inputs == 1 && s.outputs == 1 && s.source_c == 1 && s.result_c == 1 &&
                             p.channels % kLanes == 0 && s.source_n % kLanes == 0 && s.result_n % kLanes == 0 &&
                             is_aligned(source, kVectorBytes) && is_aligned(e.d, kVectorBytes) &&
                             std::all_of(s.axis, s.axis + kTapAxes, is_aligned_axis);
    p.by_channels = has_vectors || s.source_c == 1;
    p.along_last = p.by_channels || s.axis[1].positions < kPlaneResults;
    p.along = s.axis[p.along_last ? 2 : 1];
    p.outer[0] = s.axis[0];
    p.outer[1] = s.axis[p.along_last ? 1 : 2];
    if (p.along.tap_step < 0 && p.along.taps > 0) {  // taps in the other order
        p.along.first += (p.along.taps - 1) * p.along.tap_step;
        p.along.tap_step = -p.along.tap_step;
        p.weight += (p.along.taps - 1) * p.along.weight_stride;
        p.along.weight_stride = -p.along.weight_stride;
    }
    p.slides = p.along.step == p.along.tap_step;
    p.stores_vectors = has_vectors && e.z == nullptr && !e.has_c();
    if (!has_vectors) return launch_depthwise<T, 1, kPlaneResults>(launch, p, s);
    return p.along.taps <= kFewDepthwiseTaps ? launch_depthwise<T, kLanes, 2>(launch, p, s)
                                             : launch_depthwise<T, kLanes, 4>(launch, p, s);
}

}  // namespace bk
