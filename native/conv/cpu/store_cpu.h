// SPDX-License-Identifier: Apache-2.0
// Epilogues of convolution on the CPU: sums of one channel, or of one position, become results.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/problem.h"
#include "core/types/convert.h"
#include "gemm/cpu/matmul_store_cpu.h"

namespace bk {

// Copies between elements `pitch` apart and adjacent ones.
template <class To, class From, class Convert>
BK_HD void store_apart(To* to, int64_t pitch, const From* from, int64_t count, const Convert& convert) {
    if (pitch == 1)
        for (int64_t x = 0; x < count; ++x) to[x] = convert(from[x]);
    else
        for (int64_t x = 0; x < count; ++x) to[x * pitch] = convert(from[x]);
}

// `result` may be moved to another phase of the gradient of data, and c and z with it.
template <class T>
struct TapSumStore {
    using E = matmul_element_t<T>;
    using S = matmul_scalar_t<T>;
    ConvEpilogue<T> e;
    E* result;

    // Whether results that are not stored yet may hold scratch.
    bool may_hold_scratch() const { return e.beta == 0 || e.c == nullptr || e.c != result; }
    TapSumStore moved(int64_t offset) const {
        TapSumStore to = *this;
        to.result += offset;
        if (to.e.c != nullptr) to.e.c += offset;
        if (to.e.z != nullptr) to.e.z += offset;
        return to;
    }

    // `count` sums, whose results begin at offset `at` and are `pitch` apart.
    template <int kMost, class Sum>
    BK_HD void of_channel(const Sum* sums, int64_t channel, int64_t count, int64_t at, int64_t pitch) const {
        alignas(64) S values[kMost];
        const S bias = e.bias != nullptr ? static_cast<S>(widen(e.bias[channel])) : S(0);
        for (int64_t x = 0; x < count; ++x) values[x] = e.alpha * static_cast<S>(sums[x]);
        add_c(values, count, at, pitch);
        if (e.bias != nullptr)
            for (int64_t x = 0; x < count; ++x) values[x] += bias;
        finish(values, count, at, pitch);
    }
    template <int kMost, class Sum>
    BK_HD void of_position(const Sum* sums, int64_t channel, int64_t count, int64_t at, int64_t pitch) const {
        alignas(64) S values[kMost];
        for (int64_t x = 0; x < count; ++x) values[x] = e.alpha * static_cast<S>(sums[x]);
        add_c(values, count, at, pitch);
        if (e.bias != nullptr)
            for (int64_t x = 0; x < count; ++x) values[x] += static_cast<S>(widen(e.bias[channel + x]));
        finish(values, count, at, pitch);
    }

private:
    BK_HD void add_c(S* values, int64_t count, int64_t at, int64_t pitch) const {
        if (e.c == nullptr || e.beta == 0) return;
        for (int64_t x = 0; x < count; ++x) values[x] += e.beta * static_cast<S>(widen(e.c[at + x * pitch]));
    }
    BK_HD void finish(S* values, int64_t count, int64_t at, int64_t pitch) const {
        const auto stored = [](S value) BK_INLINED {
            if constexpr (std::is_same_v<E, S>)
                return value;
            else
                return narrow<E>(value);
        };
        if (e.z != nullptr) store_apart(e.z + at, pitch, values, count, stored);
        if (e.activation != Activation::kNone) activate_span<E>(e.activation, values, count);
        store_apart(result + at, pitch, values, count, stored);
    }
};

// Sums of 8-bit products.
struct TapSumInt8Store {
    ConvInt8Epilogue e;
    void* result;

    bool may_hold_scratch() const { return false; }
    TapSumInt8Store moved(int64_t) const { return *this; }

    template <int kMost, class Sum>
    BK_HD void of_channel(const Sum* sums, int64_t channel, int64_t count, int64_t at, int64_t pitch) const {
        store<kMost>(sums, channel, 0, count, at, pitch);
    }
    template <int kMost, class Sum>
    BK_HD void of_position(const Sum* sums, int64_t channel, int64_t count, int64_t at, int64_t pitch) const {
        store<kMost>(sums, channel, 1, count, at, pitch);
    }

private:
    // Consecutive sums are of channels `step` apart.
    template <int kMost, class Sum>
    BK_HD void store(const Sum* sums, int64_t channel, int64_t step, int64_t count, int64_t at, int64_t pitch) const {
        if (e.type == ConvResult::kI32)
            return store_apart(static_cast<int32_t*>(result) + at, pitch, sums, count,
                               [](Sum sum) BK_INLINED { return saturated_sum(static_cast<int64_t>(sum)); });
        alignas(64) float values[kMost];
        for (int64_t x = 0; x < count; ++x) {
            const float scale = e.scale != nullptr ? e.alpha * e.scale[channel + x * step] : e.alpha;
            values[x] = scale * static_cast<float>(sums[x]);
        }
        if (e.bias != nullptr)
            for (int64_t x = 0; x < count; ++x) values[x] += e.bias[channel + x * step];
        if (e.activation != Activation::kNone) activate_span<float>(e.activation, values, count);
        switch (e.type) {
            case ConvResult::kF32:
                return store_apart(static_cast<float*>(result) + at, pitch, values, count,
                                   [](float value) BK_INLINED { return value; });
            case ConvResult::kF16:
                return store_apart(static_cast<f16*>(result) + at, pitch, values, count,
                                   [](float value) BK_INLINED { return narrow<f16>(value); });
            case ConvResult::kBf16:
                return store_apart(static_cast<bf16*>(result) + at, pitch, values, count,
                                   [](float value) BK_INLINED { return narrow<bf16>(value); });
            default:
                return store_apart(static_cast<int8_t*>(result) + at, pitch, values, count,
                                   [](float value) BK_INLINED { return to_integer<int8_t>(math::rint<float>(value)); });
        }
    }
};

}  // namespace bk
