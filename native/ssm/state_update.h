// SPDX-License-Identifier: Apache-2.0
// One step of a selective scan (ssm/step.h), for decoding: states in, states and y out. A GPU has kStateLanes threads for the
// states of a channel.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/collectives/team.h"
#include "ssm/operands.h"
#include "ssm/scan_problem.h"
#if BK_CUDA
#include "core/collectives/shuffle.cuh"
#endif

namespace bk::ssm {

#if BK_CUDA
constexpr int kStateLanes = 8;
#else
constexpr int kStateLanes = 1;
#endif
constexpr int64_t kUpdatedChannels = 32;  // of an item

// The sum of term(n) over all states, of which a GPU's thread adds every kStateLanes-th; on the CPU a vector's lanes do.
template <class Term>
BK_HD float sum_lanes(int64_t states, int lane, const Term& term) {
#if BK_CUDA
    float sum = 0;
    for (int64_t n = lane; n < states; n += kStateLanes) sum += term(n);
#if BK_IN_KERNEL
    BK_UNROLL
    for (int distance = 1; distance < kStateLanes; distance *= 2) sum += shuffle_xor(sum, distance);
#endif
    return sum;
#else
    constexpr int kLanes = 32;
    float sums[kLanes] = {};
    int64_t n = lane;
    for (; n + kLanes <= states; n += kLanes) {
        BK_VECTOR_LOOP
        for (int l = 0; l < kLanes; ++l) sums[l] += term(n + l);
    }
    for (int l = 0; n < states; ++l, ++n) sums[l] += term(n);
    for (int half = kLanes / 2; half > 0; half /= 2)
        for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
    return sums[0];
#endif
}

template <class T>
struct StateUpdateJob {
    ScanProblem<T> p;
    const float *rate, *state;
    TokenView<T> y;
    float* new_state;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t tiles = (p.channels + kUpdatedChannels - 1) / kUpdatedChannels;
        const int64_t row = item / tiles, first = item % tiles * kUpdatedChannels;
        const int lane = team.rank % kStateLanes;
        // All lanes of a channel go together, on a GPU those of a warp.
        const int64_t left = p.channels - first, end = BK_CUDA || left > kUpdatedChannels ? kUpdatedChannels : left;
        for (int64_t c = team.rank / kStateLanes; c < end; c += team.size / kStateLanes) {
            const bool is_there = first + c < p.channels;
            const int64_t channel = is_there ? first + c : p.channels - 1;
            const float u = widen(p.u.at(row, 0)[channel]);
            const float step = p.rule(widen(p.delta.at(row, 0)[channel / p.per_head]) + p.bias(channel));
            const int64_t group = channel / p.per_group(), at = (row * p.channels + channel) * p.states;
            const auto* const b = p.b.at(row, 0, group);
            const auto* const of_c = p.c.at(row, 0, group);
            // Locals, since stores might alias members.
            const float* const before = state + at;
            float* const after = new_state + at;
            const float input = step * u;
            const auto sum_of = [&](const auto& factor) {
                return sum_lanes(p.states, lane, [=](int64_t n) {
                    const float h = factor(n) * before[n] + input * widen(b[n]);
                    if (!BK_CUDA || is_there) after[n] = h;
                    return h * widen(of_c[n]);
                });
            };
            const float* const rates = rate + (p.is_scalar_a ? channel / p.per_head : channel * p.states);
            const float whole = p.is_scalar_a ? decay(step, rates[0]) : 0.0f;
            float sum = p.is_scalar_a ? sum_of([=](int64_t) { return whole; })
                                      : sum_of([=](int64_t n) { return decay(step, rates[n]); });
            if (!is_there || lane != 0) continue;
            if (p.d_skip.is_given()) sum += p.skip(channel) * u;
            if (p.z.data != nullptr) sum *= silu(widen(p.z.at(row, 0)[channel]));
            y.at(row, 0)[channel] = narrow<T>(sum);
        }
    }
};

template <class T>
struct SelectiveStateUpdate {
    int32_t batch;
    int32_t heads;
    int32_t head_dim;
    int32_t groups;
    int32_t dstate;
    int32_t dt_softplus;
    int32_t is_per_head;

    Work work() const { return all_or_none(int64_t{batch} * heads * head_dim); }
    Status check() const {
        BK_TRY(require_non_negative(
            {{"batch", batch}, {"heads", heads}, {"head_dim", head_dim}, {"groups", groups}, {"dstate", dstate}}));
        return require_divisor("groups", groups, "heads", heads);
    }
    int64_t rates() const { return is_per_head != 0 ? heads : int64_t{heads} * head_dim; }
    int64_t rate_states() const { return is_per_head != 0 ? 1 : dstate; }

    Status run(const float* state, const T* x, const T* dt, const float* a, const T* b, const T* c, const float* d_skip,
               const T* z, const float* dt_bias, T* y, float* new_state, const Launch& launch) const {
        ScanProblem<T> p{};
        p.sequences = {nullptr, batch, 1, batch};
        p.channels = int64_t{heads} * head_dim;
        p.groups = groups;
        p.heads = heads;
        p.per_head = is_per_head != 0 ? head_dim : 1;
        p.states = dstate;
        p.is_scalar_a = is_per_head != 0;
        p.rule = {dt_softplus != 0, -INFINITY, INFINITY};
        const int64_t row = p.channels;
        p.u = {x, row, row, 1};
        p.delta = {dt, rates(), rates(), 1};
        p.z = {z, row, row, 1};
        p.b = {b, p.groups * p.states, p.groups * p.states, dstate, 1};
        p.c = {c, p.groups * p.states, p.groups * p.states, dstate, 1};
        p.d_skip = {d_skip, true};
        p.delta_bias = {dt_bias, true};
        const int64_t items = batch * ceil_div(p.channels, kUpdatedChannels);
        const StateUpdateJob<T> job{p, a, state, {y, row, row, 1}, new_state};
        return run_teams(launch, items, kUpdatedChannels * kStateLanes * 16, job);
    }
};

}  // namespace bk::ssm
