// SPDX-License-Identifier: Apache-2.0
// Quantises new key and value rows into caches of 8-bit elements in pages: symmetric, with a factor for each token and head
// (as KIVI, Liu et al. 2024, quantises values by token): scale = max |x| / M and element = x / scale, rounded to nearest,
// where M is 127 or the largest number of the 8-bit float. A row with NaN or an infinity has the scale inf and is NaN when
// it is read; a row of zeros has the scale 0.
#pragma once

#include <cstdint>

#include "attention/serving/paged_append.h"
#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/types/fp8.h"

namespace bk {

template <class KV>
constexpr float kMostOf = 127.0f;
template <>
constexpr float kMostOf<e4m3> = 448.0f;
template <>
constexpr float kMostOf<e5m2> = 57344.0f;

template <class KV>
BK_HD KV quantized(float x, float scale) {
    constexpr float kMost = kMostOf<KV>;
    float ratio = scale == 0 ? 0.0f : x / scale;
    ratio = ratio < -kMost ? -kMost : ratio > kMost ? kMost : ratio;
    if constexpr (std::is_same_v<KV, int8_t>)
        return ratio == ratio ? static_cast<int8_t>(math::rint<float>(ratio)) : int8_t{0};
    else
        return float_to_fp8<KV>(ratio);
}

template <class T, class KV>
struct QuantizedAppendJob {
    PagedTokens tokens;
    int64_t heads;
    int64_t d[2];
    const T* source[2];
    KV* cache[2];
    float* scales[2];

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t token = item / heads, head = item % heads;
        const PagedTokens::Slot to = tokens.slot_of(token);
        if (to.page < 0) return;
        const int64_t row = (to.page * heads + head) * tokens.page_size + to.slot;
        for (int kind = 0; kind < 2; ++kind) {
            const T* const x = source[kind] + item * d[kind];
            float largest = 0;
            for (int64_t e = team.rank; e < d[kind]; e += team.size) {
                const float magnitude = math::fabs<float>(static_cast<float>(widen(x[e])));
                if (!(magnitude <= largest)) largest = magnitude == magnitude ? magnitude : kInfinity<float>;
            }
            const float scale = team.largest(largest) / kMostOf<KV>;
            for (int64_t e = team.rank; e < d[kind]; e += team.size)
                cache[kind][row * d[kind] + e] = quantized<KV>(static_cast<float>(widen(x[e])), scale);
            if (team.rank == 0) scales[kind][row] = scale;
        }
    }
};

template <class T, class KV>
struct PagedKvAppendQuantized : PagedKvAppend<T> {
    Status run(const T* k_new, const T* v_new, const int32_t* batch_indices, const int32_t* positions, const int32_t* page_ids,
               const int32_t* page_offsets, KV* k_cache, KV* v_cache, float* k_scales, float* v_scales,
               const Launch& launch) const {
        const QuantizedAppendJob<T, KV> job{{this->batch, this->page_size, this->num_pages, this->num_page_ids, page_ids,
                                             page_offsets, batch_indices, positions, nullptr},
                                            this->heads,
                                            {this->d_k, this->d_v},
                                            {k_new, v_new},
                                            {k_cache, v_cache},
                                            {k_scales, v_scales}};
        const int64_t bytes = (int64_t{this->d_k} + this->d_v) * size_of<T>();
        return run_teams(launch, int64_t{this->num_tokens} * this->heads, bytes, job);
    }
};

}  // namespace bk
