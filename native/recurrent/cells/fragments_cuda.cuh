// SPDX-License-Identifier: Apache-2.0
// Products of a time step by tensor cores, from operands in the order of their fragments: a lane loads 16 bytes at a time, and
// a warp whole cache lines.
//
// A fragment has 16 elements of K; lane 4 g + t has elements 4t to 4t + 3: in the matrix of rows g and g + 8 of 16, in the
// operand, which is f32, of sequence g of eight. Warps share out K.
#pragma once

#include <type_traits>

#include "core/gather/bypass_l1.cuh"
#include "core/intrinsics/dependent_launch.cuh"
#include "core/intrinsics/tensor_core.cuh"
#include "core/types/dtype.h"
#include "recurrent/cells/steps.h"
#include "recurrent/tile_product_cuda.cuh"

namespace bk::recurrent {

constexpr int kStepThreads = 256, kStepWarps = kStepThreads / 32;

// 16-byte words that a lane has of 16 x 16 elements of the matrix.
template <class E>
constexpr int kMatrixWords = sizeof(E) / 2;

// Whether tensor cores multiply in f32. Gradients, and states behind relu or a projection, may leave the range of f16.
inline bool multiplies_f32(const CellProblem& p, bool is_forward) {
    const bool is_bounded = is_forward && p.cell != Cell::kRnnRelu && !p.projects();
    return p.type == RowType::kF32 || (p.type == RowType::kF16 && !is_bounded);
}

// body(E{}) for the element that tensor cores multiply.
template <class Body>
Status with_step_element(const CellProblem& p, bool is_forward, const Body& body) {
    if (multiplies_f32(p, is_forward)) return body(float{});
    return p.type == RowType::kF16 ? body(f16{}) : body(bf16{});
}

// A matrix [directions, gates, rows, columns] as fragments: [directions, row blocks, column blocks, gates], with K along
// columns, or, transposed, [directions, column blocks, gates, row blocks].
struct PackFragments {
    RowType type;
    const void* from;
    void* to;
    int32_t directions, gates, rows, columns;
    bool is_wide, is_transposed;

    BK_HD int64_t row_blocks() const { return CellProblem::padded(rows) / 16; }
    BK_HD int64_t column_blocks() const { return CellProblem::padded(columns) / 16; }
    int64_t items() const { return directions * row_blocks() * column_blocks() * gates; }
    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t k_blocks = is_transposed ? row_blocks() : column_blocks(),
                      m_blocks = is_transposed ? column_blocks() : row_blocks();
        const int64_t within = item % (k_blocks * gates), first = item / (k_blocks * gates) % m_blocks * 16;
        const int64_t gate = is_transposed ? within / k_blocks : within % gates;
        const int64_t first_k = (is_transposed ? within % k_blocks : within / gates) * 16;
        const int64_t first_row = (item / (k_blocks * gates * m_blocks) * gates + gate) * rows;
        with_type(type, from, [&](const auto* matrix) {
            using T = std::remove_const_t<std::remove_reference_t<decltype(*matrix)>>;
            for (int i = team.rank; i < 256; i += team.size) {
                // Element v of lane and row: in 16 bits a lane's 16 bytes have four of two rows, in f32 two.
                const int lane = is_wide ? i / 4 % 32 : i / 8, half = is_wide ? i % 2 : i / 2 % 2;
                const int v = is_wide ? i / 128 * 2 + i / 2 % 2 : i / 4 % 2 * 2 + i % 2;
                const int64_t m = first + lane / 4 + 8 * half, k = first_k + lane % 4 * 4 + v;
                const int64_t row = is_transposed ? k : m, column = is_transposed ? m : k;
                const bool is_in = row < rows && column < columns;
                const int64_t element = (first_row + row) * columns + column, at = item * 256 + i;
                if (is_wide)
                    static_cast<float*>(to)[at] = is_in ? widen(matrix[element]) : 0.0f;
                else
                    static_cast<T*>(to)[at] = is_in ? matrix[element] : T{};
            }
        });
    }
};

// The matrices of a layer.
inline Status pack_steps(const Launch& launch, const CellProblem& p, const StepBuffers& b, bool is_forward) {
    const bool is_wide = multiplies_f32(p, is_forward);
    const PackFragments recurrent{p.type,   p.w_hh,    b.recurrent, p.directions, p.gates_count(),
                                  p.hidden, p.outputs, is_wide,     !is_forward};
    BK_TRY(run_teams(launch, recurrent.items(), 4096, recurrent));
    if (!p.projects()) return Status::kOk;
    const PackFragments projection{p.type, p.w_hr, b.projection, p.directions, 1, p.outputs, p.hidden, is_wide, !is_forward};
    return run_teams(launch, projection.items(), 4096, projection);
}

// Index of element k of sequence n in an operand; there are `row_blocks` blocks of eight sequences.
BK_HD int64_t operand_index(int64_t row_blocks, int64_t k, int64_t n) {
    return ((k / 16 * row_blocks + n / 8) * 32 + n % 8 * 4 + k % 16 / 4) * 4 + k % 4;
}

// Numbers of f32 as sums of elements of 16 bits: three of bf16, whose 24 bits are all, or two of f16, which have 22 within
// f16's range. Infinities have no residual.
template <class E>
constexpr int kParts = std::is_same_v<E, bf16> ? 3 : 2;

// Words of a pair of adjacent elements.
template <class E>
BK_DEVICE void split_pair(uint32_t first, uint32_t second, uint32_t* words, int pitch) {
    float x[2] = {bit_cast<float>(first), bit_cast<float>(second)};
    BK_UNROLL
    for (int part = 0; part < kParts<E>; ++part) {
        float rest[2];
        if constexpr (std::is_same_v<E, bf16>) {  // by truncation, which is exact and does not overflow
            words[part * pitch] = __byte_perm(bit_cast<uint32_t>(x[0]), bit_cast<uint32_t>(x[1]), 0x7632);
            for (int i = 0; i < 2; ++i) rest[i] = x[i] - bit_cast<float>(bit_cast<uint32_t>(x[i]) & 0xffff0000u);
        } else {
            const E halves[2] = {narrow<E>(x[0]), narrow<E>(x[1])};
            words[part * pitch] = uint32_t{halves[1].bits} << 16 | halves[0].bits;
            for (int i = 0; i < 2; ++i) rest[i] = x[i] - widen(halves[i]);
        }
        for (int i = 0; i < 2; ++i) x[i] = part > 0 || rest[i] - rest[i] == 0.0f ? rest[i] : 0.0f;
    }
}

// sums += m b for up to kMost fragments of the matrix, of 16 rows, and kTiles of the operand, of eight sequences.
template <class E, int kTiles, int kMost>
struct StepProduct {
    static constexpr int kRows = 8 * kTiles, kPitch = kStepUnits + 4, kWords = kMatrixWords<E>;
    static constexpr int kTileFloats = kRows * kPitch, kPartialFloats = kMost * kTileFloats;
    static constexpr int kFloats = kStepWarps / 2 * kPartialFloats;

    struct Source {
        const uint4* matrix;   // of fragment 0
        int64_t matrix_step;   // from a K block to the next, in 16-byte words
        int64_t tile_step;     // from a tile to the next
        const uint4* operand;  // of the first eight sequences
        int64_t operand_step;
        int tiles, depth;  // K blocks
    };
    struct Words {
        uint4 matrix[kMost][kWords], operand[kTiles];

        BK_DEVICE void load_matrix(const Source& s, int block, int lane) {
            const uint4* const from = s.matrix + block * s.matrix_step + lane;
            BK_UNROLL
            for (int m = 0; m < kMost; ++m)
                if (m < s.tiles) {
                    BK_UNROLL
                    for (int w = 0; w < kWords; ++w) matrix[m][w] = load_bypass_l1(from + m * s.tile_step + w * 32);
                }
        }
        BK_DEVICE void load_operand(const Source& s, int block, int lane, int n) {
            operand[n] = load_bypass_l1(s.operand + block * s.operand_step + n * 32 + lane);
        }
        BK_DEVICE void load_operands(const Source& s, int block, int lane) {
            BK_UNROLL
            for (int n = 0; n < kTiles; ++n) load_operand(s, block, lane, n);
        }
    };

    float sum[kMost][kTiles][4];

    // Waits for the kernel before, which has written the operand. Then the partial sums of four pairs of warps are in
    // `partials`, [4, tiles, sequences, pitch].
    BK_DEVICE void run(const Source& s, float* partials) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        BK_UNROLL
        for (int i = 0; i < kMost * kTiles * 4; ++i) sum[i / (kTiles * 4)][i / 4 % kTiles][i % 4] = 0.0f;
        Words next{};
        if (warp < s.depth) next.load_matrix(s, warp, lane);
        wait_for_previous_kernel();
        allow_next_kernel();
        if (warp < s.depth) next.load_operands(s, warp, lane);
        for (int block = warp; block < s.depth; block += kStepWarps) {
            uint4 matrix[kMost][kWords];
            BK_UNROLL
            for (int i = 0; i < kMost * kWords; ++i) matrix[i / kWords][i % kWords] = next.matrix[i / kWords][i % kWords];
            const bool has_next = block + kStepWarps < s.depth;
            if (has_next) next.load_matrix(s, block + kStepWarps, lane);
            if constexpr (std::is_same_v<E, float>) {
                uint4 operand[kTiles];
                BK_UNROLL
                for (int n = 0; n < kTiles; ++n) operand[n] = next.operand[n];
                if (has_next) next.load_operands(s, block + kStepWarps, lane);
                multiply_f32(s.tiles, matrix, operand);
            } else {
                BK_UNROLL
                for (int n = 0; n < kTiles; ++n) {
                    const uint4 operand = next.operand[n];
                    if (has_next) next.load_operand(s, block + kStepWarps, lane, n);
                    multiply(s.tiles, matrix, operand, n);
                }
            }
        }
        float* const own = partials + warp % (kStepWarps / 2) * kPartialFloats;
        if (warp >= kStepWarps / 2) store(s.tiles, own, lane, false);
        __syncthreads();
        if (warp < kStepWarps / 2) store(s.tiles, own, lane, true);
        __syncthreads();
    }

    // The sum of a tile's row and sequence.
    BK_DEVICE static float total(const float* partials, int tile, int row, int unit) {
        const float* const from = partials + tile * kTileFloats + row * kPitch + unit;
        static_assert(kStepWarps == 8, "four partial sums");
        return (from[0] + from[kPartialFloats]) + (from[2 * kPartialFloats] + from[3 * kPartialFloats]);
    }

private:
    // Each element is split once: sequences are the inner loop.
    BK_DEVICE void multiply_f32(int tiles, const uint4 (&matrix)[kMost][kWords], const uint4 (&operand)[kTiles]) {
        BK_UNROLL
        for (int w = 0; w < kWords; ++w) {
            uint32_t high[kTiles][2], low[kTiles][2];
            BK_UNROLL
            for (int n = 0; n < kTiles; ++n) {
                split(w == 0 ? operand[n].x : operand[n].z, &high[n][0], &low[n][0]);
                split(w == 0 ? operand[n].y : operand[n].w, &high[n][1], &low[n][1]);
            }
            BK_UNROLL
            for (int m = 0; m < kMost; ++m) {
                if (m >= tiles) continue;
                const uint4& of = matrix[m][w];
                uint32_t words[4], rest[4];
                split(of.x, &words[0], &rest[0]);
                split(of.y, &words[1], &rest[1]);
                split(of.z, &words[2], &rest[2]);
                split(of.w, &words[3], &rest[3]);
                BK_UNROLL
                for (int n = 0; n < kTiles; ++n) Mma<float>::run(sum[m][n], rest, high[n]);
                BK_UNROLL
                for (int n = 0; n < kTiles; ++n) Mma<float>::run(sum[m][n], words, low[n]);
                BK_UNROLL
                for (int n = 0; n < kTiles; ++n) Mma<float>::run(sum[m][n], words, high[n]);
            }
        }
    }
    // The numbers of 16 bits whose sum a sequence's operand is, smallest first.
    BK_DEVICE void multiply(int tiles, const uint4 (&matrix)[kMost][kWords], const uint4& operand, int n) {
        uint32_t parts[kParts<E>][2];
        split_pair<E>(operand.x, operand.y, &parts[0][0], 2);
        split_pair<E>(operand.z, operand.w, &parts[0][1], 2);
        BK_UNROLL
        for (int part = kParts<E> - 1; part >= 0; --part) {
            BK_UNROLL
            for (int m = 0; m < kMost; ++m) {
                if (m >= tiles) continue;
                const uint4& of = matrix[m][0];
                const uint32_t words[4] = {of.x, of.y, of.z, of.w};
                Mma<E>::run(sum[m][n], words, parts[part]);
            }
        }
    }
    BK_DEVICE static void split(uint32_t bits, uint32_t* high, uint32_t* low) {
        const SplitWord word = SplitWord::of(bit_cast<float>(bits));
        *high = word.high;
        *low = word.low;
    }
    BK_DEVICE void store(int tiles, float* own, int lane, bool adds) const {
        BK_UNROLL
        for (int m = 0; m < kMost; ++m) {
            if (m >= tiles) continue;
            BK_UNROLL
            for (int i = 0; i < kTiles * 4; ++i) {
                const int n = i / 4, e = i % 4;
                float* const to = own + m * kTileFloats + (8 * n + lane % 4 * 2 + e % 2) * kPitch + lane / 4 + e / 2 * 8;
                *to = adds ? *to + sum[m][n][e] : sum[m][n][e];
            }
        }
    }
};

}  // namespace bk::recurrent
