// SPDX-License-Identifier: Apache-2.0
// Operand tiles in shared memory for mma.sync: kRows rows of A or columns of B by 64 bytes along k.
//
// A tile keeps its operand's memory order, so that copies take 16 bytes: K-major, or MN-major (contiguous across k).
// Its 16-byte vectors are XOR-swizzled against bank conflicts.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/intrinsics/tensor_core.cuh"
#include "gemm/matmul.h"

namespace bk {

constexpr int kMatmulDepth = 64;  // bytes along k
constexpr int kMatmulSteps = 2;   // of 32 bytes
constexpr int kMatmulThreads = 128;
constexpr int kCopyBytes = 16;

// Loads of an operand: by 16-byte copies, K-major or MN-major; or, for any strides and alignment, into a K-major
// tile: by copies if it is K-major, transposed by fours if it is MN-major bytes, else element by element.
enum class LoadMode { kKMajor, kMnMajor, kElements };

// One operand of a GEMM, `rows` rows of A or columns of B; [r, k] is at r * row + k * column elements.
template <class E>
struct OperandView {
    const E* data;
    int64_t rows, depth, row, column;

    // Returns one element, or a byte of packed ones along k; if B is packed along n, its bits come from several bytes.
    BK_DEVICE E at(int64_t r, int64_t k) const {
        if constexpr (kElementsPerByte<E> > 1) {
            if (row == 0) {
                constexpr int kCount = kElementsPerByte<E>, kBits = 8 / kCount;
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

BK_DEVICE int k_major_offset(int row, int vector) {
    return row * kMatmulDepth + (vector ^ (row & 2) ^ (row >> 2 & 1)) * kCopyBytes;
}

template <class E, int kRows>
BK_DEVICE int mn_major_offset(int k, int vector) {
    const int swizzle = sizeof(E) == 2 ? k & 7 : (k & 3) << 1;
    return k * kRows * static_cast<int>(sizeof(E)) + (vector ^ swizzle) * kCopyBytes;
}

// Transposes 4 x 4 bytes: byte i of word j becomes byte j of word i.
BK_DEVICE void transpose_bytes(uint32_t (&word)[4]) {
    const uint32_t low = __byte_perm(word[0], word[1], 0x5140), low_other = __byte_perm(word[2], word[3], 0x5140);
    const uint32_t high = __byte_perm(word[0], word[1], 0x7362), high_other = __byte_perm(word[2], word[3], 0x7362);
    word[0] = __byte_perm(low, low_other, 0x5410);
    word[1] = __byte_perm(low, low_other, 0x7632);
    word[2] = __byte_perm(high, high_other, 0x5410);
    word[3] = __byte_perm(high, high_other, 0x7632);
}

BK_DEVICE int bytes_left(int64_t elements, int size) {
    return elements <= 0 ? 0 : elements * size < kCopyBytes ? static_cast<int>(elements) * size : kCopyBytes;
}

// A thread's share of loading tiles; vectors outside the operand are zeros. If kMayHaveGate and `gate` is not null, the
// upper half of the tile's rows comes from it, beginning at `first` too.
template <class E, int kRows, LoadMode kMode, bool kMayHaveGate = false>
class TileLoader {
    static constexpr int kSize = static_cast<int>(sizeof(E));
    static constexpr int kDepth = kMatmulDepth / kSize;  // elements along k
    static constexpr int kVectorLanes = kCopyBytes / kSize;
    static constexpr int kVectors =
        kMode == LoadMode::kMnMajor ? kRows * kSize / kCopyBytes : kMatmulDepth / kCopyBytes;  // of a tile row
    static constexpr int kCopies = kRows * kMatmulDepth / kCopyBytes / kMatmulThreads;
    static constexpr int kRowsAtOnce = kMatmulThreads / kVectors;  // tile rows loaded at once
    static constexpr bool kMayTranspose =
        kMode == LoadMode::kElements && kSize == 1 && kElementsPerByte<E> == 1 && !kMayHaveGate;
    static constexpr int kTransposedRows = 8;  // rows of a thread at once, by four K elements

public:
    BK_DEVICE TileLoader(const OperandView<E>& source, int64_t first, int thread, const E* gate = nullptr)
        : source_(source),
          data_(source.data + first * source.row),
          first_(first),
          rows_left_(static_cast<int>(source.rows - first < kRows ? source.rows - first : kRows)),
          row_(thread / kVectors),
          vector_(thread % kVectors),
          gate_(gate) {
        if constexpr (kMayHaveGate) {
            const bool has_gate = gate != nullptr;
            upper_ = has_gate ? gate + (first - kRows / 2) * source.row : data_;
            upper_rows_left_ = has_gate ? rows_left_ + kRows / 2 : rows_left_;
            if (kMode == LoadMode::kMnMajor && vector_ >= kVectors / 2) {  // always in the upper half
                data_ = upper_;
                rows_left_ = upper_rows_left_;
            }
        }
        if constexpr (kMode == LoadMode::kElements) {
            const auto address = reinterpret_cast<uintptr_t>(source.data);
            const bool is_k_major = source.column == 1 && (kElementsPerByte<E> == 1 || source.row != 0);
            if (is_k_major && address % kCopyBytes == 0 && source.row * kSize % kCopyBytes == 0 && gate == nullptr)
                fill_ = Fill::kCopied;
            else if (kMayTranspose && source.row == 1 && address % kTransposedRows == 0 && source.column % kTransposedRows == 0)
                fill_ = Fill::kTransposed;
            if constexpr (kMayTranspose)
                if (fill_ == Fill::kTransposed) load_transposed(0);
        }
    }

    // Loads tile number `tile` along k; calls must be in order.
    BK_DEVICE void fill(char* to, int64_t tile) {
        const int64_t k0 = tile * kDepth;
        if (kMode == LoadMode::kElements && fill_ != Fill::kCopied) {
            if constexpr (kMayTranspose)
                if (fill_ == Fill::kTransposed) {
                    store_transposed(to);
                    load_transposed(k0 + kDepth);
                    return;
                }
            fill_elements(to, k0);
        } else {
#pragma unroll
            for (int i = 0; i < kCopies; ++i) {
                const int tile_row = row_ + i * kRowsAtOnce;
                int bytes;
                const E* from;
                if constexpr (kMode != LoadMode::kMnMajor) {
                    const bool is_upper = kMayHaveGate && i >= kCopies / 2;
                    const int64_t k = k0 + vector_ * kVectorLanes;
                    bytes = tile_row < (is_upper ? upper_rows_left_ : rows_left_) ? bytes_left(source_.depth - k, kSize) : 0;
                    from = (is_upper ? upper_ : data_) + tile_row * source_.row + k;
                } else {
                    const int64_t k = k0 + tile_row;
                    const int r = vector_ * kVectorLanes;
                    bytes = k < source_.depth ? bytes_left(rows_left_ - r, kSize) : 0;
                    from = data_ + k * source_.column + r;
                }
                const int offset = kMode != LoadMode::kMnMajor ? k_major_offset(tile_row, vector_)
                                                               : mn_major_offset<E, kRows>(tile_row, vector_);
                start_copy_16(to + offset, bytes == 0 ? source_.data : from, bytes);
            }
        }
    }

private:
    enum class Fill { kOneByOne, kCopied, kTransposed };  // how a tile is loaded by elements

    // A thread transposes four K elements of eight rows, which are contiguous in memory; a warp covers 32 rows by 32 K
    // elements. The loads of a tile are issued one tile ahead.
    static constexpr int kUnits = kRows / kTransposedRows * (kMatmulDepth / 4) / kMatmulThreads;
    BK_DEVICE void transpose_indices(int unit, int* row, int* four) const {
        const int thread = row_ * kVectors + vector_, index = unit * kMatmulThreads + thread, high = index / 32;
        *row = (index % 4 + high % (kRows / 32) * 4) * kTransposedRows;
        *four = index / 4 % 8 + high / (kRows / 32) * 8;
    }
    BK_DEVICE void load_transposed(int64_t k0) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
            int row, four;
            transpose_indices(unit, &row, &four);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int64_t k = k0 + four * 4 + j;
                const E* const from = data_ + row + k * source_.column;
                uint2 bytes{0, 0};
                if (k < source_.depth && rows_left_ - row >= kTransposedRows) {
                    bytes = *reinterpret_cast<const uint2*>(from);
                } else if (k < source_.depth) {
                    for (int i = 0; i < rows_left_ - row; ++i)
                        (i < 4 ? bytes.x : bytes.y) |= uint32_t{bit_cast<uint8_t>(from[i])} << i % 4 * 8;
                }
                prefetched_.word[unit][0][j] = bytes.x;
                prefetched_.word[unit][1][j] = bytes.y;
            }
        }
    }
    BK_DEVICE void store_transposed(char* to) {
#pragma unroll
        for (int unit = 0; unit < kUnits; ++unit) {
            int row, four;
            transpose_indices(unit, &row, &four);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t (&word)[4] = prefetched_.word[unit][half];
                transpose_bytes(word);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    *reinterpret_cast<uint32_t*>(to + k_major_offset(row + half * 4 + i, four / 4) + four % 4 * 4) = word[i];
            }
        }
    }

    // Adjacent threads load adjacent elements.
    BK_DEVICE void fill_elements(char* to, int64_t k0) const {
        const bool is_mn_major = kElementsPerByte<E> > 1 ? source_.row == 0 : source_.row == 1;
        const int thread = row_ * kVectors + vector_;
#pragma unroll 1
        for (int i = 0; i < kCopies; ++i) {
            const int index = thread + i * kMatmulThreads;
            const int tile_row = is_mn_major ? index % kRows : index / kVectors,
                      vector = is_mn_major ? index / kRows : index % kVectors;
            const bool is_gate = kMayHaveGate && gate_ != nullptr && tile_row >= kRows / 2;
            const int64_t r = first_ + (is_gate ? tile_row - kRows / 2 : tile_row), k = k0 + vector * kVectorLanes;
            OperandView<E> source = source_;
            if (is_gate) source.data = gate_;
            E element[kVectorLanes];
#pragma unroll
            for (int lane = 0; lane < kVectorLanes; ++lane) {
                element[lane] = E{};
                if (r < source.rows && k + lane < source.depth) element[lane] = source.at(r, k + lane);
            }
            E* const dst = reinterpret_cast<E*>(to + k_major_offset(tile_row, vector));
#pragma unroll
            for (int lane = 0; lane < kVectorLanes; ++lane) dst[lane] = element[lane];
        }
    }

    OperandView<E> source_;
    const E *data_, *upper_ = nullptr;  // the tile's first row, and the base of its upper half
    int64_t first_;
    int rows_left_, upper_rows_left_ = 0;  // rows from there on
    int row_, vector_;
    const E* gate_;
    Fill fill_ = Fill::kOneByOne;
    struct Words {
        uint32_t word[kUnits][2][4];
    };
    struct NoWords {};
    std::conditional_t<kMayTranspose, Words, NoWords> prefetched_;
};

template <class E>
BK_DEVICE uint32_t word_at(const char* address) {
    return *reinterpret_cast<const uint32_t*>(address);
}

// Address of element [row, k] in an MN-major tile.
template <class E, int kRows>
BK_DEVICE const char* mn_major_element(const char* tile, int k, int row) {
    constexpr int lanes = kCopyBytes / static_cast<int>(sizeof(E));
    return tile + mn_major_offset<E, kRows>(k, row / lanes) + row % lanes * static_cast<int>(sizeof(E));
}

// Loads the fragment of rows [row, row + 16) of A for K step `step`.
template <class E, int kRows, bool kIsMnMajor>
BK_DEVICE void load_a(uint32_t (&a)[4], const char* tile, int row, int step, int lane) {
    const int g = lane / 4, t = lane % 4;
    if constexpr (sizeof(E) == 8) {
        for (int half = 0; half < 2; ++half) {
            const int r = row + g + 8 * half;
            const char* const address = kIsMnMajor ? mn_major_element<E, kRows>(tile, 4 * step + t, r)
                                                   : tile + k_major_offset(r, 2 * step + t / 2) + t % 2 * 8;
            const uint2 words = *reinterpret_cast<const uint2*>(address);
            a[2 * half] = words.x;
            a[2 * half + 1] = words.y;
        }
    } else if constexpr (!kIsMnMajor) {
        ldmatrix_x4(a, tile + k_major_offset(row + lane % 16, 2 * step + lane / 16));
    } else if constexpr (sizeof(E) == 2) {
        const int k = 16 * step + lane % 8 + lane / 16 * 8, vector = row / 8 + lane / 8 % 2;
        ldmatrix_x4_trans(a, tile + mn_major_offset<E, kRows>(k, vector));
    } else {
        for (int i = 0; i < 4; ++i)
            a[i] = word_at<E>(mn_major_element<E, kRows>(tile, 8 * step + t + i / 2 * 4, row + g + i % 2 * 8));
    }
}

// Loads the two fragments of columns [column, column + 16) of B for K step `step`.
template <class E, int kRows, bool kIsMnMajor>
BK_DEVICE void load_b(uint32_t (&b)[2][2], const char* tile, int column, int step, int lane) {
    const int g = lane / 4, t = lane % 4;
    if constexpr (sizeof(E) == 8) {
        for (int half = 0; half < 2; ++half) {
            const int c = column + g + 8 * half;
            const char* const address = kIsMnMajor ? mn_major_element<E, kRows>(tile, 4 * step + t, c)
                                                   : tile + k_major_offset(c, 2 * step + t / 2) + t % 2 * 8;
            const uint2 words = *reinterpret_cast<const uint2*>(address);
            b[half][0] = words.x;
            b[half][1] = words.y;
        }
    } else if constexpr (sizeof(E) != 2 && kIsMnMajor) {
        for (int i = 0; i < 4; ++i)
            b[i / 2][i % 2] = word_at<E>(mn_major_element<E, kRows>(tile, 8 * step + t + i % 2 * 4, column + g + i / 2 * 8));
    } else {
        uint32_t words[4];
        if constexpr (kIsMnMajor)
            ldmatrix_x4_trans(words, tile + mn_major_offset<E, kRows>(16 * step + lane % 16, column / 8 + lane / 16));
        else
            ldmatrix_x4(words, tile + k_major_offset(column + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
        for (int i = 0; i < 4; ++i) b[i / 2][i % 2] = words[i];
    }
}

}  // namespace bk
