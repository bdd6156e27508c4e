// SPDX-License-Identifier: Apache-2.0
// A thread updates chunks, kStateBlock elements at a time in buffers of the compute type, so that its loops are vectorised
// for every storage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/abi/launch.h"
#include "optim/spans_cpu.h"
#include "optim/step.h"

namespace bk::optim {

template <class Rule, class C>
struct StateSpan {
    C s[Rule::kStates][kStateBlock];
};

template <class Rule, class C>
BK_HD void read_states(const Slot& slot, int64_t i, int count, bool is_short, StateSpan<Rule, C>& to) {
    for (int k = 0; k < Rule::kStates; ++k) {
        C* const s = to.s[k];
        void* const from = slot.of.state[k];
        if (from == nullptr) {
            for (int l = 0; l < count; ++l) s[l] = C(0);
        } else if (is_short) {
            const uint8_t* const codes = static_cast<const uint8_t*>(from) + i;
            const float scale = scales_of(from, slot.of.size)[i / kStateBlock];
            if (Rule::kSigned >> k & 1)
                BK_VECTOR_LOOP for (int l = 0; l < count; ++l) s[l] = static_cast<C>(decode_signed(codes[l], scale));
            else
                BK_VECTOR_LOOP for (int l = 0; l < count; ++l) s[l] = static_cast<C>(decode_positive(codes[l], scale));
        } else {
            memcpy(s, static_cast<const C*>(from) + i, sizeof(C) * static_cast<size_t>(count));
        }
    }
}

template <class Rule, class C>
BK_HD void write_states(const Slot& slot, int64_t i, int count, bool is_short, const StateSpan<Rule, C>& from) {
    for (int k = 0; k < Rule::kStates; ++k) {
        const C* const s = from.s[k];
        void* const to = slot.of.state[k];
        if (to == nullptr) continue;
        if (!is_short) {
            memcpy(static_cast<C*>(to) + i, s, sizeof(C) * static_cast<size_t>(count));
            continue;
        }
        float most = 0;
        for (int l = 0; l < count; ++l) most = larger(most, math::fabs<float>(static_cast<float>(s[l])));
        const float scale = most != 0.0f ? most : 1.0f;
        uint8_t* const codes = static_cast<uint8_t*>(to) + i;
        if (Rule::kSigned >> k & 1)
            BK_VECTOR_LOOP for (int l = 0; l < count; ++l) codes[l] = encode_signed(static_cast<float>(s[l]), scale);
        else
            BK_VECTOR_LOOP for (int l = 0; l < count; ++l) codes[l] = encode_positive(static_cast<float>(s[l]), scale);
        scales_of(to, slot.of.size)[i / kStateBlock] = most;
    }
}

template <class Rule, class C>
BK_HD void apply_rule(const Prepared<Rule, C>& now, int count, const C* g, C* p, StateSpan<Rule, C>& states) {
    BK_VECTOR_LOOP for (int l = 0; l < count; ++l) {
        C s[Rule::kStates];
        for (int k = 0; k < Rule::kStates; ++k) s[k] = states.s[k][l];
        const C next = now.rule(p[l], g[l] * now.multiplier, s);
        p[l] = now.is_frozen ? p[l] : next;
        for (int k = 0; k < Rule::kStates; ++k) states.s[k][l] = s[k];
    }
}

template <class Rule, class T>
BK_HD void update_span(const Prepared<Rule, compute_t<T>>& now, const Common& common, const Slot& slot, int64_t i, int count) {
    using C = compute_t<T>;
    T* const grad = static_cast<T*>(slot.grad) + i;
    if (!now.is_skipped) {
        const StoredWeights<T> weights{static_cast<T*>(slot.of.param), slot.of.master, common.rounding};
        C g[kStateBlock], p[kStateBlock];
        StateSpan<Rule, C> states;
        const bool is_short = common.state_bits == 8;
        widen_span(grad, count, g);
        weights.read(i, count, p);
        read_states<Rule, C>(slot, i, count, is_short, states);
        apply_rule<Rule, C>(now, count, g, p, states);
        write_states<Rule, C>(slot, i, count, is_short, states);
        if (!now.is_frozen) weights.write(i, count, p, RandomBits::of(common.seed, now.step, slot.tensor));
        if (slot.of.ema != nullptr) {
            C* const e = static_cast<C*>(slot.of.ema) + i;
            BK_VECTOR_LOOP for (int l = 0; l < count; ++l) e[l] = e[l] + now.ema_weight * (p[l] - e[l]);
        }
    }
    if (common.zeroes_grads) memset(static_cast<void*>(grad), 0, sizeof(T) * static_cast<size_t>(count));
}

template <class Rule, class T>
Status run_step(const Launch&, const Table& table, const typename Rule::Settings& settings, const Common& common) {
    const Prepared<Rule, compute_t<T>> now = prepare<Rule, compute_t<T>>(settings, common);
    parallel_ranges(table.chunks, 1, [&](int64_t first, int64_t last) {
        for (int64_t chunk = first; chunk < last; ++chunk) {
            const Slot slot = table.at(chunk);
            if (slot.grad == nullptr) continue;
            for (int64_t i = slot.begin(); i < slot.end(); i += kStateBlock)
                update_span<Rule, T>(now, common, slot, i, static_cast<int>(std::min<int64_t>(kStateBlock, slot.end() - i)));
        }
    });
    return Status::kOk;
}

}  // namespace bk::optim
