// SPDX-License-Identifier: Apache-2.0
// A block updates a chunk: a warp takes 32 * kLanes adjacent elements at a time. With 8-bit states that is one block of a
// scale, so that a shuffle finds its largest magnitude.
#pragma once

#include <cstdint>

#include "core/collectives/shuffle.cuh"
#include "optim/step.h"
#include "optim/weights.cuh"

namespace bk::optim {

constexpr int kStepThreads = 256;

template <class Rule, class T>
struct StepArguments {
    typename Rule::Settings settings;
    Common common;
    Prepared<Rule, compute_t<T>> prepared;  // unless scalars are on the device
    Table table;
};

BK_DEVICE bool are_aligned(const Slot& slot) {
    uintptr_t bits = reinterpret_cast<uintptr_t>(slot.of.param) | reinterpret_cast<uintptr_t>(slot.grad) |
                     reinterpret_cast<uintptr_t>(slot.of.master) | reinterpret_cast<uintptr_t>(slot.of.ema);
    for (void* state : slot.of.state) bits |= reinterpret_cast<uintptr_t>(state);
    return bits % kVectorBytes == 0;
}

// States of a thread's lanes, s[l][k].
template <class Rule, class C, int N, bool kQuantised>
struct States {
    static constexpr int kStates = Rule::kStates;
    const Slot& slot;

    BK_DEVICE void read(const Lanes& lanes, C (&s)[N][kStates]) const {
#pragma unroll
        for (int k = 0; k < kStates; ++k) {
            C one[N] = {};
            if (slot.of.state[k] != nullptr) {
                if constexpr (kQuantised) {
                    uint32_t codes[N];
                    lanes.read<N>(static_cast<const uint8_t*>(slot.of.state[k]), codes);
                    if (lanes.count > 0) {
                        const float scale = scales_of(slot.of.state[k], slot.of.size)[lanes.i / kStateBlock];
#pragma unroll
                        for (int l = 0; l < N; ++l) {
                            const uint8_t code = static_cast<uint8_t>(codes[l]);
                            const float value =
                                Rule::kSigned >> k & 1 ? decode_signed(code, scale) : decode_positive(code, scale);
                            one[l] = l < lanes.count ? value : 0.0f;
                        }
                    }
                } else {
                    lanes.read<N>(static_cast<const C*>(slot.of.state[k]), one);
                }
            }
#pragma unroll
            for (int l = 0; l < N; ++l) s[l][k] = one[l];
        }
    }

    // All lanes of a warp call it.
    BK_DEVICE void write(const Lanes& lanes, const C (&s)[N][kStates]) const {
#pragma unroll
        for (int k = 0; k < kStates; ++k) {
            if (slot.of.state[k] == nullptr) continue;
            if constexpr (kQuantised) {
                float most = 0;
#pragma unroll
                for (int l = 0; l < N; ++l)
                    if (l < lanes.count) most = larger(most, math::fabs<float>(s[l][k]));
#pragma unroll
                for (int distance = 1; distance < 32; distance *= 2) most = larger(most, shuffle_xor(most, distance));
                const float scale = most != 0.0f ? most : 1.0f;
                lanes.write<N>(static_cast<uint8_t*>(slot.of.state[k]), [&](int l) {
                    return Rule::kSigned >> k & 1 ? encode_signed(s[l][k], scale) : encode_positive(s[l][k], scale);
                });
                if (lanes.i % kStateBlock == 0 && lanes.count > 0)
                    scales_of(slot.of.state[k], slot.of.size)[lanes.i / kStateBlock] = most;
            } else {
                lanes.write<N>(static_cast<C*>(slot.of.state[k]), [&](int l) { return s[l][k]; });
            }
        }
    }
};

// One warp's elements from `base` on.
template <class Rule, class T, bool kQuantised, int N, class C>
BK_DEVICE void update_lanes(const Prepared<Rule, C>& now, const Common& common, const Slot& slot, const Lanes& lanes) {
    T* const grad = static_cast<T*>(slot.grad);
    const auto clear = [&] { lanes.write<N>(grad, [](int) { return T{}; }); };
    if (now.is_skipped) {
        if (common.zeroes_grads) clear();
        return;
    }
    const Weights<T, N> weights{static_cast<T*>(slot.of.param), slot.of.master, common.rounding};
    const States<Rule, C, N, kQuantised> states{slot};
    C g[N], p[N], s[N][Rule::kStates];
    lanes.read<N>(static_cast<const T*>(grad), g);
    weights.read(lanes, p);
    states.read(lanes, s);
#pragma unroll
    for (int l = 0; l < N; ++l) {
        const C next = now.rule(p[l], g[l] * now.multiplier, s[l]);
        p[l] = now.is_frozen ? p[l] : next;
    }
    states.write(lanes, s);
    if (!now.is_frozen) weights.write(lanes, p, RandomBits::of(common.seed, now.step, slot.tensor));
    if (slot.of.ema != nullptr) {
        C e[N];
        lanes.read<N>(static_cast<const C*>(slot.of.ema), e);
        lanes.write<N>(static_cast<C*>(slot.of.ema), [&](int l) { return e[l] + now.ema_weight * (p[l] - e[l]); });
    }
    if (common.zeroes_grads) clear();
}

template <class Rule, class T, bool kQuantised>
__global__ void __launch_bounds__(kStepThreads) step_kernel(const __grid_constant__ StepArguments<Rule, T> a) {
    using C = compute_t<T>;
    constexpr int kLanes = kQuantised ? kStateBlock / 32 : sizeof(T) == 8 ? 2 : 4;
    __shared__ Prepared<Rule, C> shared;
    const Slot slot = a.table.at(blockIdx.x);
    Prepared<Rule, C> now = a.prepared;
    if (a.common.reads_device()) {
        if (threadIdx.x == 0) shared = prepare<Rule, C>(a.settings, a.common);
        __syncthreads();
        now = shared;
    }
    if (slot.grad == nullptr) return;
    const bool aligned = are_aligned(slot);
    const int64_t end = slot.end();
    for (int64_t base = slot.begin() + threadIdx.x / 32 * (32 * kLanes); base < end; base += kStepThreads * kLanes) {
        const int64_t i = base + threadIdx.x % 32 * kLanes, left = end - i;
        const int count = left >= kLanes ? kLanes : left > 0 ? static_cast<int>(left) : 0;
        update_lanes<Rule, T, kQuantised, kLanes>(now, a.common, slot, Lanes{i, count, aligned && count == kLanes});
    }
}

template <class Rule, class T>
Status run_step(const Launch& launch, const Table& table, const typename Rule::Settings& settings, const Common& common) {
    using Arguments = StepArguments<Rule, T>;
    static_assert(sizeof(Arguments) <= 4096, "kernel parameters");
    Arguments a{settings, common, {}, table};
    if (!common.reads_device()) a.prepared = prepare<Rule, compute_t<T>>(settings, common);
    const Grid grid{dim3(static_cast<unsigned>(table.chunks)), dim3(kStepThreads)};
    if constexpr (Rule::kQuantises && sizeof(T) <= 4) {
        if (common.state_bits == 8) return launch_kernel(launch, grid, step_kernel<Rule, T, true>, a);
    }
    return launch_kernel(launch, grid, step_kernel<Rule, T, false>, a);
}

}  // namespace bk::optim
