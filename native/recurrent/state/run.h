// SPDX-License-Identifier: Apache-2.0
// Ops of matrix states: checks, the workspace, and the order of the passes. One text for all rules; a row's struct names what
// its rule has.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/require_workspace.h"
#include "core/abi/workspace.h"
#include "recurrent/state/finish.h"
#include "recurrent/state/forward.h"
#include "recurrent/state/gradients.h"
#include "recurrent/state/offsets.h"
#include "recurrent/state/prepare.h"
#include "recurrent/state/update.h"

namespace bk::recurrent {

BK_COLD inline Status require_in(const char* name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return Status::kOk;
    return fail(value < least ? Status::kInvalidProblem : Status::kUnsupported, "%s is %lld, must be in [%lld, %lld]", name,
                static_cast<long long>(value), static_cast<long long>(least), static_cast<long long>(most));
}

// The scalars of a row.
struct StateExtents {
    int32_t batch, seqlen, sequences, qk_heads, heads, d_k, d_v, gate_width;
    bool normalizes;
    float scale;
    Rule rule;
    RowType type;

    int64_t rows() const { return int64_t{batch} * seqlen; }
    int64_t boundaries() const { return int64_t{sequences} + 1; }
    Work work() const { return rows() == 0 && sequences == 0 ? Work::kNone : Work::kAll; }

    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"seqlen", seqlen}, {"sequences", sequences}}));
        BK_TRY(require_in("heads", heads, 1, INT32_MAX));
        BK_TRY(require_in("qk_heads", qk_heads, 1, INT32_MAX));
        BK_TRY(require_in("d_k", d_k, 1, kMaxKeyWidth));
        BK_TRY(require_in("d_v", d_v, 1, INT32_MAX));
        if (heads % qk_heads != 0)
            return fail(Status::kInvalidProblem, "heads is %d, must be a multiple of qk_heads, %d", heads, qk_heads);
        if (gate_width != 1 && gate_width != d_k)
            return fail(Status::kInvalidProblem, "gate_width is %d, must be 1 or d_k, %d", gate_width, d_k);
        return Status::kOk;
    }
    // Without offsets each sequence is an entry of the batch; with them there is one entry.
    Status check_offsets(const int32_t* cu_seqlens) const {
        if (cu_seqlens != nullptr && batch > 1)
            return fail(Status::kInvalidProblem, "cu_seqlens is not NULL, but batch is %d, not 1", batch);
        if (cu_seqlens == nullptr && sequences != batch)
            return fail(Status::kInvalidProblem, "cu_seqlens is NULL, but sequences is %d, not batch, %d", sequences, batch);
        return Status::kOk;
    }

    // Tokens of a chunk: fewer where each pair of tokens has a sum of exponentials, or rows of keys are long.
    static constexpr int32_t kLongestKey = 128;
    int32_t chunk() const { return gate_width > 1 || d_k > kLongestKey ? 16 : 32; }

    StateProblem problem() const {
        StateProblem p{};
        p.rule = rule;
        p.type = type;
        p.sequences = {sequences, seqlen, rows(), chunk(), nullptr};
        p.heads = heads;
        p.qk_heads = qk_heads;
        p.d_k = d_k;
        p.d_v = d_v;
        p.normalizes = normalizes;
        p.by_channel = gate_width > 1;
        p.scale = scale;
        return p;
    }

    static int64_t chunk_items(const StateProblem& p) { return p.sequences.slots() * p.heads; }

    // Carves what all passes read; the size does not depend on which operands are null.
    void carve(Carver* carver, StateProblem* p) const {
        p->offsets = carver->take<int32_t>(boundaries());
        p->norms = carver->take<float>(normalizes ? 2 * rows() * heads : 0);
        p->sums = carver->take<float>(rows() * heads * p->gate_width());
        p->pairs = carver->take<float>(chunk_items(*p) * p->matrices() * p->chunk() * p->chunk());
    }
    void carve_forward(Carver* carver, StateProblem* p) const {
        carve(carver, p);
        const int64_t prepare = scratch_floats(chunk_items(*p), PrepareChunk::floats(*p));
        p->workers = carver->take<float>(std::max(prepare, scratch_floats(StateColumns::items(*p), ForwardPass::floats(*p))));
    }
    void carve_backward(Carver* carver, StateProblem* p, StateGradients* d, bool has_bonus) const {
        carve(carver, p);
        const int64_t state = p->sequences.slots() * heads * d_k * d_v;
        p->states = carver->take<float>(state);
        d->dstates = carver->take<float>(state);
        const int64_t solved = p->solves() ? rows() * heads * d_v : 0;
        p->solved = carver->take<float>(solved);
        d->dsolved = carver->take<float>(solved);
        const int64_t wide = rows() * heads * d_k;
        for (const Role role : {Role::kQ, Role::kK, Role::kA, Role::kB}) {
            const bool is_used = role == Role::kQ || role == Role::kK || (role == Role::kA ? p->solves() : p->has_b());
            d->wide[static_cast<int>(role)] = carver->take<float>(is_used ? wide : 0);
        }
        d->bonus_partials = carver->take<float>(has_bonus ? chunk_items(*p) * d_k : 0);
        const int64_t of_chunks = std::max(PrepareChunk::floats(*p), ChunkGradients::floats(*p));
        p->workers = carver->take<float>(std::max(scratch_floats(chunk_items(*p), of_chunks),
                                                  scratch_floats(StateColumns::items(*p), StateTiles::floats(*p))));
    }

    // bytes(extents), or those of shorter keys, whose chunks are longer: a larger problem has no smaller workspace.
    template <class Bytes>
    size_t most(const Bytes& bytes) const {
        StateExtents shorter = *this;
        shorter.d_k = std::min(d_k, kLongestKey);
        return std::max(bytes(*this), bytes(shorter));
    }
    size_t forward_bytes() const {
        return most([](const StateExtents& e) {
            StateProblem p = e.problem();
            Carver carver;
            e.carve_forward(&carver, &p);
            return carver.bytes();
        });
    }
    size_t backward_bytes(bool has_bonus) const {
        return most([has_bonus](const StateExtents& e) {
            StateProblem p = e.problem();
            StateGradients d{};
            Carver carver;
            e.carve_backward(&carver, &p, &d, has_bonus);
            return carver.bytes();
        });
    }
};

inline Status clamp_offsets(const Launch& launch, StateProblem* p) {
    if (p->sequences.offsets == nullptr) return Status::kOk;
    const ClampOffsets job{p->sequences.count + 1, p->rows(), p->sequences.offsets, p->offsets};
    p->sequences.offsets = p->offsets;
    return run_teams(launch, 1, 4096, job, true);
}

inline Status prepare(const Launch& launch, const StateProblem& p) {
    return run_with_scratch(launch, StateExtents::chunk_items(p), PrepareChunk::floats(p), p.workers, PrepareChunk{p});
}

inline Status run_pass(const Launch& launch, const StateProblem& p, bool has_output) {
    return run_with_scratch(launch, StateColumns::items(p), ForwardPass::floats(p), p.workers, ForwardPass{p, has_output});
}

// Rows without any sequence have no team that clears them.
inline Status clear(const Launch& launch, void* to, int64_t elements, RowType type) {
    const size_t bytes = type == RowType::kF32 ? 4 : 2;
    return to == nullptr || elements == 0 ? Status::kOk : fill_bytes(launch, to, 0, static_cast<size_t>(elements) * bytes);
}

// `p` has the operands.
inline Status run_forward(const Launch& launch, const StateExtents& e, StateProblem p) {
    BK_TRY(e.check_offsets(p.sequences.offsets));
    BK_TRY(require_workspace(launch, e.forward_bytes()));
    if (p.sequences.count == 0) return clear(launch, p.y, p.rows() * p.heads * p.d_v, p.type);
    Carver carver(launch.workspace);
    e.carve_forward(&carver, &p);
    BK_TRY(clamp_offsets(launch, &p));
    BK_TRY(prepare(launch, p));
    return run_pass(launch, p, true);
}

inline Status run_backward(const Launch& launch, const StateExtents& e, StateProblem p, StateGradients d, bool has_bonus) {
    BK_TRY(e.check_offsets(p.sequences.offsets));
    BK_TRY(require_workspace(launch, e.backward_bytes(has_bonus)));
    Carver carver(launch.workspace);
    e.carve_backward(&carver, &p, &d, has_bonus);
    BK_TRY(clamp_offsets(launch, &p));
    if (p.bonus == nullptr) {
        d.bonus_partials = nullptr;
        BK_TRY(clear(launch, d.dbonus, int64_t{p.heads} * p.d_k, p.type));
        d.dbonus = nullptr;
    }
    if (p.g == nullptr) {
        BK_TRY(clear(launch, d.dg, p.rows() * p.heads * p.gate_width(), RowType::kF32));
        d.dg = nullptr;
    }
    if (p.sequences.count == 0) {
        BK_TRY(clear(launch, d.dv, p.rows() * p.heads * p.d_v, p.type));
    } else {
        BK_TRY(prepare(launch, p));
        BK_TRY(run_pass(launch, p, false));
        BK_TRY(run_with_scratch(launch, StateColumns::items(p), BackwardPass::floats(p), p.workers, BackwardPass{p, d}));
        BK_TRY(
            run_with_scratch(launch, StateExtents::chunk_items(p), ChunkGradients::floats(p), p.workers, ChunkGradients{p, d}));
    }
    if (d.dbonus != nullptr) BK_TRY(run_teams(launch, p.heads, 512, FinishBonus{p, d}));
    const int64_t items = p.rows() * p.qk_heads;
    return items == 0 ? Status::kOk : run_teams(launch, items, 512, FinishRow{p, d});
}

inline Status run_update(const Launch& launch, const StateProblem& p) {
    return run_teams(launch, StateColumns::items(p), 4096, UpdateStep{p}, true);
}

}  // namespace bk::recurrent
