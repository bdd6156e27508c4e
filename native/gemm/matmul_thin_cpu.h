// Skinny GEMM on the CPU, M <= 8 or N <= 8: bandwidth-bound on one read of the large operand, which is not packed.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/vector_width_cpu.h"
#include "gemm/compensated_cpu.h"
#include "gemm/matmul_pack_cpu.h"
#include "gemm/matmul_store_cpu.h"
#include "gemm/thin_kernel_cpu.h"

namespace bk {

// Integers are excluded: exact f32 sums would have to be short.
template <class T>
constexpr bool kHasThinLoops = !std::is_integral_v<matmul_element_t<T>>;

// Rows of K elements of the skinny and the large operand: rows of A, columns of B.
template <class T>
struct ThinMatmul {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    static constexpr Packing kPacking = std::is_same_v<S, double> ? Packing::kF64 : Packing::kF32;
    static constexpr bool kIsDirect = std::is_same_v<T, S>;  // elements need no conversion
    static constexpr int64_t kRun = 2048 / sizeof(S) / 2;    // elements converted at once
    static constexpr int64_t kSums = 8192 / sizeof(S);
    static constexpr int64_t kPartial = 256;  // K elements of a partial sum

    struct Lines {
        const E* base;
        int64_t line, k;
        const MatrixStrides* at;

        BK_HD const E* first(int64_t g) const { return at->matrix(base, g); }
    };
    const Matmul<T>& p;
    Lines thin, many;
    int64_t thin_count, many_count;
    bool is_across;  // K elements of different rows are adjacent in memory

    ThinMatmul(const Matmul<T>& given, const E* b) : p(given) {
        const Lines of_a{p.a, p.a_at.row, p.a_at.column, &p.a_at}, of_b{b, p.b_at.column, p.b_at.row, &p.b_at};
        const bool by_rows = p.m <= kThin;
        thin = by_rows ? of_a : of_b;
        many = by_rows ? of_b : of_a;
        thin_count = by_rows ? p.m : p.n;
        many_count = by_rows ? p.n : p.m;
        is_across = many.line == 1 && many_count > 1;
    }

    // Elements converted for multiplication: in place, or in `buffer`.
    static BK_HD const S* widened(const E* from, int64_t count, S* room) {
        if constexpr (kIsDirect) return from;
        Units<T, kPacking>::along(from, count, room);
        return room;
    }

    int64_t lines() const { return thin_count == 1 ? 1 : thin_count <= 4 ? 4 : 8; }

    // Adds K elements [begin, end) to sums[i * pitch + j] of rows first + j (axpy), 8 at a time; adjacent rows are
    // adjacent in memory.
    BK_HD void sum_across(int64_t g, int64_t first, int64_t count, int64_t begin, int64_t end, S* sums, int64_t pitch) const {
        const E *const few = thin.first(g), *const from = many.first(g) + first;
        alignas(64) S room[kIsDirect ? 1 : kThin][kIsDirect ? 1 : kRun], zeros[kIsDirect ? kRun : 1] = {};
        for (int64_t k = begin; k < end; k += kThin) {
            const int64_t terms = std::min<int64_t>(end - k, kThin);
            S factors[kThin][kThin] = {};
            for (int64_t r = 0; r < terms; ++r)
                for (int64_t i = 0; i < thin_count; ++i)
                    factors[r][i] = MatmulArithmetic<T>::term(few[i * thin.line + (k + r) * thin.k]);
            for (int64_t j = 0; j < count; j += kRun) {
                const int64_t width = std::min(count - j, kRun);
                const S* rows[kThin];
                for (int64_t r = 0; r < kThin; ++r) {
                    if constexpr (kIsDirect) {
                        rows[r] = r < terms ? from + (k + r) * many.k + j : zeros;
                    } else {
                        rows[r] = room[r];
                        if (r < terms)
                            widened(from + (k + r) * many.k + j, width, room[r]);
                        else
                            std::fill(room[r], room[r] + width, S(0));
                    }
                }
                add_rows(static_cast<int>(thin_count), rows, factors, sums + j, pitch, width);
            }
        }
    }

    // sum_axpy() of bf16, whose large rows are read without conversion.
    BK_HD void sum_pairs_across(int64_t g, int64_t first, int64_t count, int64_t begin, int64_t end, S* sums,
                                int64_t pitch) const {
        const E *const few = thin.first(g), *const from = many.first(g) + first;
        const int64_t whole = count / kPairBlock * kPairBlock, padded = ceil_div<int64_t>(count, kPairBlock) * kPairBlock;
        static constexpr uint16_t kZeros[kSums] = {};
        uint16_t tails[kThin][kPairBlock] = {};
        for (int64_t k = begin; k < end; k += kThin) {
            const int64_t terms = std::min<int64_t>(end - k, kThin);
            S factors[kThin][kThin] = {};
            const uint16_t *rows[kThin], *ends[kThin];
            for (int64_t r = 0; r < kThin; ++r) {
                ends[r] = r < terms ? tails[r] : kZeros;
                rows[r] = r < terms ? reinterpret_cast<const uint16_t*>(from + (k + r) * many.k) : kZeros;
                if (r >= terms) continue;
                for (int64_t i = 0; i < thin_count; ++i)
                    factors[r][i] = MatmulArithmetic<T>::term(few[i * thin.line + (k + r) * thin.k]);
                for (int64_t j = whole; j < count; ++j) tails[r][j - whole] = rows[r][j];
            }
            add_rows(static_cast<int>(thin_count), rows, factors, sums, pitch, whole);
            add_rows(static_cast<int>(thin_count), ends, factors, sums + whole, pitch, padded - whole);
        }
    }

    // Puts the sums of sum_bf16_axpy() in column order.
    BK_HD void part_sums(int64_t count, S* sums, int64_t pitch) const {
        const int64_t padded = ceil_div<int64_t>(count, kPairBlock) * kPairBlock;
        for (int64_t i = 0; i < thin_count; ++i)
            for (int64_t j = 0; j < padded; j += kPairBlock) {
                S* const block = sums + i * pitch + j;
                S own[kPairBlock];
                std::copy(block, block + kPairBlock, own);
                for (int64_t x = 0; x < kPairBlock; ++x) block[x] = own[x % 2 * kThinLanes + x / 2];
            }
    }

    // Sums along k in lanes, in segments of kPartial K elements a lane: sum_segment(begin, end, partials) adds a
    // segment.
    template <class Run>
    BK_HD void sum_runs(int64_t count, S* sums, int64_t pitch, const Run& sum_run) const {
        constexpr int64_t kTerms = kPartial / 2 * kThinLanes;  // with narrow vectors a lane has two partial sums
        S totals[kThin * kThin] = {}, errors[kThin * kThin] = {};
        for (int64_t begin = 0; begin == 0 || begin < p.k; begin += kTerms) {
            ThinParts<S> parts{};
            sum_run(begin, std::min(p.k, begin + kTerms), parts);
            if (p.k <= kTerms) return parts.finish(thin_count, count, sums, pitch);
            S partials[kThin * kThin] = {};
            parts.finish(thin_count, count, partials, kThin);
            for (int64_t x = 0; x < kThin * kThin; ++x) errors[x] += partials[x];
            add_compensated(totals, errors, kThin * kThin);
        }
        for (int64_t i = 0; i < thin_count; ++i) std::copy_n(totals + i * kThin, count, sums + i * pitch);
    }

    // sums[i * pitch + j] of rows first + j, eight at a time, as dot products along k.
    BK_HD void sum_along(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        const E *const few = thin.first(g), *const from = many.first(g) + first * many.line;
        constexpr int64_t kTerms = kRun / 4;
        alignas(64) S rooms[2][kThin][kTerms];
        const auto sum_run = [&](int64_t j, int64_t begin, int64_t end, ThinParts<S>& parts) {
            const int64_t whole = end / kThinLanes * kThinLanes;
            for (int64_t k = begin; k < end;) {
                const bool is_direct = kIsDirect && thin.k == 1 && k < whole;
                const int64_t terms = is_direct ? whole - k : std::min(end - k, kTerms);
                const int64_t padded = ceil_div<int64_t>(terms, kThinLanes) * kThinLanes;
                const S *thin_lines[kThin], *lines[kThin];
                for (int64_t l = 0; l < kThin; ++l) {  // rows behind the last repeat it
                    const E* const line = from + std::min(j + l, count - 1) * many.line + k;
                    const E* const other = few + std::min(l, thin_count - 1) * thin.line + k * thin.k;
                    thin_lines[l] = place(other, thin.k, terms, padded, rooms[0][l], is_direct);
                    lines[l] = place(line, 1, terms, padded, rooms[1][l], is_direct);
                }
                add_lines(static_cast<int>(thin_count), lines, thin_lines, padded, parts);
                k += terms;
            }
        };
        for (int64_t j = 0; j < count; j += kThin)
            sum_runs(std::min<int64_t>(count - j, kThin), sums + j, pitch,
                     [&](int64_t begin, int64_t end, ThinParts<S>& parts) { sum_run(j, begin, end, parts); });
    }

    // sum_dot() of bf16, whose large rows are read without conversion.
    BK_HD void sum_pairs_along(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        const E *const few = thin.first(g), *const from = many.first(g) + first * many.line;
        constexpr int64_t kRoom = 512, kPairs = kPairBlock, kDots = 8192;
        alignas(64) S thin_room[kRoom];
        alignas(64) uint16_t tails[kThin][kPairs];
        const int64_t slots = this->lines(), most = kRoom / slots;
        const int64_t whole = p.k / kPairs * kPairs;
        const int32_t least =
            thin.k == 1 ? least_thin(few, thin.line * static_cast<int64_t>(sizeof(E)), static_cast<int>(thin_count), p.k) : 0;
        const auto sum_run = [&](int64_t j, int64_t begin, int64_t end, ThinParts<S>& parts) {
            for (int64_t k = begin; k < end;) {
                if (least != 0 && k < whole) {
                    const int64_t dots = std::min({whole, end, k + kDots}) - k;
                    const uint16_t *few_lines[kThin], *many_lines[kThin];
                    for (int64_t l = 0; l < kThin; ++l) {
                        few_lines[l] = reinterpret_cast<const uint16_t*>(few + std::min(l, thin_count - 1) * thin.line + k);
                        many_lines[l] = reinterpret_cast<const uint16_t*>(from + std::min(j + l, count - 1) * many.line + k);
                    }
                    if (add_dots(static_cast<int>(thin_count), many_lines, few_lines, least, dots, parts)) {
                        k += dots;
                        continue;
                    }
                }
                const int64_t terms = k < whole ? std::min({whole, end, k + most}) - k : end - k;
                const int64_t padded = ceil_div<int64_t>(terms, kPairs) * kPairs;
                const S* thin_lines[kThin];
                const uint16_t* lines[kThin];
                for (int64_t l = 0; l < kThin; ++l) {  // rows behind the last repeat it
                    if (l < slots) {
                        const E* const other = few + std::min(l, thin_count - 1) * thin.line + k * thin.k;
                        part_pairs(other, thin.k, terms, padded / 2, thin_room + l * most);
                    }
                    thin_lines[l] = thin_room + std::min(l, slots - 1) * most;
                    const auto* const line =
                        reinterpret_cast<const uint16_t*>(from + std::min(j + l, count - 1) * many.line + k);
                    lines[l] = k < whole ? line : tails[l];
                    for (int64_t x = 0; k >= whole && x < padded; ++x) tails[l][x] = x < terms ? line[x] : uint16_t{0};
                }
                add_pairs(static_cast<int>(thin_count), lines, thin_lines, padded, parts);
                k += terms;
            }
        };
        for (int64_t j = 0; j < count; j += kThin)
            sum_runs(std::min<int64_t>(count - j, kThin), sums + j, pitch,
                     [&](int64_t begin, int64_t end, ThinParts<S>& parts) { sum_run(j, begin, end, parts); });
    }

    // Splits K elements into even and odd ones, zero-padded.
    static BK_HD void part_pairs(const E* from, int64_t step, int64_t terms, int64_t pairs, S* to) {
        const int64_t whole = step == 1 ? terms / 2 : 0;
        for (int64_t x = 0; x < whole; ++x) {
            uint32_t bits;
            std::memcpy(&bits, from + 2 * x, sizeof(bits));
            to[x] = bit_cast<float>(bits << 16);
            to[pairs + x] = bit_cast<float>(bits & 0xffff0000u);
        }
        for (int64_t k = 2 * whole; k < 2 * pairs; ++k)
            to[k % 2 * pairs + k / 2] = k < terms ? MatmulArithmetic<T>::term(from[k * step]) : S(0);
    }

    BK_HD void sum(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        if (is_across) return sum_rows(g, first, count, sums, pitch);
        if constexpr (std::is_same_v<T, bf16>)
            sum_pairs_along(g, first, count, sums, pitch);
        else
            sum_along(g, first, count, sums, pitch);
    }

    // Sums in segments of kPartial K elements.
    BK_HD void sum_rows(int64_t g, int64_t first, int64_t count, S* sums, int64_t pitch) const {
        const auto add = [&](int64_t begin, int64_t end) {
            if constexpr (std::is_same_v<T, bf16>)
                sum_pairs_across(g, first, count, begin, end, sums, pitch);
            else
                sum_across(g, first, count, begin, end, sums, pitch);
        };
        const int64_t all = lines() * pitch;
        std::fill_n(sums, all, S(0));
        if (p.k <= kPartial)
            add(0, p.k);
        else
            sum_partials(sums, all, add);
        if constexpr (std::is_same_v<T, bf16>) part_sums(count, sums, pitch);
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

    static BK_HD const S* place(const E* from, int64_t step, int64_t terms, int64_t padded, S* room, bool is_direct) {
        if constexpr (kIsDirect)
            if (is_direct) return from;
        if (step == 1)
            Units<T, kPacking>::along(from, terms, room);
        else
            for (int64_t k = 0; k < terms; ++k) room[k] = MatmulArithmetic<T>::term(from[k * step]);
        for (int64_t k = terms; k < padded; ++k) room[k] = 0;
        return room;
    }

    BK_HD void store(int64_t g, int64_t first, int64_t count, const S* sums, const S* gates, int64_t pitch) const {
        const auto store_line = [&](int64_t i, int64_t at, int64_t columns, const S* from, const S* gate) {
            if constexpr (kMayBeGated<T>)
                if (gates != nullptr) return store_gated_row(p.epilogue, i, at, columns, from, gate);
            store_row(p.epilogue, g, i, at, columns, from);
        };
        if (p.m <= kThin) {
            for (int64_t i = 0; i < thin_count; ++i)
                store_line(i, first, count, sums + i * pitch, gates == nullptr ? nullptr : gates + i * pitch);
            return;
        }
        for (int64_t i = 0; i < count; ++i) {
            S row[kThin], gate[kThin];
            for (int64_t j = 0; j < thin_count; ++j) {
                row[j] = sums[j * pitch + i];
                if (gates != nullptr) gate[j] = gates[j * pitch + i];
            }
            store_line(first + i, 0, thin_count, row, gate);
        }
    }

    template <int kBytes>
    __attribute__((noinline)) void compute(int64_t strip, int64_t begin, int64_t end) const {
        alignas(64) S sums[kSums];
        const int64_t strips = ceil_div(many_count, strip), pitch = strip;
        S* const gates = p.gate != nullptr ? sums + kSums / 2 : nullptr;
        for (int64_t t = begin; t < end; ++t) {
            const int64_t g = t / strips, first = t % strips * strip, count = std::min(many_count - first, strip);
            run_unfused<kBytes>([&] { sum(g, first, count, sums, pitch); });
            if constexpr (kMayBeGated<T>)
                if (gates != nullptr) run_unfused<kBytes>([&] { ThinMatmul(p, p.gate).sum(g, first, count, gates, pitch); });
            run_unfused<kBytes>([&] { store(g, first, count, sums, gates, pitch); });
        }
    }

    // Long strips read memory fast, but each thread should get one.
    void run() const {
        const int64_t most = kSums / lines() / (p.gate == nullptr ? 1 : 2);
        const int64_t wanted = ceil_div<int64_t>(many_count * p.batch, 2 * thread_count());
        const int64_t strip = std::min(most, std::max<int64_t>(ceil_div<int64_t>(wanted, 64) * 64, 64));
        const int64_t bytes = strip * (p.k + 1) * static_cast<int64_t>(sizeof(E));
        parallel_chunks(ceil_div(many_count, strip) * p.batch, grain_for(bytes), [&](int64_t begin, int64_t end) {
#if BK_ISA_DISPATCH
            if (vector_bytes() == 64) return compute<64>(strip, begin, end);
            if (vector_bytes() == 32) return compute<32>(strip, begin, end);
#endif
            compute<16>(strip, begin, end);
        });
    }
};

// Computes the GEMM if it is skinny and of a supported layout, else returns false.
template <class T>
bool multiply_thin(const Matmul<T>& p) {
    if (p.m > kThin && p.n > kThin) return false;
    const ThinMatmul<T> thin(p, p.b);
    if (!thin.is_across && thin.many.k != 1) return false;
    thin.run();
    return true;
}

}  // namespace bk
