// SPDX-License-Identifier: Apache-2.0
// The kernel of few_rows.h. A cluster of blocks has some tiles of 16 rows of weights; its blocks split K into slices, and a
// warp multiplies whole slices of its tiles: mma of f16 with weights as A and rows of x as columns of B, sums over a group of
// codes scaled in f32. The blocks' partial sums are added in order through distributed shared memory. What values lack in
// f16 is multiplied by mma of bytes, with x rounded to the 127th part of twice the largest.
//
// A block keeps its slice of x in shared memory, in f16: each row times a power of two that makes the slice's largest
// magnitude 2^8 to 2^9, so that what f16 loses is below 2^-33 of it. A byte of codes names a pair of values in a table
// with a copy for each bank, so that 32 lanes read it without conflicts. Codes come by cp.async, a ring of stages of
// 128 K elements a warp that goes on from tile to tile.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/codec/minifloat.h"
#include "core/collectives/cluster_peers.cuh"
#include "core/intrinsics/async_copy.cuh"
#include "core/intrinsics/tensor_core.cuh"
#include "core/math/math.h"
#include "core/types/vec.h"
#include "quantize/floats/few_rows.h"
#include "quantize/floats/few_rows_bytes.cuh"

namespace bk::floats {

constexpr int kFewStageK = 128, kFewStep = 64, kFewSlices = 8;
constexpr int64_t kFewSliceK = 1920;  // at most: 32 rows of it, the table and the ring fit in the shared memory of sm_90

// Shares of the work. Slices depend on K alone.
struct FewRowsSplit {
    int32_t cluster, clusters;  // blocks of one, their number
    int32_t slices, length;     // of K; elements of one, a multiple of a stage
    bool is_vector;             // x is aligned

    int pitch() const { return 2 * length + 16; }
};

template <FewRowsLayout kLayout, int kColumnBlocks>
struct FewRowsShape {
    static constexpr bool kPairs = kLayout == FewRowsLayout::kRowPairs;
    static constexpr int kGroups = kLayout == FewRowsLayout::kMx16 ? 4 : kLayout == FewRowsLayout::kMx32 ? 2 : 1;  // a step
    static constexpr int kTiles = kColumnBlocks == 1 ? 1 : 2, kWarps = 16 / kTiles, kThreads = 32 * kWarps;
    static constexpr int kStages = kColumnBlocks == 4 ? 3 : 4, kStage = 16 * kFewStageK / 2;
    static constexpr int kColumns = 8 * kColumnBlocks, kPartialPitch = 20;
    // Shared memory, in bytes.
    static constexpr int kTable = 256 * 32 * 4, kRing = kWarps * kTiles * kStages * kStage,
                         kPartials = kWarps * kColumns * kPartialPitch * 4, kFactors = 32 * 4;
    static int shared(const FewRowsSplit& split) { return kTable + kRing + kPartials + kFactors + kColumns * split.pitch(); }
};

// A scale as it is loaded; its value is made where it is used, so that loads are ahead.
struct RawScale {
    uint32_t bits;
    float outer;
};

template <FewRowsLayout kLayout, int kColumnBlocks>
class FewRowsWarp {
    using Shape = FewRowsShape<kLayout, kColumnBlocks>;
    static constexpr int kTiles = Shape::kTiles, kWarps = Shape::kWarps, kStages = Shape::kStages, kGroups = Shape::kGroups,
                         kColumns = Shape::kColumns;
    static constexpr bool kPairs = Shape::kPairs, kHasMaxima = kGroups == 1;
    static constexpr int kUnrolledSteps = kHasMaxima && kColumnBlocks == 4 ? 1 : 2;  // more would spill
    static constexpr int32_t kFloatOrigin = 0x4b400000;  // as a float 1.5 2^23: integers added to it are added to the float

public:
    BK_DEVICE FewRowsWarp(const FewRows& product, const FewRowsSplit& given, uint8_t* shared)
        : p(product), split(given), lane(static_cast<int>(threadIdx.x) % 32), warp(static_cast<int>(threadIdx.x) / 32) {
        rank = split.cluster > 1 ? rank_of_block() : 0;
        cluster = static_cast<int>(blockIdx.x) / split.cluster;
        tiles = (p.n + 15) / 16;
        columns = static_cast<int>(p.m);
        table = reinterpret_cast<uint32_t*>(shared);
        ring = shared + Shape::kTable + warp * kTiles * kStages * Shape::kStage;
        partials = reinterpret_cast<float*>(shared + Shape::kTable + Shape::kRing);
        factors = partials + Shape::kPartials / 4;
        x = reinterpret_cast<uint16_t*>(factors + 32);
        pitch = split.length + 8;
        next_slice = rank;
        constexpr int kParts = kPairs ? 8 : 4;  // vectors of a stage's row
        ring_at = static_cast<uint32_t>(lane / kParts * (kParts * 16) + swizzled(lane / kParts, lane % kParts) * 16);
#if BK_ON_GPU
        ring_at += shared_address(ring);
        table_at = shared_address(table) + 4 * static_cast<uint32_t>(lane);
#endif
    }

    BK_DEVICE void run() {
        const int64_t all = int64_t{split.clusters} * kWarps * kTiles;
        iterations = static_cast<int>((tiles + all - 1) / all);
        const bool has_one_slice = rank + split.cluster >= split.slices;
        if (rank < split.slices) copy_x(rank);
        end_copy_group();
        set_next();
        BK_UNROLL
        for (int s = 0; s < kStages - 1; ++s) fill(s, ahead[s]);
        fill_table();
        bool has_x = false;
        int slot = 0;
#pragma unroll 1
        for (int iteration = 0; iteration < iterations; ++iteration) {
            float sums[kTiles][kColumnBlocks][4] = {};
            const bool is_used = first_tile(iteration, warp) < tiles;
#pragma unroll 1
            for (int slice = rank; slice < split.slices; slice += split.cluster) {
                if (!has_x) {
                    if (iteration == 0 && slice == rank) {
                        wait_for_copies<kStages - 1>();
                    } else {
                        __syncthreads();  // all have read the slice before
                        copy_x(slice);
                        end_copy_group();
                        wait_for_copies<0>();
                    }
                    scale_x(slice);
                    __syncthreads();
                    has_x = has_one_slice;
                }
                float total[kTiles][kColumnBlocks][4] = {};
                const int64_t begin = int64_t{slice} * split.length;
                const int stages = stages_of(slice);
#pragma unroll 1
                for (int stage = 0; stage < stages; ++stage) {
                    wait_for_copies<kStages - 2>();
                    __syncwarp();  // all lanes' copies have arrived, and all have read the stage before
                    RawScale scales[kTiles][kGroups];
                    BK_UNROLL
                    for (int q = 0; q < kTiles; ++q) BK_UNROLL
                    for (int v = 0; v < kGroups; ++v) {
                        scales[q][v] = ahead[0][q][v];
                        BK_UNROLL
                        for (int s = 0; s < kStages - 2; ++s) ahead[s][q][v] = ahead[s + 1][q][v];
                    }
                    fill(slot == 0 ? kStages - 1 : slot - 1, ahead[kStages - 2]);
                    if (is_used)
                        multiply(total, ring + slot * kTiles * Shape::kStage, scales, stage,
                                 p.k - begin - stage * kFewStageK > kFewStep);
                    slot = slot + 1 == kStages ? 0 : slot + 1;
                }
                BK_UNROLL
                for (int c = 0; c < kColumnBlocks; ++c) BK_UNROLL
                for (int v = 0; v < 4; ++v) {
                    const float factor = factors[8 * c + 2 * (lane % 4) + v % 2];
                    BK_UNROLL
                    for (int q = 0; q < kTiles; ++q) sums[q][c][v] = math::fma(factor, total[q][c][v], sums[q][c][v]);
                }
            }
            BK_UNROLL
            for (int q = 0; q < kTiles; ++q) reduce(sums[q], iteration, q);
        }
        wait_for_copies<0>();
    }

private:
    BK_DEVICE int64_t first_tile(int iteration, int of_warp) const {
        return ((int64_t{iteration} * kWarps + of_warp) * split.clusters + cluster) * kTiles;
    }
    BK_DEVICE static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
    // Row r of the A operand of a tile.
    BK_DEVICE static int64_t row_of(int64_t tile, int r) { return 16 * tile + (kPairs ? 2 * (r % 8) + r / 8 : r); }
    BK_DEVICE int64_t slice_end(int slice) const { return least(int64_t{slice + 1} * split.length, p.k); }
    BK_DEVICE int stages_of(int slice) const {
        return static_cast<int>((slice_end(slice) - int64_t{slice} * split.length + kFewStageK - 1) / kFewStageK);
    }

    // The pairs of values that bytes name: entry b of the table in all banks.
    BK_DEVICE void fill_table() const {
        for (int i = static_cast<int>(threadIdx.x); i < 256 * 8; i += Shape::kThreads) {
            const uint32_t low = p.values[i / 8 & 15], high = p.values[i / 8 >> 4];
            const uint32_t pair = kLayout == FewRowsLayout::kColumns ? high | low << 16 : low | high << 16;
            store(table + 4 * i, Vec<uint32_t, 4>{{pair, pair, pair, pair}});
        }
    }

    // The offset at which element e of a step of x lies: the 16 that lane t of four multiplies are adjacent, in the order of
    // its codes.
    BK_DEVICE static int offset_of(int e) {
        if constexpr (kLayout == FewRowsLayout::kMx32) return e % 32 / 8 * 16 + e / 32 * 8 + e % 8;
        if constexpr (kLayout == FewRowsLayout::kMx16) return e % 16 / 4 * 16 + e / 16 * 4 + e % 4;
        return e;
    }

    // Starts to copy a slice of x, zeros behind its end. A warp copies and scales the same rows.
    BK_DEVICE void copy_x(int slice) const {
        const int vectors = stages_of(slice) * (kFewStageK / 8);
        const int64_t begin = int64_t{slice} * split.length;
        const uint16_t* const from = static_cast<const uint16_t*>(p.x) + begin;
        const int left = static_cast<int>(slice_end(slice) - begin);
        for (int column = warp; column < columns; column += kWarps) {
            const uint16_t* const row = from + column * p.k;
            uint16_t* const to = x + column * pitch;
            for (int v = lane; v < vectors; v += 32) {
                const int e = 8 * v, step = e / kFewStep * kFewStep, at = step + offset_of(e % kFewStep);
                const bool is_there = e < left;
                if (kLayout != FewRowsLayout::kMx16 && split.is_vector) {
                    start_copy_16(to + at, is_there ? row + e : row, is_there ? 16 : 0);
                    continue;
                }
                BK_UNROLL
                for (int i = 0; i < 8; ++i) to[step + offset_of(e % kFewStep + i)] = is_there ? row[e + i] : uint16_t{0};
            }
        }
    }

    // f16 or bf16 to f16 below 2^9, in place; the copies of this thread have arrived.
    BK_DEVICE void scale_x(int slice) const {
        const int vectors = stages_of(slice) * (kFewStageK / 8);
        __syncwarp();
        for (int column = warp; column < columns; column += kWarps) {
            const bool is_f16 = p.dtype == FloatDtype::kF16;
            const uint32_t infinity = is_f16 ? 0x7c00u : 0x7f80u;
            uint16_t* const own = x + column * pitch;
            uint32_t largest = 0;  // the bits of the largest finite magnitude
            for (int v = lane; v < vectors; v += 32) {
                const auto vector = load<8>(own + 8 * v);
                BK_UNROLL
                for (int i = 0; i < 8; ++i) {
                    const uint32_t magnitude = vector.lane[i] & 0x7fffu;
                    largest = magnitude < infinity && magnitude > largest ? magnitude : largest;
                }
            }
            for (int distance = 16; distance > 0; distance /= 2) {
                const uint32_t other = __shfl_xor_sync(~0u, largest, distance);
                largest = other > largest ? other : largest;
            }
            if (is_f16) largest = bit_cast<uint32_t>(widen(f16{static_cast<uint16_t>(largest)})) >> 16;
            const uint32_t exponent = largest >> 7, power = exponent < 9 ? 253 : 262 - exponent;
            const float scale = bit_cast<float>(power << 23);
            if (lane == 0) factors[column] = bit_cast<float>((254 - power) << 23) * p.unit;
            for (int v = lane; v < vectors; v += 32) {
                auto vector = load<8>(own + 8 * v);
                BK_UNROLL
                for (int i = 0; i < 8; ++i) {
                    const uint16_t bits = vector.lane[i];
                    vector.lane[i] = narrow<f16>((is_f16 ? widen(f16{bits}) : widen(bf16{bits})) * scale).bits;
                }
                store(own + 8 * v, vector);
            }
        }
    }

    // 16-byte vectors of a row lie in an order in which lanes that read at once read different banks.
    BK_DEVICE static int swizzled(int row, int part) {
        return kPairs ? part ^ (row & 1) << 2 : part ^ ((row & 2) | (row >> 2 & 1));
    }

    // Sets where the next stage begins.
    BK_DEVICE void set_next() {
        if (next_slice >= split.slices) return;
        const int64_t begin = int64_t{next_slice} * split.length, tile = first_tile(next_iteration, warp);
        next_left = static_cast<int>(slice_end(next_slice) - begin);
        is_next_used = next_iteration < iterations && tile < tiles;
        if (!is_next_used) return;
        BK_UNROLL
        for (int q = 0; q < kTiles; ++q) {
            BK_UNROLL
            for (int i = 0; i < 2; ++i) {
                const int vector = lane + 32 * i;
                if constexpr (kPairs) {
                    const int64_t row = least(8 * (tile + q) + vector / 8, p.n / 2 - 1);
                    next[q][i] = p.codes + row * p.k + begin + vector % 8 * 16;
                } else {
                    const int64_t row = least(16 * (tile + q) + vector / 4, p.n - 1);
                    next[q][i] = p.codes + (row * p.k + begin) / 2 + vector % 4 * 16;
                }
            }
            next_block[q] = least(row_of(tile + q, lane % 16), p.n - 1);
            next_group[q] = static_cast<int>(begin / kFewStep * kGroups);
            if constexpr (kHasMaxima) {
                const int64_t group = (next_block[q] * p.k + begin) / kFewStep;
                next_block[q] = group >> p.block_shift;
                next_group[q] = static_cast<int>(group - (next_block[q] << p.block_shift));
            }
        }
    }

    // Issues the loads of the next stage.
    BK_DEVICE void fill(int slot, RawScale (&scales)[kTiles][kGroups]) {
        if (is_next_used) {
            constexpr int kBytes = kPairs ? kFewStageK : kFewStageK / 2, kParts = kBytes / 16;
            const int own_step = lane / 16;
            const bool has_both = next_left > kFewStep, is_there = has_both || lane % kParts < kParts / 2;
            const int step = has_both ? own_step : 0;  // the second one may be absent: its scale is not used
            BK_UNROLL
            for (int q = 0; q < kTiles; ++q) {
                BK_UNROLL
                for (int i = 0; i < 2; ++i) {  // rows that are swizzled alike
                    copy(slot * kTiles * Shape::kStage + (2 * q + i) * (Shape::kStage / 2), next[q][i], is_there);
                    next[q][i] += kBytes;
                }
                if constexpr (kHasMaxima) {
                    const int64_t block = next_block[q] + ((next_group[q] + step) >> p.block_shift);
                    if (__builtin_expect(p.maxima.codes == nullptr, 1))
                        scales[q][0].bits = bit_cast<uint32_t>(p.maxima.values[block]);
                    else
                        scales[q][0] = {p.maxima.codes[block], p.maxima.outer[block / BlockMaxima::kOuterBlock]};
                } else {
                    BK_UNROLL
                    for (int v = 0; v < kGroups; ++v) {
                        const int group = 2 * v + own_step;
                        const int64_t block = next_group[q] + (has_both || group < kGroups ? group : 0);
                        scales[q][v].bits = p.scales[p.scale_map.at(next_block[q], block)];
                    }
                }
                next_group[q] += kFewStageK / kFewStep * kGroups;
            }
        }
        end_copy_group();
        next_left -= kFewStageK;
        if (next_left > 0) return;
        next_slice += split.cluster;
        if (next_slice >= split.slices) {
            next_slice = rank;
            ++next_iteration;
        }
        set_next();
    }

    // Copies a vector of 16 bytes, or zeros, to this lane's part of the ring.
    BK_DEVICE void copy(int to, const uint8_t* from, bool is_there) const {
#if BK_ON_GPU
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ring_at + to), "l"(from), "r"(is_there ? 16 : 0)
                     : "memory");
#else
        start_copy_16(ring + ring_at + to, is_there ? from : p.codes, is_there ? 16 : 0);
#endif
    }

    BK_DEVICE float value_of(const RawScale& raw) const {
        if constexpr (kLayout == FewRowsLayout::kMx32) return codec::e8m0_value(raw.bits);
        if constexpr (kLayout == FewRowsLayout::kMx16)
            return math::product(codec::minifloat(codec::FloatFormat::kE4m3).decode(raw.bits),
                                 p.tensor_scale == nullptr ? 1.f : *p.tensor_scale);
        return p.maxima.codes == nullptr ? bit_cast<float>(raw.bits) : p.maxima.decoded(raw.bits, raw.outer);
    }

    BK_DEVICE uint32_t pair_at(uint32_t word, int byte) const {
#if BK_ON_GPU  // one instruction of the integer pipe, one of that of products
        const uint32_t index = byte == 0 ? word & 255u : byte == 3 ? word >> 24 : __byte_perm(word, 0, 0x4440u | byte);
        uint32_t address, pair;
        asm("mad.lo.u32 %0, %1, 128, %2;" : "=r"(address) : "r"(index), "r"(table_at));
        asm("ld.shared.u32 %0, [%1];" : "=r"(pair) : "r"(address));
        return pair;
#else
        return table[(word >> (8 * byte) & 255u) * 32 + static_cast<uint32_t>(lane)];
#endif
    }

    // The codes of a lane for a step: bytes of word j % 2 of rows g and g + 8, or of word j of a pair of rows.
    BK_DEVICE void load_codes(uint32_t (&words)[4], const uint8_t* tile, int h) const {
        const int g = lane / 4, t = lane % 4;
        if constexpr (kPairs) {
            const auto own = load<4>(reinterpret_cast<const uint32_t*>(tile + g * 128 + swizzled(g, 4 * h + t) * 16));
            BK_UNROLL
            for (int i = 0; i < 4; ++i) words[i] = own.lane[i];
        } else {
            BK_UNROLL
            for (int half = 0; half < 2; ++half) {
                const uint8_t* const row = tile + (g + 8 * half) * 64;
                const auto part = [&](int i) { return row + swizzled(g, 2 * h + i) * 16; };
                if constexpr (kLayout == FewRowsLayout::kMx32) {
                    BK_UNROLL
                    for (int i = 0; i < 2; ++i)
                        words[2 * half + i] = load<1>(reinterpret_cast<const uint32_t*>(part(i) + 4 * t)).lane[0];
                } else if constexpr (kLayout == FewRowsLayout::kMx16) {
                    BK_UNROLL
                    for (int i = 0; i < 2; ++i) {
                        const uint16_t* const from = reinterpret_cast<const uint16_t*>(part(i));
                        words[2 * half + i] = from[t] | static_cast<uint32_t>(from[4 + t]) << 16;
                    }
                } else {
                    const auto own = load<2>(reinterpret_cast<const uint32_t*>(part(t / 2) + t % 2 * 8));
                    words[2 * half] = own.lane[0];
                    words[2 * half + 1] = own.lane[1];
                }
            }
        }
    }

    // The A operand of mma j of a step.
    BK_DEVICE void weights_of(uint32_t (&a)[4], const uint32_t (&words)[4], int j) const {
        if constexpr (kPairs) {
            BK_UNROLL
            for (int i = 0; i < 2; ++i) {
                const uint32_t first = pair_at(words[j], 2 * i), second = pair_at(words[j], 2 * i + 1);
                a[2 * i] = (first & 0xffffu) | second << 16;
                a[2 * i + 1] = first >> 16 | (second & 0xffff0000u);
            }
        } else {
            BK_UNROLL
            for (int i = 0; i < 4; ++i) a[i] = pair_at(words[2 * (i % 2) + j / 2], j % 2 * 2 + i / 2);
        }
    }

    // The digits of 8 elements of a row, or of 4 of a pair of rows: four a word.
    template <class Four>
    BK_DEVICE static void digits_of(const Four& four, uint32_t word, uint32_t& first, uint32_t& second) {
        const uint32_t low = four(word, 0), high = four(word, 16);
        first = kPairs ? __byte_perm(low, high, 0x6420) : low;
        second = kPairs ? __byte_perm(low, high, 0x7531) : high;
    }

    // The A operand of byte mma i of a step.
    template <class Four>
    BK_DEVICE static void digits_of(const Four& four, uint32_t (&a)[4], const uint32_t (&words)[4], int i) {
        if constexpr (kPairs) {
            digits_of(four, words[2 * i], a[0], a[1]);
            digits_of(four, words[2 * i + 1], a[2], a[3]);
        } else {
            digits_of(four, words[i], a[0], a[2]);
            digits_of(four, words[2 + i], a[1], a[3]);
        }
    }

    // Adds the products of byte mma i of a step, whose elements of x are in b.
    BK_DEVICE void add_low(int32_t (&low)[kTiles][kColumnBlocks][4], const uint32_t (&words)[kTiles][4],
                           const uint32_t (&b)[kColumnBlocks][4], int i) const {
        constexpr uint32_t kOrder = kPairs ? 0x6420 : 0x4602;  // elements as in digits: of bytes' halves the low one first
        uint32_t bytes[kColumnBlocks][2];
        BK_UNROLL
        for (int c = 0; c < kColumnBlocks; ++c) BK_UNROLL
        for (int word = 0; word < 2; ++word) bytes[c][word] = few_bytes(b[c][2 * word], b[c][2 * word + 1], kOrder);
        BK_UNROLL
        for (int q = 0; q < kTiles; ++q) {
            const auto below_8 = [&](uint32_t word, int shift) {
                return bytes_below_8(p.digits[0], p.digits[1], word >> shift);
            };
            const auto others = [&](uint32_t word, int shift) {
                return bytes_below_8(p.digits[2], p.digits[3], (word ^ 0x88888888u) >> shift);
            };
            uint32_t a[4];
            if constexpr (kColumnBlocks == 1) {  // another mma costs less than to join the halves of the table
                digits_of(below_8, a, words[q], i);
                Mma<int8_t>::run(low[q][0], a, bytes[0]);
                digits_of(others, a, words[q], i);
                Mma<int8_t>::run(low[q][0], a, bytes[0]);
            } else {
                digits_of([&](uint32_t word, int shift) { return below_8(word, shift) | others(word, shift); }, a, words[q], i);
                BK_UNROLL
                for (int c = 0; c < kColumnBlocks; ++c) Mma<int8_t>::run(low[q][c], a, bytes[c]);
            }
        }
    }

    // Adds the products of a stage.
    BK_DEVICE void multiply(float (&total)[kTiles][kColumnBlocks][4], const uint8_t* stage_codes,
                            const RawScale (&raw)[kTiles][kGroups], int stage, bool has_both) const {
        const int g = lane / 4, t = lane % 4;
        float scales[kTiles][kGroups];
        BK_UNROLL
        for (int q = 0; q < kTiles; ++q) BK_UNROLL
        for (int v = 0; v < kGroups; ++v) scales[q][v] = has_both || 2 * v + lane / 16 < kGroups ? value_of(raw[q][v]) : 0.f;
        const uint16_t* const own_x = x + g * pitch + stage * kFewStageK + 16 * t;
#pragma unroll kUnrolledSteps
        for (int h = 0; h < 2; ++h) {
            uint32_t words[kTiles][4], b[kColumnBlocks][4] = {};
            BK_UNROLL
            for (int q = 0; q < kTiles; ++q) load_codes(words[q], stage_codes + q * Shape::kStage, h);
            float sum[kTiles][kColumnBlocks][4] = {};
            int32_t low[kTiles][kColumnBlocks][4];
            if constexpr (kHasMaxima) {
                BK_UNROLL
                for (int q = 0; q < kTiles; ++q) BK_UNROLL
                for (int c = 0; c < kColumnBlocks; ++c) BK_UNROLL
                for (int v = 0; v < 4; ++v) low[q][c][v] = kFloatOrigin;
            }
            BK_UNROLL
            for (int j = 0; j < 4; ++j) {
                if (j % 2 == 0) {
                    BK_UNROLL
                    for (int c = 0; c < kColumnBlocks; ++c) {
                        if (8 * c + g >= columns) continue;
                        const auto own =
                            load<4>(reinterpret_cast<const uint32_t*>(own_x + 8 * c * pitch + h * kFewStep + j / 2 * 8));
                        BK_UNROLL
                        for (int i = 0; i < 4; ++i) b[c][i] = own.lane[i];
                    }
                    if constexpr (kHasMaxima) add_low(low, words, b, j / 2);
                }
                const bool ends_group = (j + 1) % (4 / kGroups) == 0;
                const int group = h * kGroups + j * kGroups / 4;  // of the stage
                BK_UNROLL
                for (int q = 0; q < kTiles; ++q) {
                    uint32_t a[4];
                    weights_of(a, words[q], j);
                    BK_UNROLL
                    for (int c = 0; c < kColumnBlocks; ++c) {
                        const uint32_t pair[2] = {b[c][2 * (j % 2)], b[c][2 * (j % 2) + 1]};
                        Mma<f16>::run(sum[q][c], a, pair);
                    }
                    if (!ends_group) continue;
                    if constexpr (kHasMaxima) {
                        BK_UNROLL
                        for (int c = 0; c < kColumnBlocks; ++c) BK_UNROLL
                        for (int v = 0; v < 4; ++v)
                            sum[q][c][v] =
                                math::fma(p.low_unit * kFewByteUnit,
                                          bit_cast<float>(low[q][c][v]) - bit_cast<float>(kFloatOrigin), sum[q][c][v]);
                    }
                    BK_UNROLL
                    for (int half = 0; half < 2; ++half) {
                        const float scale =
                            __shfl_sync(~0u, scales[q][kHasMaxima ? 0 : group / 2], group % 2 * 16 + g + 8 * half);
                        BK_UNROLL
                        for (int c = 0; c < kColumnBlocks; ++c) BK_UNROLL
                        for (int v = 2 * half; v < 2 * half + 2; ++v) {
                            total[q][c][v] = math::fma(scale, sum[q][c][v], total[q][c][v]);
                            sum[q][c][v] = 0;
                        }
                    }
                }
            }
        }
    }

    // Adds the sums of the cluster's blocks for tile q of each warp. Each block stores the rows of some warps.
    BK_DEVICE void reduce(const float (&own)[kColumnBlocks][4], int iteration, int q) const {
        const int g = lane / 4, t = lane % 4;
        const auto sync = [&] {
            if (split.cluster > 1)
                sync_blocks();
            else
                __syncthreads();
        };
        BK_UNROLL
        for (int c = 0; c < kColumnBlocks; ++c) BK_UNROLL
        for (int v = 0; v < 4; ++v)
            partials[(warp * kColumns + 8 * c + 2 * t + v % 2) * Shape::kPartialPitch + g + v / 2 * 8] = own[c][v];
        sync();
        const int warps = kWarps / split.cluster, count = warps * columns * 16;
        for (int i = static_cast<int>(threadIdx.x); i < count; i += Shape::kThreads) {
            const int r = i % 16, w = rank * warps + i / 16 % warps, column = i / 16 / warps;
            const int64_t row = row_of(first_tile(iteration, w) + q, r);
            if (row >= p.n) continue;
            const int at = (w * kColumns + column) * Shape::kPartialPitch + r;
            float part[kFewSlices] = {};
            BK_UNROLL
            for (int b = 0; b < kFewSlices; ++b)
                if (b < split.cluster) part[b] = split.cluster > 1 ? *cluster_peer(partials + at, b) : partials[at];
            float value = part[0];
            BK_UNROLL
            for (int b = 1; b < kFewSlices; ++b)
                if (b < split.cluster) value += part[b];
            if (p.bias != nullptr) value += load_float(p.bias, row, p.dtype);
            store_float(p.y, column * p.n + row, p.dtype, value);
        }
        sync();  // the next sums overwrite these
    }

    const FewRows& p;
    const FewRowsSplit& split;
    int lane, warp, rank, cluster, columns, pitch, iterations;
    int64_t tiles;
    uint32_t* table;
    [[maybe_unused]] uint32_t table_at = 0;  // the shared address of this lane's copy
    uint8_t* ring;
    uint32_t ring_at;  // where this lane copies to: a shared address, on fibers an offset
    float *partials, *factors;
    uint16_t* x;
    // The next stage to be loaded, and the scales of those on their way.
    int next_iteration = 0, next_slice;
    bool is_next_used = false;
    int next_left = 0;
    // Rows of weights whose scales this lane loads: the row, and the group of 64 codes; with maxima the block, and the
    // group from its first on.
    int64_t next_block[kTiles] = {};
    int next_group[kTiles] = {};
    const uint8_t* next[kTiles][2] = {};
    RawScale ahead[kStages - 1][kTiles][kGroups] = {};
};

template <FewRowsLayout kLayout, int kColumnBlocks>
__global__ void __launch_bounds__(FewRowsShape<kLayout, kColumnBlocks>::kThreads, 1)
    few_rows_kernel(const __grid_constant__ FewRows p, const __grid_constant__ FewRowsSplit split) {
    BK_LAUNCH_SHARED(uint4, shared_words);
    if (split.cluster > 1) {
        using Shape = FewRowsShape<kLayout, kColumnBlocks>;
        open_cluster(shared_words, Shape::kTable + Shape::kRing + Shape::kPartials);
    }
    FewRowsWarp<kLayout, kColumnBlocks> self(p, split, reinterpret_cast<uint8_t*>(shared_words));
    self.run();
}

}  // namespace bk::floats
