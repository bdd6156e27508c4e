// Operand tiles in shared memory for mma.sync: kRows rows of A or columns of B by 64 bytes along k.
//
// A tile keeps its operand's memory order, so that copies take 16 bytes: K-major, or MN-major (contiguous across k).
// Its 16-byte vectors are XOR-swizzled against bank conflicts.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/matmul/tensor_core.cuh"
#include "gemm/matmul.h"

namespace bk {

constexpr int kMatmulDepth = 64;  // bytes along k
constexpr int kMatmulSteps = 2;   // of 32 bytes
constexpr int kMatmulThreads = 128;
constexpr int kChunk = 16;

// How an operand is loaded: by 16-byte copies, K-major or MN-major; or, for any strides and alignment, into a K-major
// tile: by copies if it is K-major, transposed by fours if it is MN-major bytes, else element by element.
enum class Feed { kDeep, kWide, kElements };

// One operand of a GEMM, `rows` rows of A or columns of B; [r, k] is at r * row + k * column elements.
template <class E>
struct TileSource {
    const E* data;
    int64_t rows, depth, row, column;

    // Returns one element, or a byte of packed ones along k; if B is packed along n, its bits come from several bytes.
    BK_DEVICE E at(int64_t r, int64_t k) const {
        if constexpr (kInByte<E> > 1) {
            if (row == 0) {
                constexpr int kCount = kInByte<E>, kBits = 8 / kCount;
                const E* const from = data + k * kCount * column + r / kCount;
                const int shift = static_cast<int>(r % kCount) * kBits;
                uint32_t bits = 0;
#pragma unroll
                for (int i = 0; i < kCount; ++i)
                    bits |= (static_cast<uint32_t>(from[i * column].bits) >> shift & ((1u << kBits) - 1)) << i * kBits;
                return E{static_cast<uint8_t>(bits)};
            }
        }
        return data[r * row + k * column];
    }
};

BK_DEVICE int deep_place(int row, int chunk) { return row * kMatmulDepth + (chunk ^ (row & 2) ^ (row >> 2 & 1)) * kChunk; }

template <class E, int kRows>
BK_DEVICE int wide_place(int k, int chunk) {
    const int turn = sizeof(E) == 2 ? k & 7 : (k & 3) << 1;
    return k * kRows * static_cast<int>(sizeof(E)) + (chunk ^ turn) * kChunk;
}

// Transposes 4 x 4 bytes: byte i of word j becomes byte j of word i.
BK_DEVICE void turn_bytes(uint32_t (&word)[4]) {
    const uint32_t low = __byte_perm(word[0], word[1], 0x5140), low_other = __byte_perm(word[2], word[3], 0x5140);
    const uint32_t high = __byte_perm(word[0], word[1], 0x7362), high_other = __byte_perm(word[2], word[3], 0x7362);
    word[0] = __byte_perm(low, low_other, 0x5410);
    word[1] = __byte_perm(low, low_other, 0x7632);
    word[2] = __byte_perm(high, high_other, 0x5410);
    word[3] = __byte_perm(high, high_other, 0x7632);
}

BK_DEVICE int bytes_left(int64_t elements, int size) {
    return elements <= 0 ? 0 : elements * size < kChunk ? static_cast<int>(elements) * size : kChunk;
}

// A thread's share of loading tiles; vectors outside the operand are zeros. If kMayHaveGate and `gate` is not null, the
// upper half of the tile's rows comes from it, beginning at `first` too.
template <class E, int kRows, Feed kFeed, bool kMayHaveGate = false>
class TileFeed {
    static constexpr int kSize = static_cast<int>(sizeof(E));
    static constexpr int kDepth = kMatmulDepth / kSize;  // elements along k
    static constexpr int kLanes = kChunk / kSize;
    static constexpr int kChunks = kFeed == Feed::kWide ? kRows * kSize / kChunk : kMatmulDepth / kChunk;  // of a tile row
    static constexpr int kCopies = kRows * kMatmulDepth / kChunk / kMatmulThreads;
    static constexpr int kLines = kMatmulThreads / kChunks;  // tile rows loaded at once
    static constexpr bool kMayTurn = kFeed == Feed::kElements && kSize == 1 && kInByte<E> == 1 && !kMayHaveGate;
    static constexpr int kTurnedRows = 8;  // rows of a thread at once, by four K elements

public:
    BK_DEVICE TileFeed(const TileSource<E>& source, int64_t first, int thread, const E* gate = nullptr)
        : source_(source),
          data_(source.data + first * source.row),
          first_(first),
          left_(static_cast<int>(source.rows - first < kRows ? source.rows - first : kRows)),
          line_(thread / kChunks),
          chunk_(thread % kChunks),
          gate_(gate) {
        if constexpr (kMayHaveGate) {
            const bool has_gate = gate != nullptr;
            upper_ = has_gate ? gate + (first - kRows / 2) * source.row : data_;
            upper_left_ = has_gate ? left_ + kRows / 2 : left_;
            if (kFeed == Feed::kWide && chunk_ >= kChunks / 2) {  // always in the upper half
                data_ = upper_;
                left_ = upper_left_;
            }
        }
        if constexpr (kFeed == Feed::kElements) {
            const auto address = reinterpret_cast<uintptr_t>(source.data);
            const bool is_deep = source.column == 1 && (kInByte<E> == 1 || source.row != 0);
            if (is_deep && address % kChunk == 0 && source.row * kSize % kChunk == 0 && gate == nullptr)
                way_ = Way::kCopied;
            else if (kMayTurn && source.row == 1 && address % kTurnedRows == 0 && source.column % kTurnedRows == 0)
                way_ = Way::kTurned;
            if constexpr (kMayTurn)
                if (way_ == Way::kTurned) load_turned(0);
        }
    }

    // Loads tile number `tile` along k; calls must be in order.
    BK_DEVICE void fill(char* to, int64_t tile) {
        const int64_t k0 = tile * kDepth;
        if (kFeed == Feed::kElements && way_ != Way::kCopied) {
            if constexpr (kMayTurn)
                if (way_ == Way::kTurned) {
                    store_turned(to);
                    load_turned(k0 + kDepth);
                    return;
                }
            fill_elements(to, k0);
        } else {
#pragma unroll
            for (int i = 0; i < kCopies; ++i) {
                const int line = line_ + i * kLines;
                int bytes;
                const E* from;
                if constexpr (kFeed != Feed::kWide) {
                    const bool is_upper = kMayHaveGate && i >= kCopies / 2;
                    const int64_t k = k0 + chunk_ * kLanes;
                    bytes = line < (is_upper ? upper_left_ : left_) ? bytes_left(source_.depth - k, kSize) : 0;
                    from = (is_upper ? upper_ : data_) + line * source_.row + k;
                } else {
                    const int64_t k = k0 + line;
                    const int r = chunk_ * kLanes;
                    bytes = k < source_.depth ? bytes_left(left_ - r, kSize) : 0;
                    from = data_ + k * source_.column + r;
                }
                const int place = kFeed != Feed::kWide ? deep_place(line, chunk_) : wide_place<E, kRows>(line, chunk_);
                start_copy_16(to + place, bytes == 0 ? source_.data : from, bytes);
            }
        }
    }

private:
    enum class Way { kOneByOne, kCopied, kTurned };  // how a tile is loaded by elements

    // A thread transposes four K elements of eight rows, which are contiguous in memory; a warp covers 32 rows by 32 K
    // elements. The loads of a tile are issued one tile ahead.
    static constexpr int kUnits = kRows / kTurnedRows * (kMatmulDepth / 4) / kMatmulThreads;
    BK_DEVICE void place_turned(int unit, int* row, int* four) const {
        const int thread = line_ * kChunks + chunk_, index = unit * kMatmulThreads + thread, high = index / 32;
        *row = (index % 4 + high % (kRows / 32) * 4) * kTurnedRows;
        *four = index / 4 % 8 + high / (kRows / 32) * 8;
    }
    BK_DEVICE void load_turned(int64_t k0) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
            int row, four;
            place_turned(unit, &row, &four);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int64_t k = k0 + four * 4 + j;
                const E* const from = data_ + row + k * source_.column;
                uint2 bytes{0, 0};
                if (k < source_.depth && left_ - row >= kTurnedRows) {
                    bytes = *reinterpret_cast<const uint2*>(from);
                } else if (k < source_.depth) {
                    for (int i = 0; i < left_ - row; ++i)
                        (i < 4 ? bytes.x : bytes.y) |= uint32_t{bit_cast<uint8_t>(from[i])} << i % 4 * 8;
                }
                ahead_.word[unit][0][j] = bytes.x;
                ahead_.word[unit][1][j] = bytes.y;
            }
        }
    }
    BK_DEVICE void store_turned(char* to) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
            int row, four;
            place_turned(unit, &row, &four);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t (&word)[4] = ahead_.word[unit][half];
                turn_bytes(word);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    *reinterpret_cast<uint32_t*>(to + deep_place(row + half * 4 + i, four / 4) + four % 4 * 4) = word[i];
            }
        }
    }

    // Adjacent threads load adjacent elements.
    BK_DEVICE void fill_elements(char* to, int64_t k0) const {
        const bool is_wide = kInByte<E> > 1 ? source_.row == 0 : source_.row == 1;
        const int thread = line_ * kChunks + chunk_;
#pragma unroll 1
        for (int i = 0; i < kCopies; ++i) {
            const int index = thread + i * kMatmulThreads;
            const int line = is_wide ? index % kRows : index / kChunks, chunk = is_wide ? index / kRows : index % kChunks;
            const bool is_gate = kMayHaveGate && gate_ != nullptr && line >= kRows / 2;
            const int64_t r = first_ + (is_gate ? line - kRows / 2 : line), k = k0 + chunk * kLanes;
            TileSource<E> source = source_;
            if (is_gate) source.data = gate_;
            E element[kLanes];
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane) {
                element[lane] = E{};
                if (r < source.rows && k + lane < source.depth) element[lane] = source.at(r, k + lane);
            }
            E* const place = reinterpret_cast<E*>(to + deep_place(line, chunk));
#pragma unroll
            for (int lane = 0; lane < kLanes; ++lane) place[lane] = element[lane];
        }
    }

    TileSource<E> source_;
    const E *data_, *upper_ = nullptr;  // the tile's first row, and the base of its upper half
    int64_t first_;
    int left_, upper_left_ = 0;  // rows from there on
    int line_, chunk_;
    const E* gate_;
    Way way_ = Way::kOneByOne;
    struct Words {
        uint32_t word[kUnits][2][4];
    };
    struct NoWords {};
    std::conditional_t<kMayTurn, Words, NoWords> ahead_;
};

template <class E>
BK_DEVICE uint32_t word_at(const char* place) {
    return *reinterpret_cast<const uint32_t*>(place);
}

// Address of element [row, k] in an MN-major tile.
template <class E, int kRows>
BK_DEVICE const char* wide_element(const char* tile, int k, int row) {
    constexpr int lanes = kChunk / static_cast<int>(sizeof(E));
    return tile + wide_place<E, kRows>(k, row / lanes) + row % lanes * static_cast<int>(sizeof(E));
}

// Loads the fragment of rows [row, row + 16) of A for K step `step`.
template <class E, int kRows, bool kIsWide>
BK_DEVICE void load_a(uint32_t (&a)[4], const char* tile, int row, int step, int lane) {
    const int g = lane / 4, t = lane % 4;
    if constexpr (sizeof(E) == 8) {
        for (int half = 0; half < 2; ++half) {
            const int r = row + g + 8 * half;
            const char* const place =
                kIsWide ? wide_element<E, kRows>(tile, 4 * step + t, r) : tile + deep_place(r, 2 * step + t / 2) + t % 2 * 8;
            const uint2 words = *reinterpret_cast<const uint2*>(place);
            a[2 * half] = words.x;
            a[2 * half + 1] = words.y;
        }
    } else if constexpr (!kIsWide) {
        load_matrices(a, tile + deep_place(row + lane % 16, 2 * step + lane / 16));
    } else if constexpr (sizeof(E) == 2) {
        const int k = 16 * step + lane % 8 + lane / 16 * 8, chunk = row / 8 + lane / 8 % 2;
        load_matrices_turned(a, tile + wide_place<E, kRows>(k, chunk));
    } else {
        for (int i = 0; i < 4; ++i)
            a[i] = word_at<E>(wide_element<E, kRows>(tile, 8 * step + t + i / 2 * 4, row + g + i % 2 * 8));
    }
}

// Loads the two fragments of columns [column, column + 16) of B for K step `step`.
template <class E, int kRows, bool kIsWide>
BK_DEVICE void load_b(uint32_t (&b)[2][2], const char* tile, int column, int step, int lane) {
    const int g = lane / 4, t = lane % 4;
    if constexpr (sizeof(E) == 8) {
        for (int half = 0; half < 2; ++half) {
            const int c = column + g + 8 * half;
            const char* const place =
                kIsWide ? wide_element<E, kRows>(tile, 4 * step + t, c) : tile + deep_place(c, 2 * step + t / 2) + t % 2 * 8;
            const uint2 words = *reinterpret_cast<const uint2*>(place);
            b[half][0] = words.x;
            b[half][1] = words.y;
        }
    } else if constexpr (sizeof(E) != 2 && kIsWide) {
        for (int i = 0; i < 4; ++i)
            b[i / 2][i % 2] = word_at<E>(wide_element<E, kRows>(tile, 8 * step + t + i % 2 * 4, column + g + i / 2 * 8));
    } else {
        uint32_t words[4];
        if constexpr (kIsWide)
            load_matrices_turned(words, tile + wide_place<E, kRows>(16 * step + lane % 16, column / 8 + lane / 16));
        else
            load_matrices(words, tile + deep_place(column + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
        for (int i = 0; i < 4; ++i) b[i / 2][i % 2] = words[i];
    }
}

}  // namespace bk
