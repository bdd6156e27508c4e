// SPDX-License-Identifier: Apache-2.0
// Manifold-constrained hyper connection (Xie et al. 2025) with static weights: n streams x[b, i] of C elements are mixed by a
// doubly stochastic matrix, and a normalised mean of them is added to each:
//   g[c] = sum_i sigmoid(h_pre[i]) x[i, c],   r[c] = g[c] gamma[c] / sqrt(mean of g^2 + eps)
//   out[i, c] = sum_j M[i, j] x[j, c] + 2 sigmoid(h_post[i]) r[c]
// M is exp(h_res) after `sinkhorn_iters` times dividing each row, then each column, by its sum (Sinkhorn 1964); a sum of eps
// or less divides nothing. Arithmetic is f32.
//
// A team computes M, then one batch: a pass for the mean of g^2, another for the results, which need g again.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "attention/serving/merge_states.h"
#include "core/abi/operand.h"

namespace bk {

constexpr int kMostStreams = 31;

template <class T, class W>
struct HyperConnectionJob {
    int64_t hidden;
    int32_t streams, iterations;
    float eps;
    const T* x;
    const W* gamma;
    const float *h_pre, *h_post, *h_res;
    T* out;

    struct Scratch {
        float matrix[kMostStreams * kMostStreams];
        float pre[kMostStreams], post[kMostStreams];
    };
    static_assert(sizeof(Scratch) <= kTeamScratch, "the scratch of a team");

    BK_HD void operator()(const Team& team, int64_t item) const {
        Scratch& s = *static_cast<Scratch*>(team.scratch);
        weigh(team, s);
        const T* from = x + item * streams * hidden;
        T* to = out + item * streams * hidden;
        float squares = 0;
        for (int64_t c = team.rank; c < hidden; c += team.size) {
            const float g = mean(s, from + c);
            squares += g * g;
        }
        const float inverse = 1.0f / math::sqrt<float>(team.sum(squares) / static_cast<float>(hidden) + eps);
        for (int64_t c = team.rank; c < hidden; c += team.size) {
            const float r = mean(s, from + c) * inverse * static_cast<float>(widen(gamma[c]));
            for (int i = 0; i < streams; ++i) {
                float sum = s.post[i] * r;
                for (int j = 0; j < streams; ++j) sum += s.matrix[i * streams + j] * widen(from[j * hidden + c]);
                to[i * hidden + c] = narrow<T>(sum);
            }
        }
        team.sync();
    }

private:
    BK_HD static float sigmoid(float v) { return 1.0f / (1.0f + math::exp<float>(-v)); }
    BK_HD float mean(const Scratch& s, const T* column) const {
        float g = 0;
        for (int i = 0; i < streams; ++i) g += s.pre[i] * widen(column[i * hidden]);
        return g;
    }
    BK_HD void weigh(const Team& team, Scratch& s) const {
        for (int i = team.rank; i < streams; i += team.size) {
            s.pre[i] = sigmoid(h_pre[i]);
            s.post[i] = 2.0f * sigmoid(h_post[i]);
        }
        for (int e = team.rank; e < streams * streams; e += team.size) s.matrix[e] = math::exp<float>(h_res[e]);
        team.sync();
        for (int iteration = 0; iteration < iterations; ++iteration)
            for (int axis = 0; axis < 2; ++axis) {
                const int along = axis == 0 ? 1 : streams, across = axis == 0 ? streams : 1;
                for (int k = team.rank; k < streams; k += team.size) divide_by_sum(s.matrix + k * across, along);
                team.sync();
            }
    }
    BK_HD void divide_by_sum(float* first, int step) const {
        float sum = 0;
        for (int e = 0; e < streams; ++e) sum += first[e * step];
        if (!(sum > eps)) return;
        for (int e = 0; e < streams; ++e) first[e * step] /= sum;
    }
};

inline Status require_streams(int32_t streams) {
    if (streams > kMostStreams) return fail(Status::kUnsupported, "n_streams is %d, must be <= %d", streams, kMostStreams);
    return Status::kOk;
}

template <class T, class W>
struct HyperConnection {
    int32_t batch;
    int32_t hidden_dim;
    int32_t n_streams;
    int32_t sinkhorn_iters;
    float eps;

    Work work() const { return all_or_none(int64_t{batch} * hidden_dim * n_streams); }
    Status check() const {
        BK_TRY(require_non_negative(
            {{"batch", batch}, {"hidden_dim", hidden_dim}, {"n_streams", n_streams}, {"sinkhorn_iters", sinkhorn_iters}}));
        if (!(eps > 0 && eps < 1))
            return fail(Status::kInvalidProblem, "eps is %g, must be in (0, 1)", static_cast<double>(eps));
        Operand x;
        BK_TRY(locate_dense(&x, "x", Role::kInput, size_of<T>(),
                            {{"batch", batch}, {"n_streams", n_streams}, {"hidden_dim", hidden_dim}}));
        return require_streams(n_streams);
    }
    Status run(const T* x, const W* gamma, const float* h_pre, const float* h_post, const float* h_res, T* out,
               const Launch& launch) const {
        const int64_t bytes = int64_t{hidden_dim} * n_streams * 3 * size_of<T>();
        return run_teams(
            launch, batch, bytes,
            HyperConnectionJob<T, W>{hidden_dim, n_streams, sinkhorn_iters, eps, x, gamma, h_pre, h_post, h_res, out}, true);
    }
};

// The reference's handle: the numbers of a layer, in host memory, which calls on several threads and streams may share.
struct HyperConnectionHandle {
    int32_t batch, hidden_dim, n_streams, sinkhorn_iters;
    float eps;
};

inline Status check_mhc_layer(int32_t B, int32_t C, int32_t n) {
    BK_TRY(require_extents({{"B", B}, {"C", C}, {"n", n}}));
    BK_TRY(require_streams(n));
    return C < n ? fail(Status::kInvalidProblem, "C is %d, must be >= n, %d", C, n) : Status::kOk;
}

inline void* create_mhc_layer(int32_t B, int32_t C, int32_t n, int32_t sinkhorn_iters, float eps) {
    if (B <= 0 || C <= 0 || n <= 0 || n > kMostStreams || sinkhorn_iters < 1 || sinkhorn_iters > 1000 || !(eps > 0 && eps < 1))
        return nullptr;
    void* handle = malloc(sizeof(HyperConnectionHandle));
    if (handle != nullptr) *static_cast<HyperConnectionHandle*>(handle) = {B, C, n, sinkhorn_iters, eps};
    return handle;
}

inline void destroy_mhc_layer(void* handle) { free(handle); }

inline Status run_mhc_layer(void* handle, const void* x, const void* gamma, const void* h_pre, const void* h_post,
                            const void* h_res, void* out, int32_t B, int32_t C, int32_t n, void* workspace,
                            uint64_t workspace_bytes, void* stream) {
    if (handle == nullptr) return fail(Status::kInvalidProblem, "handle is NULL");
    const auto& of = *static_cast<const HyperConnectionHandle*>(handle);
    if (B != of.batch || C != of.hidden_dim || n != of.n_streams)
        return fail(Status::kUnsupported, "B, C, n are %d, %d, %d, but the handle is of %d, %d, %d", B, C, n, of.batch,
                    of.hidden_dim, of.n_streams);
    const HyperConnection<float, bf16> op{B, C, n, of.sinkhorn_iters, of.eps};
    Operand at[6];
    BK_TRY(locate_dense(at, "x_expanded", Role::kInput, 4, {{"B", B}, {"n", n}, {"C", C}}));
    BK_TRY(locate_dense(at + 1, "rmsnorm_weight", Role::kInput, 2, {{"C", C}}));
    BK_TRY(locate_dense(at + 2, "H_pre", Role::kInput, 4, {{"n", n}}));
    BK_TRY(locate_dense(at + 3, "H_post", Role::kInput, 4, {{"n", n}}));
    BK_TRY(locate_dense(at + 4, "H_res", Role::kInput, 4, {{"n", n}, {"n", n}}));
    BK_TRY(locate_dense(at + 5, "out", Role::kOutput, 4, {{"B", B}, {"n", n}, {"C", C}}));
    const void* pointers[] = {x, gamma, h_pre, h_post, h_res, out};
    for (int k = 0; k < 6; ++k) at[k].pointer = pointers[k];
    BK_TRY(require_pointers(at, at + 6, Work::kAll));
    return op.run(static_cast<const float*>(x), static_cast<const bf16*>(gamma), static_cast<const float*>(h_pre),
                  static_cast<const float*>(h_post), static_cast<const float*>(h_res), static_cast<float*>(out),
                  {workspace, workspace_bytes, stream});
}

}  // namespace bk
