// Squares of as many vectors as a vector has elements stay in registers.
#include "core/pointwise/transpose_cpu.h"

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
    Vector line[kSide];

    BK_HD void load(const Bits* from, int64_t step) {
        for (int i = 0; i < kSide; ++i) memcpy(&line[i], from + i * step, sizeof(Vector));
    }
    BK_HD void store(Bits* to, int64_t step) const {
        for (int i = 0; i < kSide; ++i) memcpy(to + i * step, &line[i], sizeof(Vector));
    }

    // Elements of `a` and `b` in turns: those from number `first` of each on.
    template <int first, int... I>
    static BK_HD Vector in_turns(const Vector& a, const Vector& b, std::integer_sequence<int, I...>) {
#if defined(__clang__)
        return __builtin_shufflevector(a, b, (first + I / 2 + I % 2 * kSide)...);
#else
        const Vector order = {static_cast<Bits>(first + I / 2 + I % 2 * kSide)...};
        return __builtin_shuffle(a, b, order);
#endif
    }

    // Each step moves a bit of the number of the line to that of the place in it.
    template <int kSteps = kSide>
    BK_HD void transpose() {
        if constexpr (kSteps > 1) {
            constexpr std::make_integer_sequence<int, kSide> all{};
            Square next;
            for (int i = 0; i < kSide / 2; ++i) {
                next.line[2 * i] = in_turns<0>(line[i], line[i + kSide / 2], all);
                next.line[2 * i + 1] = in_turns<kSide / 2>(line[i], line[i + kSide / 2], all);
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

// The last squares of a line lie over those before them, whose elements they write once more.
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
                // Lines of the next square; hardware does not look ahead beyond a page, and more may have one place in a cache.
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
