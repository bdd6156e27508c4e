// SPDX-License-Identifier: Apache-2.0
// sample_tokens, filter_tokens and typical_sampling: temperature, top-k, top-p and min-p, by value or for each row.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "sampling/token_rows.h"

namespace bk::sampling {

inline Status require_number(const char* name, float value) {
    if (value == value) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is NaN", name);
}

inline Status require_temperature(float temperature) {
    if (temperature >= 0.0f && temperature <= 0x1.fffffep127f) return Status::kOk;
    return fail(Status::kInvalidProblem, "temperature is %g, must be finite and >= 0", static_cast<double>(temperature));
}

inline Status require_flag(const char* name, int32_t value) {
    if (value == 0 || value == 1) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %d, must be 0 or 1", name, value);
}

// The vocabulary must have a token where there are rows.
inline Status require_rows(int32_t batch, int32_t vocab) {
    BK_TRY(require_non_negative({{"batch", batch}, {"vocab", vocab}}));
    if (batch > 0 && vocab == 0) return fail(Status::kInvalidProblem, "vocab is 0, but batch is %d", batch);
    return Status::kOk;
}

// Rows under sequential filters; a null array stands for the value.
template <class T, class Op>
TokenRows<T> filtered_rows(const Op& op, const T* x, const float* temperature, const int32_t* top_k, const float* top_p,
                           const float* min_p) {
    TokenRows<T> rows{};
    rows.batch = op.batch;
    rows.vocab = op.vocab;
    rows.x = x;
    rows.are_probabilities = op.are_probabilities != 0;
    rows.rule = Rule::kSequential;
    rows.temperature = {op.temperature, temperature};
    rows.top_k = {op.top_k, top_k};
    rows.top_p = {op.top_p, top_p};
    rows.min_p = {op.min_p, min_p};
    return rows;
}

template <class Op>
Status check_filters(const Op& op) {
    BK_TRY(require_rows(op.batch, op.vocab));
    BK_TRY(require_flag("are_probabilities", op.are_probabilities));
    BK_TRY(require_temperature(op.temperature));
    BK_TRY(require_number("top_p", op.top_p));
    return require_number("min_p", op.min_p);
}

// Seeds as bit patterns of signed integers.
inline RowSeeds row_seeds(uint64_t seed, uint64_t offset, const int64_t* seeds, const int64_t* offsets, const int64_t* state) {
    return {{seed, reinterpret_cast<const uint64_t*>(seeds)},
            {offset, reinterpret_cast<const uint64_t*>(offsets)},
            reinterpret_cast<const uint64_t*>(state)};
}

template <class T>
struct SampleTokens {
    int32_t batch, vocab, are_probabilities;
    float temperature;
    int32_t top_k;
    float top_p, min_p;
    uint64_t seed, offset;

    Work work() const { return all_or_none(batch); }
    Status check() const { return check_filters(*this); }
    Status run(const T* x, const float* temperature_of, const int32_t* top_k_of, const float* top_p_of, const float* min_p_of,
               const int64_t* seed_of, const int64_t* offset_of, const int64_t* rng_state, int32_t* token, uint8_t* valid,
               const Launch& launch) const {
        TokenRows<T> rows = filtered_rows(*this, x, temperature_of, top_k_of, top_p_of, min_p_of);
        rows.output = Output::kToken;
        rows.seeds = row_seeds(seed, offset, seed_of, offset_of, rng_state);
        rows.token = token;
        rows.valid = valid;
        return run_token_rows(launch, rows);
    }
};

template <class T>
struct FilterTokens {
    int32_t batch, vocab, are_probabilities, normalize;
    float temperature;
    int32_t top_k;
    float top_p, min_p;

    Work work() const { return all_or_none(batch); }
    Status check() const {
        BK_TRY(check_filters(*this));
        return require_flag("normalize", normalize);
    }
    Status run(const T* x, const float* temperature_of, const int32_t* top_k_of, const float* top_p_of, const float* min_p_of,
               T* y, uint8_t* valid, const Launch& launch) const {
        TokenRows<T> rows = filtered_rows(*this, x, temperature_of, top_k_of, top_p_of, min_p_of);
        rows.output = normalize != 0 ? Output::kProbabilities : Output::kMask;
        rows.y = y;
        rows.valid = valid;
        return run_token_rows(launch, rows);
    }
};

template <class T>
struct TypicalSampling {
    int32_t batch, vocab;
    float temperature, typical_p;
    uint64_t seed, offset;

    Work work() const { return all_or_none(batch); }
    Status check() const {
        BK_TRY(require_rows(batch, vocab));
        if (!(temperature > 0.0f && temperature <= 0x1.fffffep127f))
            return fail(Status::kInvalidProblem, "temperature is %g, must be finite and > 0", static_cast<double>(temperature));
        return require_number("typical_p", typical_p);
    }
    Status run(const T* logits, const float* temperature_of, const float* typical_p_of, const int64_t* seed_of,
               const int64_t* offset_of, const int64_t* rng_state, int32_t* token, uint8_t* valid, const Launch& launch) const {
        TokenRows<T> rows{};
        rows.batch = batch;
        rows.vocab = vocab;
        rows.x = logits;
        rows.rule = Rule::kTypical;
        rows.output = Output::kToken;
        rows.temperature = {temperature, temperature_of};
        rows.top_p = {typical_p, typical_p_of};
        rows.seeds = row_seeds(seed, offset, seed_of, offset_of, rng_state);
        rows.token = token;
        rows.valid = valid;
        return run_token_rows(launch, rows);
    }
};

}  // namespace bk::sampling
