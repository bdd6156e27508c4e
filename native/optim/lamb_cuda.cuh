// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "optim/block_sum.cuh"
#include "optim/lamb.h"
#include "optim/step_cuda.cuh"

namespace bk::optim {

template <class T>
struct LambArguments {
    using C = compute_t<T>;
    LambSettings settings;
    Common common;
    Prepared<Lamb<C>, C> prepared;
    LambSums<C> sums;
    Table table;

    BK_DEVICE Prepared<Lamb<C>, C> now() const {
        return common.reads_device() ? prepare<Lamb<C>, C>(settings, common) : prepared;
    }
};

// Calls update(Lanes) for the elements of a thread.
template <int N, class Update>
BK_DEVICE void for_lanes(const Slot& slot, const Update& update) {
    const bool aligned = are_aligned(slot);
    const int64_t end = slot.end();
    for (int64_t i = slot.begin() + threadIdx.x * N; i < end; i += kStepThreads * N) {
        const int64_t left = end - i;
        const int count = left >= N ? N : static_cast<int>(left);
        update(Lanes{i, count, aligned && count == N});
    }
}

template <class T>
constexpr int kLambLanes = sizeof(T) == 8 ? 2 : 4;

template <class T>
__global__ void __launch_bounds__(kStepThreads) lamb_moments(const __grid_constant__ LambArguments<T> a) {
    using C = compute_t<T>;
    constexpr int N = kLambLanes<T>;
    const Slot slot = a.table.at(blockIdx.x);
    if (slot.grad == nullptr) return;
    const Prepared<Lamb<C>, C> now = a.now();
    T* const grad = static_cast<T*>(slot.grad);
    C *const first = static_cast<C*>(slot.of.state[0]), *const second = static_cast<C*>(slot.of.state[1]);
    const Weights<T, N> weights{static_cast<T*>(slot.of.param), slot.of.master, a.common.rounding};
    C weight = 0, update = 0;
    for_lanes<N>(slot, [&](const Lanes& lanes) {
        if (!now.is_skipped) {
            C p[N], g[N], m[N], v[N];
            lanes.read<N>(static_cast<const T*>(grad), g);
            weights.read(lanes, p);
            lanes.read<N>(static_cast<const C*>(first), m);
            lanes.read<N>(static_cast<const C*>(second), v);
#pragma unroll
            for (int l = 0; l < N; ++l) {
                now.rule.moments.add(g[l] * now.multiplier + now.rule.decay_of_gradient * p[l], m[l], v[l]);
                const C u = l < lanes.count ? now.rule.direction(p[l], m[l], v[l]) : C(0);
                weight += p[l] * p[l];
                update += u * u;
            }
            lanes.write<N>(first, [&](int l) { return m[l]; });
            lanes.write<N>(second, [&](int l) { return v[l]; });
        }
        if (a.common.zeroes_grads) lanes.write<N>(grad, [](int) { return T{}; });
    });
    if (now.is_skipped) return;
    weight = sum_of_block(weight);
    update = sum_of_block(update);
    if (threadIdx.x != 0) return;
    if (LambSums<C>::is_single(slot.of.size)) {
        a.sums.weight[slot.tensor] = weight;
        a.sums.update[slot.tensor] = update;
    } else {
        C* const to = a.sums.partials_of(slot.tensor, slot.of.first_chunk) + 2 * slot.chunk;
        to[0] = weight;
        to[1] = update;
    }
}

// A block adds the sums of a tensor.
template <class T>
__global__ void __launch_bounds__(kStepThreads) lamb_norms(const __grid_constant__ LambArguments<T> a) {
    using C = compute_t<T>;
    const int64_t tensor = blockIdx.x;
    if (a.common.found_inf_at != nullptr && *a.common.found_inf_at != 0.0f) return;
    const Entry entry = a.table.entry(tensor);
    double weight = 0, update = 0;
    if (entry.size > 0 && LambSums<C>::is_single(entry.size)) {
        if (threadIdx.x == 0) {
            weight = static_cast<double>(a.sums.weight[tensor]);
            update = static_cast<double>(a.sums.update[tensor]);
        }
    } else {
        const C* const from = entry.size > 0 ? a.sums.partials_of(tensor, entry.first_chunk) : nullptr;
        const int64_t chunks = (entry.size + kChunk - 1) / kChunk;
        for (int64_t c = threadIdx.x; c < chunks; c += kStepThreads) {
            weight += static_cast<double>(from[2 * c]);
            update += static_cast<double>(from[2 * c + 1]);
        }
        weight = sum_of_block(weight);
        update = sum_of_block(update);
    }
    if (threadIdx.x != 0) return;
    a.sums.weight[tensor] = static_cast<C>(sqrt(weight));
    a.sums.update[tensor] = static_cast<C>(sqrt(update));
}

template <class T>
__global__ void __launch_bounds__(kStepThreads) lamb_weights(const __grid_constant__ LambArguments<T> a) {
    using C = compute_t<T>;
    constexpr int N = kLambLanes<T>;
    const Slot slot = a.table.at(blockIdx.x);
    if (slot.grad == nullptr) return;
    const Prepared<Lamb<C>, C> now = a.now();
    if (now.is_skipped) return;
    const C rate = now.rule.lr * now.rule.ratio(a.sums.weight[slot.tensor], a.sums.update[slot.tensor]);
    const C *const first = static_cast<const C*>(slot.of.state[0]), *const second = static_cast<const C*>(slot.of.state[1]);
    const Weights<T, N> weights{static_cast<T*>(slot.of.param), slot.of.master, a.common.rounding};
    for_lanes<N>(slot, [&](const Lanes& lanes) {
        C p[N], m[N], v[N];
        weights.read(lanes, p);
        lanes.read<N>(first, m);
        lanes.read<N>(second, v);
#pragma unroll
        for (int l = 0; l < N; ++l) {
            const C next = p[l] - rate * now.rule.direction(p[l], m[l], v[l]);
            p[l] = now.is_frozen ? p[l] : next;
        }
        if (!now.is_frozen) weights.write(lanes, p, RandomBits::of(a.common.seed, now.step, slot.tensor));
        if (slot.of.ema != nullptr) {
            C e[N];
            lanes.read<N>(static_cast<const C*>(slot.of.ema), e);
            lanes.write<N>(static_cast<C*>(slot.of.ema), [&](int l) { return e[l] + now.ema_weight * (p[l] - e[l]); });
        }
    });
}

template <class T>
Status run_lamb(const Launch& launch, const Table& table, const LambSettings& settings, const Common& common,
                const LambSums<compute_t<T>>& sums) {
    using C = compute_t<T>;
    static_assert(sizeof(LambArguments<T>) <= 4096, "kernel parameters");
    LambArguments<T> a{settings, common, {}, sums, table};
    if (!common.reads_device()) a.prepared = prepare<Lamb<C>, C>(settings, common);
    const Grid chunks{dim3(static_cast<unsigned>(table.chunks)), dim3(kStepThreads)};
    const Grid tensors{dim3(static_cast<unsigned>(table.tensors)), dim3(kStepThreads)};
    BK_TRY(launch_kernel(launch, chunks, lamb_moments<T>, a));
    BK_TRY(launch_kernel(launch, tensors, lamb_norms<T>, a));
    return launch_kernel(launch, chunks, lamb_weights<T>, a);
}

}  // namespace bk::optim
