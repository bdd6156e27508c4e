// SPDX-License-Identifier: Apache-2.0
// Recurrences of a matrix state S [d_k, d_v], one for each sequence and head, and their chunks:
//
//   gated    S = diag(e^g) S + k v^T                           gated linear attention (Yang et al. 2023), retention, RWKV-6
//   delta    S = e^g S + k (beta (v - (e^g S)^T k))^T          gated delta rule (Yang et al. 2024); without g the delta rule
//   rwkv7    S = diag(e^g) S + b (S^T a)^T + k v^T             RWKV-7 (Peng et al. 2025)
//   y = scale S^T q, of the new S; with `bonus` u, y = scale (S_old^T q + (q . u k) v)
//
// Time is cut into chunks of C tokens. With G the sum of g from the chunk's start and S_0 the state there,
//   E = solved rows: delta E = v - u, rwkv7 E = u, where u_t = a_t^T e^G S_0 + sum over s < t of the rows' products
//   y = q e^G S_0 + (Q K) V + (Q B) E,   S_C = e^{G_C} S_0 + sum of k_s e^{G_C - G_s} v_s + b_s e^{G_C - G_s} E_s
// where (X Y)[t, s] = sum over d of x[t, d] y[s, d] e^{G[t, d] - G[s, d]}: exponents are differences, which do not overflow.
// The delta rule has the values beta E for V, and no rows b. Rows solve a unit lower triangular system, by its inverse (the
// WY representation of Bischof and Van Loan 1987). All is f32; memory has f32, f16 or bf16 rows, and states of f32.
#pragma once

#include <cstdint>

#include "core/math/math.h"
#include "recurrent/block_team.h"
#include "recurrent/storage.h"

namespace bk::recurrent {

enum class Rule : int32_t { kGated, kDelta, kRwkv7 };

constexpr int kColumns = 32;           // columns of the state that a team has
constexpr int kMaxKeyWidth = 256;      // of d_k
constexpr int kPad = 4;                // floats behind the rows of a tile: banks
constexpr float kLeastGate = -128.0f;  // e^-128 is 0 in f32; -inf, which forgets all, would give NaN as a difference
constexpr float kNormEps = 1e-6f;      // of q and k of unit length

// Rows in [begin(n), end(n)) are those of sequence n. Offsets do not descend, and are at most `rows` (offsets.h).
struct Sequences {
    int64_t count, seqlen, rows;
    int32_t chunk;
    const int32_t* offsets;  // or null: sequences of seqlen rows

    BK_HD int64_t begin(int64_t n) const { return offsets == nullptr ? n * seqlen : int64_t{offsets[n]}; }
    BK_HD int64_t end(int64_t n) const { return begin(n + 1); }
    // A sequence's chunks have adjacent slots from first_slot() on. Slots between those of two sequences are empty.
    BK_HD int64_t first_slot(int64_t n) const { return begin(n) / chunk + n; }
    BK_HD int64_t slots() const { return rows / chunk + count; }
    BK_HD int64_t chunks(int64_t n) const { return (end(n) - begin(n) + chunk - 1) / chunk; }
};

// One chunk of a sequence; without tokens for an empty slot.
struct Chunk {
    int64_t slot, row;
    int32_t tokens;

    BK_HD static Chunk at(const Sequences& s, int64_t n, int64_t index) {
        const int64_t row = s.begin(n) + index * s.chunk, left = s.end(n) - row;
        return {s.first_slot(n) + index, row, static_cast<int32_t>(left < s.chunk ? left : s.chunk)};
    }
    BK_HD static Chunk of_slot(const Sequences& s, int64_t slot) {
        int64_t low = 0, high = s.count;  // the last sequence whose slots begin at `slot` or before
        while (high - low > 1) {
            const int64_t middle = low + (high - low) / 2;
            if (s.first_slot(middle) <= slot)
                low = middle;
            else
                high = middle;
        }
        const int64_t index = slot - s.first_slot(low);
        if (index < 0 || index >= s.chunks(low)) return {slot, 0, 0};
        return at(s, low, index);
    }
};

// Operands whose rows have d_k elements. kQ and kA read the state; kK and kB write it.
enum class Role : int32_t { kQ, kA, kK, kB };

// Matrices of a chunk in the workspace: (Q K), then of rules that solve the inverse and (A K), then (Q B).
enum Pairs : int32_t { kQK, kInverse, kAK, kQB };

struct StateProblem {
    Rule rule;
    RowType type;
    Sequences sequences;
    int32_t heads, qk_heads, d_k, d_v;
    bool normalizes, by_channel;  // q and k have length 1; g is [rows, heads, d_k], else [rows, heads]
    float scale;
    const void *q, *k, *v, *a, *b;  // a and b of rwkv7
    const float* g;                 // or null: no decay
    const void* beta;               // of delta
    const void* bonus;              // [heads, d_k], of gated; or null
    const float* initial;           // [sequences, heads, d_k, d_v], or null: 0
    void* y;
    float* final;  // or null

    // Workspace.
    int32_t* offsets;     // [sequences + 1], clamped
    float *norms, *sums;  // [2, rows, heads] inverse lengths of q and k; G, as g
    float* pairs;         // [slots, heads, matrices, C, C]
    float* states;        // [slots, heads, d_k, d_v] at the chunks' starts; or null
    float* solved;        // E [rows, heads, d_v]; or null
    float* workers;

    BK_HD int chunk() const { return sequences.chunk; }
    BK_HD int64_t rows() const { return sequences.rows; }
    BK_HD int padded_keys() const { return (d_k + 15) / 16 * 16; }
    BK_HD int key_pitch() const { return padded_keys() + kPad; }
    BK_HD static int value_pitch() { return kColumns + kPad; }
    BK_HD int pair_pitch() const { return chunk() + kPad; }
    BK_HD int64_t column_tiles() const { return (d_v + kColumns - 1) / kColumns; }
    BK_HD int gate_width() const { return by_channel ? d_k : 1; }
    BK_HD int matrices() const { return rule == Rule::kGated ? 1 : rule == Rule::kDelta ? 3 : 4; }
    BK_HD bool solves() const { return rule != Rule::kGated; }
    BK_HD bool has_b() const { return rule == Rule::kRwkv7; }

    BK_HD int64_t at_key(int64_t row, int64_t head) const { return (row * heads + head) * d_k; }
    BK_HD int64_t at_value(int64_t row, int64_t head) const { return (row * heads + head) * d_v; }
    BK_HD int64_t at_state(int64_t n, int64_t head) const { return (n * heads + head) * d_k * d_v; }
    BK_HD int64_t at_pairs(int64_t slot, int64_t head, int which) const {
        return ((slot * heads + head) * matrices() + which) * chunk() * chunk();
    }

    BK_HD const void* operand(Role role) const {
        if (role == Role::kA) return rule == Rule::kDelta ? k : a;
        return role == Role::kQ ? q : role == Role::kK ? k : b;
    }
    // Inverse lengths of an operand's rows; null if they are as given.
    BK_HD const float* norms_of(Role role) const {
        if (!normalizes || role == Role::kB) return nullptr;
        return role == Role::kQ ? norms : norms + rows() * heads;
    }
    BK_HD int64_t at_operand(Role role, int64_t row, int64_t head) const {
        const bool is_shared = role == Role::kQ || role == Role::kK || rule == Rule::kDelta;
        return is_shared ? (row * qk_heads + head / (heads / qk_heads)) * d_k : at_key(row, head);
    }
    // Whether a row t of a reading role has the exponent G[t - 1], of the state before the token's decay.
    BK_HD bool is_before(Role role) const { return role == Role::kA ? rule == Rule::kRwkv7 : bonus != nullptr; }

    // G of a token of a chunk at channel d; -1 is the chunk's start.
    BK_HD float sum_at(const Chunk& c, int64_t head, int token, int d) const {
        if (g == nullptr || token < 0) return 0.0f;
        return sums[((c.row + token) * heads + head) * gate_width() + (by_channel ? d : 0)];
    }
    BK_HD float beta_at(int64_t row, int64_t head) const { return load_float(type, beta, row * heads + head); }
};

BK_HD float clamped_gate(float g) { return g < kLeastGate ? kLeastGate : g; }

}  // namespace bk::recurrent
