// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "optim/lamb.h"
#include "optim/spans_cpu.h"

namespace bk::optim {

// Sums of squares by 16 lanes, the same on every instruction set.
template <class C>
struct LaneSums {
    static constexpr int kLanes = 16;
    double lane[kLanes] = {};

    BK_HD void add(const C* x, int count) {
        for (int l = 0; l < count; l += kLanes)
            for (int k = 0; k < kLanes; ++k) {
                const double value = l + k < count ? static_cast<double>(x[l + k]) : 0.0;
                lane[k] += value * value;
            }
    }
    BK_HD double total() const {
        double sum = 0;
        for (double each : lane) sum += each;
        return sum;
    }
};

template <class T>
struct LambCpu {
    using C = compute_t<T>;
    const Table& table;
    const Common& common;
    const Prepared<Lamb<C>, C> now;
    const LambSums<C>& sums;

    template <class Update>
    static BK_HD void for_spans(const Slot& slot, const Update& update) {
        for (int64_t i = slot.begin(); i < slot.end(); i += kStateBlock)
            update(i, static_cast<int>(std::min<int64_t>(kStateBlock, slot.end() - i)));
    }
    BK_HD StoredWeights<T> weights_of(const Slot& slot) const {
        return {static_cast<T*>(slot.of.param), slot.of.master, common.rounding};
    }

    BK_HD void moments(int64_t chunk) const {
        const Slot slot = table.at(chunk);
        if (slot.grad == nullptr) return;
        LaneSums<C> weight, update;
        for_spans(slot, [&](int64_t i, int count) {
            T* const grad = static_cast<T*>(slot.grad) + i;
            if (!now.is_skipped) {
                C p[kStateBlock], g[kStateBlock], u[kStateBlock];
                C *const m = static_cast<C*>(slot.of.state[0]) + i, *const v = static_cast<C*>(slot.of.state[1]) + i;
                widen_span(grad, count, g);
                weights_of(slot).read(i, count, p);
                BK_VECTOR_LOOP for (int l = 0; l < count; ++l) {
                    C first = m[l], second = v[l];
                    now.rule.moments.add(g[l] * now.multiplier + now.rule.decay_of_gradient * p[l], first, second);
                    m[l] = first;
                    v[l] = second;
                    u[l] = now.rule.direction(p[l], first, second);
                }
                weight.add(p, count);
                update.add(u, count);
            }
            if (common.zeroes_grads) memset(static_cast<void*>(grad), 0, sizeof(T) * static_cast<size_t>(count));
        });
        if (now.is_skipped) return;
        const bool is_single = LambSums<C>::is_single(slot.of.size);
        C* const to = is_single ? nullptr : sums.partials_of(slot.tensor, slot.of.first_chunk) + 2 * slot.chunk;
        *(is_single ? sums.weight + slot.tensor : to) = static_cast<C>(weight.total());
        *(is_single ? sums.update + slot.tensor : to + 1) = static_cast<C>(update.total());
    }

    void norms(int64_t tensor) const {
        const Entry entry = table.entry(tensor);
        double weight = 0, update = 0;
        if (entry.size > 0 && LambSums<C>::is_single(entry.size)) {
            weight = static_cast<double>(sums.weight[tensor]);
            update = static_cast<double>(sums.update[tensor]);
        } else if (entry.size > 0) {
            const C* const from = sums.partials_of(tensor, entry.first_chunk);
            for (int64_t c = 0; c < chunks_of(entry.size); ++c) {
                weight += static_cast<double>(from[2 * c]);
                update += static_cast<double>(from[2 * c + 1]);
            }
        }
        sums.weight[tensor] = static_cast<C>(std::sqrt(weight));
        sums.update[tensor] = static_cast<C>(std::sqrt(update));
    }

    BK_HD void weights(int64_t chunk) const {
        const Slot slot = table.at(chunk);
        if (slot.grad == nullptr) return;
        const C rate = now.rule.lr * now.rule.ratio(sums.weight[slot.tensor], sums.update[slot.tensor]);
        for_spans(slot, [&](int64_t i, int count) {
            C p[kStateBlock];
            const C *const m = static_cast<C*>(slot.of.state[0]) + i, *const v = static_cast<C*>(slot.of.state[1]) + i;
            weights_of(slot).read(i, count, p);
            if (!now.is_frozen) {
                BK_VECTOR_LOOP for (int l = 0; l < count; ++l) p[l] = p[l] - rate * now.rule.direction(p[l], m[l], v[l]);
                weights_of(slot).write(i, count, p, RandomBits::of(common.seed, now.step, slot.tensor));
            }
            if (slot.of.ema == nullptr) return;
            C* const e = static_cast<C*>(slot.of.ema) + i;
            BK_VECTOR_LOOP for (int l = 0; l < count; ++l) e[l] = e[l] + now.ema_weight * (p[l] - e[l]);
        });
    }
};

template <class T>
Status run_lamb(const Launch&, const Table& table, const LambSettings& settings, const Common& common,
                const LambSums<compute_t<T>>& sums) {
    using C = compute_t<T>;
    const LambCpu<T> lamb{table, common, prepare<Lamb<C>, C>(settings, common), sums};
    parallel_ranges(table.chunks, 1, [&](int64_t first, int64_t last) {
        for (int64_t chunk = first; chunk < last; ++chunk) lamb.moments(chunk);
    });
    if (lamb.now.is_skipped) return Status::kOk;
    for (int64_t tensor = 0; tensor < table.tensors; ++tensor) lamb.norms(tensor);
    parallel_ranges(table.chunks, 1, [&](int64_t first, int64_t last) {
        for (int64_t chunk = first; chunk < last; ++chunk) lamb.weights(chunk);
    });
    return Status::kOk;
}

}  // namespace bk::optim
