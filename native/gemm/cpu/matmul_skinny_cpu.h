// SPDX-License-Identifier: Apache-2.0
// Skinny GEMM on the CPU, M <= 8 or N <= 8: bandwidth-bound on one read of the large operand, which is not packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/vector_width_cpu.h"
#include "gemm/cpu/compensated_cpu.h"
#include "gemm/cpu/matmul_pack_cpu.h"
#include "gemm/cpu/matmul_store_cpu.h"
#include "gemm/cpu/skinny_kernel_cpu.h"

namespace bk {

// Integers are excluded: exact f32 sums would have to be short.
template <class T>
constexpr bool kHasSkinnyLoops = !std::is_integral_v<matmul_element_t<T>>;

// Rows of K elements of the skinny and the large operand: rows of A, columns of B.
template <class T>
struct SkinnyMatmul {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    static constexpr Packing kPacking = std::is_same_v<S, double> ? Packing::kF64 : Packing::kF32;
    static constexpr bool kIsDirect = std::is_same_v<T, S>;    // elements need no conversion
    static constexpr int64_t kSegment = 2048 / sizeof(S) / 2;  // elements converted at once
    static constexpr int64_t kSums = 8192 / sizeof(S);
    static constexpr int64_t kPartial = 256;  // K elements of a partial sum

    struct OperandRows {
        const E* base;
        int64_t row, k;
        const MatrixStrides* at;

        BK_HD const E* first(int64_t g) const { return at->matrix(base, g); }
    };
    const Matmul<T>& p;
    OperandRows skinny, large;
    int64_t skinny_count, large_count;
    bool is_mn_major;  // K elements of different rows are adjacent in memory

    SkinnyMatmul(const Matmul<T>& problem, const E* b) : p(problem) {
        const OperandRows a_rows{p.a, p.a_at.row, p.a_at.column, &p.a_at}, b_rows{b, p.b_at.column, p.b_at.row, &p.b_at};
        const bool by_rows = p.m <= kSkinny;
        skinny = by_rows ? a_rows : b_rows;
        large = by_rows ? b_rows : a_rows;
        skinny_count = by_rows ? p.m : p.n;
        large_count = by_rows ? p.n : p.m;
        is_mn_major = large.row == 1 && large_count > 1;
    }

    // Elements converted for multiplication: in place, or in `buffer`.
    static BK_HD const S* widened(const E* from, int64_t count, S* buffer) {
        if constexpr (kIsDirect) return from;
        Units<T, kPacking>::convert_k_major(from, count, buffer);
        return buffer;
    }

    int64_t padded_rows() const { return skinny_count == 1 ? 1 : skinny_count <= 4 ? 4 : 8; }

    // Adds K elements [begin, end) to sums[i * pitch + j] of rows first + j (axpy), 8 at a time; adjacent rows are
    // adjacent in memory.
    BK_HD void sum_axpy(int64_t g, int64_t first, int64_t count, int64_t begin, int64_t end, S* sums, int64_t pitch) const {
        const E *const small = skinny.first(g), *const from = large.first(g) + first;
        alignas(64) S buffer[kIsDirect ? 1 : kSkinny][kIsDirect ? 1 : kSegment], zeros[kIsDirect ? kSegment : 1] = {};
        for (int64_t k = begin; k < end; k += kSkinny) {
            const int64_t k_count = std::min<int64_t>(end - k, kSkinny);
            S factors[kSkinny][kSkinny] = {};
            for (int64_t r = 0; r < k_count; ++r)
                for (int64_t i = 0; i < skinny_count; ++i)
                    factors[r][i] = MatmulConversion<T>::value(small[i * skinny.row + (k + r) * skinny.k]);
            for (int64_t j = 0; j < count; j += kSegment) {
                const int64_t width = std::min(count - j, kSegment);
                const S* rows[kSkinny];
                for (int64_t r = 0; r < kSkinny; ++r) {
                    if constexpr (kIsDirect) {
                        rows[r] = r < k_count ? from + (k + r) * large.k + j : zeros;
                    } else {
                        rows[r] = buffer[r];
                        if (r < k_count)
                            widened(from + (k + r) * large.k + j, width, buffer[r]);
                        else
                            std::fill(buffer[r], buffer[r] + width, S(0));
                    }
                }
                axpy_rows(static_cast<int>(skinny_count), rows, factors, sums + j, pitch, width);
            }
        }
    }

    // sum_axpy() of bf16, whose large rows are read without conversion.
    BK_HD void sum_bf16_axpy(int64_t g, int64_t first, int64_t count, int64_t begin, int64_t end, S* sums,
                             int64_t pitch) const {
        const E *const small = skinny.first(g), *const from = large.first(g) + first;
        const int64_t whole = count / kPairBlock * kPairBlock, padded = ceil_div<int64_t>(count, kPairBlock) * kPairBlock;
        static constexpr uint16_t kZeros[kSums] = {};
        uint16_t tails[kSkinny][kPairBlock] = {};
        for (int64_t k = begin; k < end; k += kSkinny) {
            const int64_t k_count = std::min<int64_t>(end - k, kSkinny);
            S factors[kSkinny][kSkinny] = {};
            const uint16_t *rows[kSkinny], *ends[kSkinny];
            for (int64_t r = 0; r < kSkinny; ++r) {
                ends[r] = r < k_count ? tails[r] : kZeros;
                rows[r] = r < k_count ? reinterpret_cast<const uint16_t*>(from + (k + r) * large.k) : kZeros;
                if (r >= k_count) continue;
                for (int64_t i = 0; i < skinny_count; ++i)
                    factors[r][i] = MatmulConversion<T>::value(small[i * skinny.row + (k + r) * skinny.k]);
                for (int64_t j = whole; j < count; ++j) tails[r][j - whole] = rows[r][j];
            }
            axpy_rows(static_cast<int>(skinny_count), rows, factors, sums, pitch, whole);
            axpy_rows(static_cast<int>(skinny_count), ends, factors, sums + whole, pitch, padded - whole);
        }
    }

    // Puts the sums of sum_bf16_axpy() in column order.
    BK_HD void order_sums(int64_t count, S* sums, int64_t pitch) const {
        const int64_t padded = ceil_div<int64_t>(count, kPairBlock) * kPairBlock;
        for (int64_t i = 0; i < skinny_count; ++i)
            for (int64_t j = 0; j < padded; j += kPairBlock) {
                S* const block = sums + i * pitch + j;
                S own[kPairBlock];
                std::copy(block, block + kPairBlock, own);
                for (int64_t x = 0; x < kPairBlock; ++x) block[x] = own[x % 2 * kSkinnyLanes + x / 2];
            }
    }

    // Sums along k in lanes, in segments of kPartial K elements a lane: sum_segment(begin, end, partials) adds a
    // segment.
    template <class Segment>
    BK_HD void sum_segments(int64_t count, S* sums, int64_t pitch, const Segment& sum_segment) const {
        constexpr int64_t kSegmentK = kPartial / 2 * kSkinnyLanes;  // with narrow vectors a lane has two partial sums
        S totals[kSkinny * kSkinny] = {}, errors[kSkinny * kSkinny] = {};
        for (int64_t begin = 0; begin == 0 || begin < p.k; begin += kSegmentK) {
            SkinnyLaneSums<S> lane_sums{};
            sum_segment(begin, std::min(p.k, begin + kSegmentK), lane_sums);
            if (p.k <= kSegmentK) return lane_sums.finish(skinny_count, count, sums, pitch);
            S partials[kSkinny * kSkinny] = {};
            lane_sums.finish(skinny_count, count, partials, kSkinny);
            for (int64_t x = 0; x < kSkinny * kSkinny; ++x) errors[x] += partials[x];
            add_compensated(totals, errors, kSkinny * kSkinny);
        }
        for (int64_t i = 0; i < skinny_count; ++i) std::copy_n(totals + i * kSkinny, count, sums + i * pitch);
    }

    // sums[i * pitch + j] of rows first + j, eight at a time, as dot products along k.
    BK_HD void sum_dot(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        const E *const small = skinny.first(g), *const from = large.first(g) + first * large.row;
        constexpr int64_t kSegmentK = kSegment / 4;
        alignas(64) S buffers[2][kSkinny][kSegmentK];
        const auto sum_segment = [&](int64_t j, int64_t begin, int64_t end, SkinnyLaneSums<S>& lane_sums) {
            const int64_t whole = end / kSkinnyLanes * kSkinnyLanes;
            for (int64_t k = begin; k < end;) {
                const bool is_direct = kIsDirect && skinny.k == 1 && k < whole;
                const int64_t k_count = is_direct ? whole - k : std::min(end - k, kSegmentK);
                const int64_t padded = ceil_div<int64_t>(k_count, kSkinnyLanes) * kSkinnyLanes;
                const S *skinny_rows[kSkinny], *rows[kSkinny];
                for (int64_t l = 0; l < kSkinny; ++l) {  // rows behind the last repeat it
                    const E* const row = from + std::min(j + l, count - 1) * large.row + k;
                    const E* const small_row = small + std::min(l, skinny_count - 1) * skinny.row + k * skinny.k;
                    skinny_rows[l] = converted(small_row, skinny.k, k_count, padded, buffers[0][l], is_direct);
                    rows[l] = converted(row, 1, k_count, padded, buffers[1][l], is_direct);
                }
                dot_rows(static_cast<int>(skinny_count), rows, skinny_rows, padded, lane_sums);
                k += k_count;
            }
        };
        for (int64_t j = 0; j < count; j += kSkinny)
            sum_segments(
                std::min<int64_t>(count - j, kSkinny), sums + j, pitch,
                [&](int64_t begin, int64_t end, SkinnyLaneSums<S>& lane_sums) { sum_segment(j, begin, end, lane_sums); });
    }

    // sum_dot() of bf16, whose large rows are read without conversion.
    BK_HD void sum_bf16_dot(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        const E *const small = skinny.first(g), *const from = large.first(g) + first * large.row;
        constexpr int64_t kBufferK = 512, kPairs = kPairBlock, kDots = 8192;
        alignas(64) S skinny_buffer[kBufferK];
        alignas(64) uint16_t tails[kSkinny][kPairs];
        const int64_t skinny_slots = this->padded_rows(), most = kBufferK / skinny_slots;
        const int64_t whole = p.k / kPairs * kPairs;
        const int32_t min_abs = skinny.k == 1 ? min_abs_skinny(small, skinny.row * static_cast<int64_t>(sizeof(E)),
                                                               static_cast<int>(skinny_count), p.k)
                                              : 0;
        const auto sum_segment = [&](int64_t j, int64_t begin, int64_t end, SkinnyLaneSums<S>& lane_sums) {
            for (int64_t k = begin; k < end;) {
                if (min_abs != 0 && k < whole) {
                    const int64_t dots = std::min({whole, end, k + kDots}) - k;
                    const uint16_t *small_rows[kSkinny], *large_rows[kSkinny];
                    for (int64_t l = 0; l < kSkinny; ++l) {
                        small_rows[l] =
                            reinterpret_cast<const uint16_t*>(small + std::min(l, skinny_count - 1) * skinny.row + k);
                        large_rows[l] = reinterpret_cast<const uint16_t*>(from + std::min(j + l, count - 1) * large.row + k);
                    }
                    if (dot_bf16_avx512(static_cast<int>(skinny_count), large_rows, small_rows, min_abs, dots, lane_sums)) {
                        k += dots;
                        continue;
                    }
                }
                const int64_t k_count = k < whole ? std::min({whole, end, k + most}) - k : end - k;
                const int64_t padded = ceil_div<int64_t>(k_count, kPairs) * kPairs;
                const S* skinny_rows[kSkinny];
                const uint16_t* rows[kSkinny];
                for (int64_t l = 0; l < kSkinny; ++l) {  // rows behind the last repeat it
                    if (l < skinny_slots) {
                        const E* const small_row = small + std::min(l, skinny_count - 1) * skinny.row + k * skinny.k;
                        split_even_odd(small_row, skinny.k, k_count, padded / 2, skinny_buffer + l * most);
                    }
                    skinny_rows[l] = skinny_buffer + std::min(l, skinny_slots - 1) * most;
                    const auto* const row =
                        reinterpret_cast<const uint16_t*>(from + std::min(j + l, count - 1) * large.row + k);
                    rows[l] = k < whole ? row : tails[l];
                    for (int64_t x = 0; k >= whole && x < padded; ++x) tails[l][x] = x < k_count ? row[x] : uint16_t{0};
                }
                dot_bf16_rows(static_cast<int>(skinny_count), rows, skinny_rows, padded, lane_sums);
                k += k_count;
            }
        };
        for (int64_t j = 0; j < count; j += kSkinny)
            sum_segments(
                std::min<int64_t>(count - j, kSkinny), sums + j, pitch,
                [&](int64_t begin, int64_t end, SkinnyLaneSums<S>& lane_sums) { sum_segment(j, begin, end, lane_sums); });
    }

    // Splits K elements into even and odd ones, zero-padded.
    static BK_HD void split_even_odd(const E* from, int64_t step, int64_t k_count, int64_t pairs, S* to) {
        const int64_t whole = step == 1 ? k_count / 2 : 0;
        for (int64_t x = 0; x < whole; ++x) {
            uint32_t bits;
            std::memcpy(&bits, from + 2 * x, sizeof(bits));
            to[x] = bit_cast<float>(bits << 16);
            to[pairs + x] = bit_cast<float>(bits & 0xffff0000u);
        }
        for (int64_t k = 2 * whole; k < 2 * pairs; ++k)
            to[k % 2 * pairs + k / 2] = k < k_count ? MatmulConversion<T>::value(from[k * step]) : S(0);
    }

    BK_HD void sum(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        if (is_mn_major) return sum_rows(g, first, count, sums, pitch);
        if constexpr (std::is_same_v<T, bf16>)
            sum_bf16_dot(g, first, count, sums, pitch);
        else
            sum_dot(g, first, count, sums, pitch);
    }

    // Sums in segments of kPartial K elements.
    BK_HD void sum_rows(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        const auto add = [&](int64_t begin, int64_t end) {
            if constexpr (std::is_same_v<T, bf16>)
                sum_bf16_axpy(g, first, count, begin, end, sums, pitch);
            else
                sum_axpy(g, first, count, begin, end, sums, pitch);
        };
        const int64_t all = padded_rows() * pitch;
        std::fill_n(sums, all, S(0));
        if (p.k <= kPartial)
            add(0, p.k);
        else
            sum_partials(sums, all, add);
        if constexpr (std::is_same_v<T, bf16>) order_sums(count, sums, pitch);
    }

    template <class Add>
    BK_HD void sum_partials(S* sums, int64_t count, const Add& add) const {
        alignas(64) S totals[kSums];
        std::fill_n(totals, count, S(0));
        for (int64_t k = 0; k < p.k; k += kPartial) {
            add(k, std::min(p.k, k + kPartial));
            add_compensated(totals, sums, count);
        }
        std::copy_n(totals, count, sums);
    }

    static BK_HD const S* converted(const E* from, int64_t step, int64_t k_count, int64_t padded, S* buffer, bool is_direct) {
        if constexpr (kIsDirect)
            if (is_direct) return from;
        if (step == 1)
            Units<T, kPacking>::convert_k_major(from, k_count, buffer);
        else
            for (int64_t k = 0; k < k_count; ++k) buffer[k] = MatmulConversion<T>::value(from[k * step]);
        for (int64_t k = k_count; k < padded; ++k) buffer[k] = 0;
        return buffer;
    }

    BK_HD void store(int64_t g, int64_t first, int64_t count, const S* sums, const S* gates, int64_t pitch) const {
        const auto store_one_row = [&](int64_t i, int64_t at, int64_t columns, const S* from, const S* gate) {
            if constexpr (kMayBeGated<T>)
                if (gates != nullptr) return store_gated_row(p.epilogue, i, at, columns, from, gate);
            store_row(p.epilogue, g, i, at, columns, from);
        };
        if (p.m <= kSkinny) {
            for (int64_t i = 0; i < skinny_count; ++i)
                store_one_row(i, first, count, sums + i * pitch, gates == nullptr ? nullptr : gates + i * pitch);
            return;
        }
        for (int64_t i = 0; i < count; ++i) {
            S row[kSkinny], gate[kSkinny];
            for (int64_t j = 0; j < skinny_count; ++j) {
                row[j] = sums[j * pitch + i];
                if (gates != nullptr) gate[j] = gates[j * pitch + i];
            }
            store_one_row(first + i, 0, skinny_count, row, gate);
        }
    }

    template <int kBytes>
    __attribute__((noinline)) void compute(int64_t tile, int64_t begin, int64_t end) const {
        alignas(64) S sums[kSums];
        const int64_t tiles = ceil_div(large_count, tile), pitch = tile;
        S* const gates = p.gate != nullptr ? sums + kSums / 2 : nullptr;
        for (int64_t t = begin; t < end; ++t) {
            const int64_t g = t / tiles, first = t % tiles * tile, count = std::min(large_count - first, tile);
            run_unfused<kBytes>([&] { sum(g, first, count, sums, pitch); });
            if constexpr (kMayBeGated<T>)
                if (gates != nullptr) run_unfused<kBytes>([&] { SkinnyMatmul(p, p.gate).sum(g, first, count, gates, pitch); });
            run_unfused<kBytes>([&] { store(g, first, count, sums, gates, pitch); });
        }
    }

    // Long tiles read memory fast, but each thread should get one.
    void run() const {
        const int64_t most = kSums / padded_rows() / (p.gate == nullptr ? 1 : 2);
        const int64_t wanted = ceil_div<int64_t>(large_count * p.batch, 2 * thread_count());
        const int64_t tile = std::min(most, std::max<int64_t>(ceil_div<int64_t>(wanted, 64) * 64, 64));
        const int64_t bytes = tile * (p.k + 1) * static_cast<int64_t>(sizeof(E));
        parallel_chunks(ceil_div(large_count, tile) * p.batch, grain_for(bytes), [&](int64_t begin, int64_t end) {
#if BK_ISA_DISPATCH
            if (vector_bytes() == 64) return compute<64>(tile, begin, end);
            if (vector_bytes() == 32) return compute<32>(tile, begin, end);
#endif
            compute<16>(tile, begin, end);
        });
    }
};

// Whether the large operand of a skinny GEMM is contiguous along k or across it.
template <class T>
bool suits_skinny(const Matmul<T>& p) {
    const SkinnyMatmul<T> skinny(p, p.b);
    return skinny.is_mn_major || skinny.large.k == 1;
}

}  // namespace bk
