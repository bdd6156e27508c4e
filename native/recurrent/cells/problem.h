// SPDX-License-Identifier: Apache-2.0
// Cells of recurrent layers, one layer in one or two directions. x[t] are the inputs' products and biases, W x + b, made by a
// GEMM over all tokens; s = R h + c is what the recurrence adds.
//
//   rnn              h = tanh(x + s), or relu
//   gru              r, z = sigmoid(x + s); n = tanh(x_n + r s_n); h = (1 - z) n + z h        as PyTorch has it
//   gru_reset_first  n = tanh(x_n + R_n (r h) + c_n)                                          ONNX, linear_before_reset = 0
//   lstm             i, f, o = sigmoid(x + s), g = tanh(x_g + s_g); c = f c + i g; h = o tanh(c), or P (o tanh(c))
//
// Gates are in PyTorch's order: r, z, n and i, f, g, o. Tokens at or behind a sequence's length change nothing, and have y = 0;
// in reverse the first one is the last within the length. All is f32, memory has f32, f16 or bf16.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "recurrent/block_team.h"
#include "recurrent/cells/units.h"
#include "recurrent/storage.h"

namespace bk::recurrent {

enum class Cell : int32_t { kRnnTanh, kRnnRelu, kGru, kGruResetFirst, kLstm };

constexpr int kMaxGates = 4;
constexpr int kBatchTile = BK_CUDA ? 16 : 4;  // sequences of a team

BK_HD int gates_of(Cell cell) { return cell == Cell::kLstm ? 4 : cell == Cell::kGru || cell == Cell::kGruResetFirst ? 3 : 1; }
// Values that a token saves of each hidden unit: its gates, and c of an LSTM, or s_n of a GRU.
BK_HD int saved_of(Cell cell) { return gates_of(cell) + (gates_of(cell) > 1 ? 1 : 0); }

struct CellProblem {
    Cell cell;
    RowType type;
    int64_t seqlen, batch;
    int32_t directions, hidden, outputs;
    bool is_reverse;
    const void *gates, *w_hh, *b_hh, *w_hr, *h0, *c0;  // all but the first two may be null
    const int32_t* lengths;                            // or null
    void *y, *h_n, *c_n;                               // c_n may be null
    float* saved;                                      // or null

    // Workspace: matrices in f32, transposed for the forward pass, and what each team has of its sequences.
    float *recurrent, *projection;  // [directions, K, N], of whole tiles
    float* teams;

    BK_HD int gates_count() const { return gates_of(cell); }
    BK_HD int64_t gate_rows() const { return int64_t{gates_count()} * hidden; }
    BK_HD bool projects() const { return w_hr != nullptr; }
    BK_HD static int padded(int64_t x) { return static_cast<int>((x + 15) / 16 * 16); }

    // Direction 1 goes backwards, and a single one does if is_reverse.
    BK_HD bool is_backwards(int64_t direction) const { return direction == 1 || is_reverse; }
    BK_HD int64_t length(int64_t n) const {
        if (lengths == nullptr) return seqlen;
        const int64_t given = lengths[n];
        return given < 0 ? 0 : given > seqlen ? seqlen : given;
    }
    // Indices of rows [seqlen, batch, directions] and [directions, batch].
    BK_HD int64_t at_token(int64_t t, int64_t n, int64_t direction) const { return (t * batch + n) * directions + direction; }
    BK_HD int64_t at_state(int64_t n, int64_t direction) const { return direction * batch + n; }

    // Elements of an operand from `at` on; data may be null: zeros.
    struct Row {
        const void* data;
        int64_t at;
    };
    // h in front of token t.
    BK_TEAM Row previous_row(int64_t t, int64_t n, int64_t direction) const {
        const bool is_back = is_backwards(direction);
        const bool is_first = is_back ? t + 1 >= length(n) : t == 0;
        if (is_first) return {h0, at_state(n, direction) * outputs};
        return {y, at_token(is_back ? t + 1 : t - 1, n, direction) * outputs};
    }
    BK_TEAM Units previous(int64_t t, int64_t n, int64_t direction, int unit, int count) const {
        const Row row = previous_row(t, n, direction);
        return Units::load(type, row.data, row.at + unit, count);
    }
};

BK_HD float cell_tanh(float x) { return math::tanh<float>(x); }
BK_HD float cell_sigmoid(float x) { return 1.0f / (1.0f + math::exp<float>(-x)); }

// A direction and kBatchTile sequences, or as many as there are.
struct CellTile {
    int64_t direction, first;
    int rows;

    // Rows that a product computes: whole tiles on a GPU, and on the CPU one or all.
    BK_HD int product_rows() const { return !BK_CUDA && rows == 1 ? 1 : kBatchTile; }

    BK_HD static CellTile of(const CellProblem& p, int64_t item) {
        const int64_t tiles = (p.batch + kBatchTile - 1) / kBatchTile, first = item % tiles * kBatchTile;
        const int64_t left = p.batch - first;
        return {item / tiles, first, static_cast<int>(left < kBatchTile ? left : kBatchTile)};
    }
    static int64_t items(const CellProblem& p) { return p.directions * ceil_div<int64_t>(p.batch, kBatchTile); }
};

}  // namespace bk::recurrent
