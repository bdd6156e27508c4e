// SPDX-License-Identifier: Apache-2.0
// Samplers over rows of probabilities under the names that FlashInfer's have, by value or with an array of parameters.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "sampling/token_rows.h"

namespace bk::sampling {

inline Status require_positive(std::initializer_list<NamedExtent> extents) {
    for (const NamedExtent& e : extents)
        if (e.value <= 0)
            return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
    return Status::kOk;
}

inline Status require_top_k(int32_t top_k, int32_t vocab) {
    if (top_k > 0 && top_k <= vocab) return Status::kOk;
    return fail(Status::kInvalidProblem, "top_k_val is %d, must be in [1, vocab = %d]", top_k, vocab);
}

inline Status require_fraction(const char* name, float p) {
    if (p > 0.0f && p <= 1.0f) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %g, must be in (0, 1]", name, static_cast<double>(p));
}

// These symbols report a failed launch as status 2.
inline Status as_invalid(Status status) { return status == Status::kInternal ? Status::kInvalidProblem : status; }

// Sampling common to all ops; `op` has the extents and the seed.
template <class T, class Op>
Status sample_probabilities(const Op& op, const Launch& launch, const PerRow<int32_t>& top_k, const PerRow<float>& top_p,
                            const PerRow<float>& min_p, const T* probs, int32_t* output, uint8_t* valid) {
    TokenRows<T> rows{};
    rows.batch = op.batch;
    rows.vocab = op.vocab;
    rows.x = probs;
    rows.are_probabilities = true;
    rows.rule = Rule::kOriginal;
    rows.output = Output::kToken;
    rows.temperature.value = 1.0f;
    rows.top_k = top_k;
    rows.top_p = top_p;
    rows.min_p = min_p;
    rows.seeds.seed.value = op.seed_val;
    rows.seeds.offset.value = op.offset_val;
    rows.token = output;
    rows.valid = valid;
    return as_invalid(run_token_rows(launch, rows));
}

constexpr PerRow<int32_t> kAnyTopK = {INT32_MAX, nullptr};
constexpr PerRow<float> kAnyTopP = {1.0f, nullptr}, kAnyMinP = {0.0f, nullptr};

template <class T>
struct TopKSampling {
    int32_t batch, vocab, top_k_val, deterministic;
    uint64_t seed_val, offset_val;

    Work work() const { return Work::kAll; }
    Status check() const {
        BK_TRY(require_positive({{"batch", batch}, {"vocab", vocab}}));
        return require_top_k(top_k_val, vocab);
    }
    Status run(const T* probs, int32_t* output, uint8_t* valid, const Launch& launch) const {
        return sample_probabilities(*this, launch, {top_k_val, nullptr}, kAnyTopP, kAnyMinP, probs, output, valid);
    }
};

template <class T>
struct TopPSampling {
    int32_t batch, vocab;
    float top_p_val;
    int32_t deterministic;
    uint64_t seed_val, offset_val;

    Work work() const { return Work::kAll; }
    Status check() const {
        BK_TRY(require_positive({{"batch", batch}, {"vocab", vocab}}));
        return require_fraction("top_p_val", top_p_val);
    }
    Status run(const T* probs, int32_t* output, uint8_t* valid, const Launch& launch) const {
        return sample_probabilities(*this, launch, kAnyTopK, {top_p_val, nullptr}, kAnyMinP, probs, output, valid);
    }
};

template <class T>
struct MinPSampling {
    int32_t batch, vocab;
    float min_p_val;
    int32_t deterministic;
    uint64_t seed_val, offset_val;

    Work work() const { return Work::kAll; }
    Status check() const {
        BK_TRY(require_positive({{"batch", batch}, {"vocab", vocab}}));
        return require_fraction("min_p_val", min_p_val);
    }
    Status run(const T* probs, int32_t* output, uint8_t* valid, const Launch& launch) const {
        return sample_probabilities(*this, launch, kAnyTopK, kAnyTopP, {min_p_val, nullptr}, probs, output, valid);
    }
};

template <class T>
struct TopKTopPSampling {
    int32_t batch, vocab, top_k_val;
    float top_p_val;
    int32_t deterministic;
    uint64_t seed_val, offset_val;

    Work work() const { return Work::kAll; }
    Status check() const {
        BK_TRY(require_positive({{"batch", batch}, {"vocab", vocab}}));
        BK_TRY(require_top_k(top_k_val, vocab));
        return require_fraction("top_p_val", top_p_val);
    }
    Status run(const T* probs, int32_t* output, uint8_t* valid, const Launch& launch) const {
        return sample_probabilities(*this, launch, {top_k_val, nullptr}, {top_p_val, nullptr}, kAnyMinP, probs, output, valid);
    }
};

enum class Sampler { kTopK, kTopP, kMinP, kTopKTopP };

// Sampling with a parameter for each row.
template <class T, Sampler kSampler>
struct ArraySampling {
    int32_t batch, vocab, deterministic;
    uint64_t seed_val, offset_val;

    Work work() const { return Work::kAll; }
    Status check() const { return require_positive({{"batch", batch}, {"vocab", vocab}}); }
    Status run(const int32_t* top_k, const T* probs, int32_t* output, uint8_t* valid, const Launch& launch) const {
        return sample_probabilities(*this, launch, {0, top_k}, kAnyTopP, kAnyMinP, probs, output, valid);
    }
    Status run(const float* p, const T* probs, int32_t* output, uint8_t* valid, const Launch& launch) const {
        const PerRow<float> values{0.0f, p};
        constexpr bool is_top_p = kSampler == Sampler::kTopP;
        return sample_probabilities(*this, launch, kAnyTopK, is_top_p ? values : kAnyTopP, is_top_p ? kAnyMinP : values, probs,
                                    output, valid);
    }
    Status run(const int32_t* top_k, const float* top_p, const T* probs, int32_t* output, uint8_t* valid,
               const Launch& launch) const {
        return sample_probabilities(*this, launch, {0, top_k}, {0.0f, top_p}, kAnyMinP, probs, output, valid);
    }
};

}  // namespace bk::sampling
