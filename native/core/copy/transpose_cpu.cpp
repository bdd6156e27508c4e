// SPDX-License-Identifier: Apache-2.0
// Block transposition by vector shuffles: a square of as many vectors as a vector has lanes stays in registers.
#include "core/copy/transpose_cpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/abi/vector_width_cpu.h"
#include "core/types/dtype.h"

namespace bk {

namespace {

template <class Bits>
struct Block {
    Bits* to;
    const Bits* from;
    int64_t to_step, from_step, rows, columns;
};

template <class Bits, int kSide>
struct Square {
    typedef Bits Vector __attribute__((vector_size(kSide * sizeof(Bits))));
    Vector row_vector[kSide];

    BK_HD void load(const Bits* from, int64_t step) {
        for (int i = 0; i < kSide; ++i) memcpy(&row_vector[i], from + i * step, sizeof(Vector));
    }
    BK_HD void store(Bits* to, int64_t step) const {
        for (int i = 0; i < kSide; ++i) memcpy(to + i * step, &row_vector[i], sizeof(Vector));
    }

    // Interleaves the lanes of `a` and `b` from `first` on.
    template <int first, int... I>
    static BK_HD Vector interleave(const Vector& a, const Vector& b, std::integer_sequence<int, I...>) {
#if defined(__clang__)
        return __builtin_shufflevector(a, b, (first + I / 2 + I % 2 * kSide)...);
#else
        const Vector order = {static_cast<Bits>(first + I / 2 + I % 2 * kSide)...};
        return __builtin_shuffle(a, b, order);
#endif
    }

    // Each step exchanges one bit of the row index for one of the column index.
    template <int kSteps = kSide>
    BK_HD void transpose() {
        if constexpr (kSteps > 1) {
            constexpr std::make_integer_sequence<int, kSide> all{};
            Square next;
            for (int i = 0; i < kSide / 2; ++i) {
                next.row_vector[2 * i] = interleave<0>(row_vector[i], row_vector[i + kSide / 2], all);
                next.row_vector[2 * i + 1] = interleave<kSide / 2>(row_vector[i], row_vector[i + kSide / 2], all);
            }
            *this = next;
            transpose<kSteps / 2>();
        }
    }
};

template <class Bits>
BK_HD void transpose_elements(const Block<Bits>& b) {
    for (int64_t r = 0; r < b.rows; ++r)
        for (int64_t c = 0; c < b.columns; ++c) b.to[r * b.to_step + c] = b.from[c * b.from_step + r];
}

// The last squares of a row or column overlap those before them and rewrite the same elements.
template <int kBytes, class Bits>
void transpose_block(const Block<Bits>& b) {
    constexpr int kSide = std::min<int>(16, kBytes / static_cast<int>(sizeof(Bits)));
    run_unfused<kBytes>([&] {
        if (b.rows < kSide || b.columns < kSide) return transpose_elements(b);
        for (int64_t row = 0; row < b.rows; row += kSide)
            for (int64_t column = 0; column < b.columns; column += kSide) {
                const int64_t r = std::min(row, b.rows - kSide), c = std::min(column, b.columns - kSide);
                Square<Bits, kSide> square;
                square.load(b.from + c * b.from_step + r, b.from_step);
                // Prefetches the next square: hardware prefetchers stop at page ends, and large pitches map rows to the
                // same cache set.
                for (int i = 0; i < kSide; ++i) __builtin_prefetch(b.from + (c + kSide + i) * b.from_step + r);
                square.transpose();
                square.store(b.to + r * b.to_step + c, b.to_step);
            }
    });
}

template <class Bits>
void transpose_bits(const Block<Bits>& b) {
    switch (vector_bytes()) {
        case 64: return transpose_block<64>(b);
        case 32: return transpose_block<32>(b);
        default: return transpose_block<16>(b);
    }
}

}  // namespace

void transpose(int bytes, void* to, int64_t to_step, const void* from, int64_t from_step, int64_t rows, int64_t columns) {
    const auto run = [&](auto bits) {
        using Bits = decltype(bits);
        transpose_bits(Block<Bits>{static_cast<Bits*>(to), static_cast<const Bits*>(from), to_step, from_step, rows, columns});
    };
    switch (bytes) {
        case 1: return run(uint8_t{});
        case 2: return run(uint16_t{});
        case 4: return run(uint32_t{});
        default: return run(uint64_t{});
    }
}

}  // namespace bk
