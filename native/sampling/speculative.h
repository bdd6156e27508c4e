// SPDX-License-Identifier: Apache-2.0
// Speculative sampling: which drafted tokens the target model accepts, and the token after them.
//
// Tokens are accepted one by one (Leviathan et al. 2023, Chen et al. 2023), or as a block (Sun et al., Block Verification
// Accelerates Speculative Decoding, 2024), which accepts no fewer on average; of both the emitted tokens have the target's
// distribution. Trees need no draft probabilities: at each node a token is drawn from the target, and followed if it is a
// child's, which keeps the target's distribution for any tree.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/types/vec.h"
#include "sampling/flashinfer_samplers.h"
#include "sampling/sample_tokens.h"
#include "sampling/token_rows.h"

namespace bk::sampling {

template <class T>
struct SpeculativeRows {
    int64_t batch, drafted, vocab;
    bool by_blocks, adds_counts;
    RowSeeds seeds;
    const T* draft;  // [batch, drafted, vocab]
    const int32_t* draft_token;
    const T* target;  // [batch, drafted + 1, vocab]
    int32_t* token;   // [batch, drafted + 1]
    int32_t* passed;  // drafted tokens that pass a test of their own; may be null
    int32_t* accepted;

    // Probabilities of drafted token i; 0 for an index outside of the vocabulary, which is never accepted.
    BK_HD bool probabilities(int64_t row, int64_t i, double* of_draft, double* of_target) const {
        const int64_t token_of = draft_token[row * drafted + i];
        const bool is_in = token_of >= 0 && token_of < vocab;
        *of_draft = is_in ? static_cast<double>(widen(draft[(row * drafted + i) * vocab + token_of])) : 0.0;
        *of_target = is_in ? static_cast<double>(widen(target[(row * (drafted + 1) + i) * vocab + token_of])) : 0.0;
        return is_in;
    }
    // The strict test of one token: a token that the target cannot emit never passes. NaN fails.
    BK_HD bool passes(int64_t row, int64_t i, const Draws& draws, uint64_t word) const {
        double p, q;
        return probabilities(row, i, &p, &q) && draws.uniform(word) * p < q;
    }
};

// The excess max(scale * target - draft, 0) of a row, or its target alone.
template <class T>
struct ExcessElements {
    using Element = float;
    static constexpr int kLanes = 1;
    const T* target;
    const T* draft;  // or null
    float scale;

    BK_HD static bool has_vectors() { return false; }
    template <int N>
    BK_HD Vec<float, 1> load(int64_t i) const {
        return {{at(i)}};
    }
    BK_HD void keep(int64_t, const Vec<float, 1>&) const {}
    BK_HD float at(int64_t i) const {
        const float q = math::product<float>(scale, widen(target[i]));
        if (draft == nullptr) return q;
        const float excess = q - widen(draft[i]);
        return excess > 0.0f || excess != excess ? excess : 0.0f;
    }
};

// Elements of position i from `first` on.
template <class T>
BK_HD ExcessElements<T> target_of(const SpeculativeRows<T>& s, int64_t row, int64_t i, int64_t first) {
    return {s.target + (row * (s.drafted + 1) + i) * s.vocab + first, nullptr, 1.0f};
}
template <class T>
BK_HD ExcessElements<T> excess_of(const SpeculativeRows<T>& s, int64_t row, int64_t i, float scale, int64_t first) {
    return {target_of(s, row, i, first).target, s.draft + (row * s.drafted + i) * s.vocab + first, scale};
}

constexpr double kMassUnit = 0x1p40;

// Probabilities in integers, whose sum is exact.

BK_HD uint64_t mass_of(float p) {
    return p > 0.0f && p < 0x1p20f ? static_cast<uint64_t>(static_cast<double>(p) * kMassUnit) : 0;
}

// A token in proportion to the elements of `source`, from words `word` and `word + 1`, or where they have no mass the first
// largest element of `fallback`; -1 without any. All blocks get it.
template <class Team, class Source>
BK_HD int64_t drawn_token(Team& team, const Source& source, const Source& fallback, int64_t vocab, const Draws& draws,
                          uint64_t word) {
    team.open(source);
    Admission admission{{0, 0}, 0};
    LargestOf found = team.largest();
    if (!(found.largest > 0.0f) || found.refused != 0) {
        team.open(fallback);
        found = team.largest();
        if (!(found.largest > 0.0f) || found.refused != 0) return -1;
        admission.limit = {key_of(found.largest), 1};
    }
    RowFilter f{};
    f.weights = {found.largest, 0.0f, narrowing_for(vocab), true};
    const uint64_t total = team.admitted_weight(f, admission);
    return team.agreed(team.token_at(f, admission, draws.below(total, word)));
}

// The length of the accepted prefix by tests of single tokens: words 0 and on.
template <class T>
BK_HD int64_t accepted_prefix(const SpeculativeRows<T>& s, int64_t row, const Draws& draws) {
    int64_t length = 0;
    while (length < s.drafted && s.passes(row, length, draws, static_cast<uint64_t>(length))) ++length;
    return length;
}

// The length by block verification; `scale` multiplies the target's probabilities behind the prefix.
template <class T, class Team>
BK_HD int64_t accepted_block(const SpeculativeRows<T>& s, int64_t row, const Draws& draws, Team& team, float* scale) {
    int64_t length = 0;
    double p = 1.0;
    *scale = 1.0f;
    for (int64_t i = 0; i < s.drafted; ++i) {
        double of_draft, of_target;
        const bool is_in = s.probabilities(row, i, &of_draft, &of_target);
        const double scaled = p * of_target;
        p = !is_in || !(scaled > 0.0) ? 0.0 : scaled < of_draft ? scaled / of_draft : 1.0;
        const double u = draws.uniform(static_cast<uint64_t>(i));
        bool is_accepted = u <= p;
        if (i + 1 < s.drafted) {
            team.open(excess_of(s, row, i + 1, static_cast<float>(p), team.first()));
            const uint64_t mass = team.sum([](float x) { return Pair{mass_of(x), 0}; }).weight;
            const double excess = static_cast<double>(mass) / kMassUnit;
            is_accepted = u * (excess + 1.0 - p) <= excess;
        }
        if (!is_accepted) continue;
        length = i + 1;
        *scale = static_cast<float>(p);
    }
    return length;
}

template <class T, class Team>
BK_HD void verify_row(const SpeculativeRows<T>& s, int64_t row, Team& team) {
    const Draws draws = s.seeds.of(row);
    const uint64_t n = static_cast<uint64_t>(s.drafted);
    float scale = 1.0f;
    const int64_t length = s.by_blocks ? accepted_block(s, row, draws, team, &scale) : accepted_prefix(s, row, draws);
    const ExcessElements<T> target = target_of(s, row, length, team.first());
    const ExcessElements<T> source = length < s.drafted ? excess_of(s, row, length, scale, team.first()) : target;
    const int64_t token = drawn_token(team, source, target, s.vocab, draws, 2 * n);
    if (!team.leads()) return;
    int32_t passed = static_cast<int32_t>(length);
    for (int64_t i = 0; i <= s.drafted; ++i) {
        s.token[row * (s.drafted + 1) + i] = i < length    ? s.draft_token[row * s.drafted + i]
                                             : i == length ? static_cast<int32_t>(token)
                                                           : -1;
        if (i >= length && i < s.drafted) passed += s.passes(row, i, draws, n + static_cast<uint64_t>(i));
    }
    s.accepted[row] = (s.adds_counts ? s.accepted[row] : 0) + static_cast<int32_t>(length);
    if (s.passed != nullptr) s.passed[row] = (s.adds_counts ? s.passed[row] : 0) + passed;
}

// --- trees ---

template <class T>
struct TreeRows {
    int64_t batch, nodes, vocab;
    RowSeeds seeds;
    const T* target;            // [batch, nodes, vocab]
    const int32_t* node_token;  // [batch, nodes]
    const int32_t* parent;      // [batch, nodes]; node 0 is the root
    int32_t* token;             // [batch, nodes]
    int32_t* path;              // [batch, nodes]
    int32_t* accepted;          // [batch]

    // The first child of `node` with a token; -1 without one. A parent is in front of its children.
    BK_HD int64_t child(int64_t row, int64_t node, int64_t with) const {
        for (int64_t i = node + 1; i < nodes; ++i)
            if (parent[row * nodes + i] == node && node_token[row * nodes + i] == with) return i;
        return -1;
    }
};

template <class T, class Team>
BK_HD void verify_tree(const TreeRows<T>& s, int64_t row, Team& team) {
    const Draws draws = s.seeds.of(row);
    int64_t node = 0, depth = 0;
    for (;; ++depth) {
        const ExcessElements<T> target{s.target + (row * s.nodes + node) * s.vocab + team.first(), nullptr, 1.0f};
        const int64_t token = drawn_token(team, target, target, s.vocab, draws, 2 * static_cast<uint64_t>(depth));
        const int64_t next = token < 0 ? -1 : s.child(row, node, token);
        if (team.leads()) {
            s.token[row * s.nodes + depth] = static_cast<int32_t>(token);
            s.path[row * s.nodes + depth] = static_cast<int32_t>(next);
        }
        if (next < 0) break;
        node = next;
    }
    if (!team.leads()) return;
    s.accepted[row] = static_cast<int32_t>(depth);
    for (int64_t i = depth + 1; i < s.nodes; ++i) s.token[row * s.nodes + i] = s.path[row * s.nodes + i] = -1;
}

// --- ops ---

template <class T>
Status run_speculative(const Launch& launch, const SpeculativeRows<T>& rows);
template <class T>
Status run_tree(const Launch& launch, const TreeRows<T>& rows);

template <class T>
struct ChainSpeculativeSampling {
    int32_t batch, num_speculative_tokens, vocab, deterministic;
    uint64_t seed_val, offset_val;

    int64_t positions() const { return int64_t{num_speculative_tokens} + 1; }
    Work work() const { return Work::kAll; }
    Status check() const {
        return require_positive({{"batch", batch}, {"num_speculative_tokens", num_speculative_tokens}, {"vocab", vocab}});
    }
    Status run(const T* draft_probs, const int32_t* draft_token_ids, const T* target_probs, int32_t* output_token_ids,
               int32_t* output_accepted_token_num, int32_t* output_emitted_draft_token_num, const Launch& launch) const {
        SpeculativeRows<T> rows{};
        rows.batch = batch;
        rows.drafted = num_speculative_tokens;
        rows.vocab = vocab;
        rows.adds_counts = true;
        rows.seeds.seed.value = seed_val;
        rows.seeds.offset.value = offset_val;
        rows.draft = draft_probs;
        rows.draft_token = draft_token_ids;
        rows.target = target_probs;
        rows.token = output_token_ids;
        rows.passed = output_accepted_token_num;
        rows.accepted = output_emitted_draft_token_num;
        return as_invalid(run_speculative(launch, rows));
    }
};

template <class T>
struct SpeculativeSample {
    int32_t batch, drafted, vocab, by_blocks;
    uint64_t seed, offset;

    int64_t positions() const { return int64_t{drafted} + 1; }
    Work work() const { return all_or_none(batch); }
    Status check() const {
        BK_TRY(require_non_negative({{"drafted", drafted}}));
        BK_TRY(require_flag("by_blocks", by_blocks));
        return require_rows(batch, vocab);
    }
    Status run(const T* draft_probs, const int32_t* draft_tokens, const T* target_probs, const int64_t* seed_of,
               const int64_t* offset_of, const int64_t* rng_state, int32_t* tokens, int32_t* accepted,
               const Launch& launch) const {
        SpeculativeRows<T> rows{};
        rows.batch = batch;
        rows.drafted = drafted;
        rows.vocab = vocab;
        rows.by_blocks = by_blocks != 0;
        rows.seeds = row_seeds(seed, offset, seed_of, offset_of, rng_state);
        rows.draft = draft_probs;
        rows.draft_token = draft_tokens;
        rows.target = target_probs;
        rows.token = tokens;
        rows.accepted = accepted;
        return run_speculative(launch, rows);
    }
};

template <class T>
struct TreeSample {
    int32_t batch, nodes, vocab;
    uint64_t seed, offset;

    Work work() const { return all_or_none(batch); }
    Status check() const {
        BK_TRY(require_non_negative({{"nodes", nodes}}));
        BK_TRY(require_rows(batch, vocab));
        if (batch > 0 && nodes == 0) return fail(Status::kInvalidProblem, "nodes is 0, must have a root");
        return Status::kOk;
    }
    Status run(const T* target_probs, const int32_t* node_tokens, const int32_t* parents, const int64_t* seed_of,
               const int64_t* offset_of, const int64_t* rng_state, int32_t* tokens, int32_t* path, int32_t* accepted,
               const Launch& launch) const {
        TreeRows<T> rows{};
        rows.batch = batch;
        rows.nodes = nodes;
        rows.vocab = vocab;
        rows.seeds = row_seeds(seed, offset, seed_of, offset_of, rng_state);
        rows.target = target_probs;
        rows.node_token = node_tokens;
        rows.parent = parents;
        rows.token = tokens;
        rows.path = path;
        rows.accepted = accepted;
        return run_tree(launch, rows);
    }
};

}  // namespace bk::sampling

#if BK_CUDA
#include "sampling/speculative_cuda.cuh"
#else
#include "sampling/speculative_cpu.h"
#endif
