// SPDX-License-Identifier: Apache-2.0
// Changes of logits before sampling: repetition, frequency and presence penalties, bias, and masks of allowed tokens.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/collectives/team.h"
#include "core/types/dtype.h"
#include "sampling/flashinfer_samplers.h"
#include "sampling/sample_tokens.h"

namespace bk::sampling {

// Penalties of a token that occurred `count` times: x = x > 0 ? x / repetition : x * repetition, then
// x -= frequency * count, then x -= presence; the first for tokens of the prompt too. In f32, each operation rounded.
struct Penalties {
    float repetition, frequency, presence;

    BK_HD float apply(float x, int32_t count, bool is_in_prompt) const {
        if ((count > 0 || is_in_prompt) && repetition != 1.0f)
            x = x > 0.0f ? divide(x, repetition) : math::product<float>(x, repetition);
        if (count <= 0) return x;
        x = x - math::product<float>(frequency, static_cast<float>(count));
        return x - presence;
    }

private:
    BK_HD static float divide(float a, float b) {
#if BK_ON_GPU
        return __fdiv_rn(a, b);
#else
        return a / b;
#endif
    }
};

struct RowPenalties {
    PerRow<float> repetition, frequency, presence;

    BK_HD Penalties of(int64_t row) const { return {repetition.of(row), frequency.of(row), presence.of(row)}; }
};

constexpr int64_t kPenaltyTile = 4096;  // tokens of a team

// Dense: one pass over the logits.
template <class T>
struct DensePenaltyJob {
    int64_t vocab, tiles, words;
    const T* x;
    T* y;
    RowPenalties penalties;
    const int32_t* counts;  // may be null, as all that follow
    const uint8_t* in_prompt;
    const float* bias;
    const int32_t* allowed;  // bit t % 32 of word t / 32 of a row

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t row = item / tiles, begin = item % tiles * kPenaltyTile;
        const int64_t end = begin + kPenaltyTile < vocab ? begin + kPenaltyTile : vocab;
        const Penalties own = penalties.of(row);
        for (int64_t t = begin + team.rank; t < end; t += team.size) {
            const int64_t i = row * vocab + t;
            if (allowed != nullptr && !(static_cast<uint32_t>(allowed[row * words + t / 32]) >> (t % 32) & 1u)) {
                y[i] = narrow<T>(-bit_cast<float>(kInfinityBits));
                continue;
            }
            const int32_t count = counts == nullptr ? 0 : counts[i];
            const bool is_in_prompt = in_prompt != nullptr && in_prompt[i] != 0;
            if (count <= 0 && !is_in_prompt && bias == nullptr) {
                y[i] = x[i];
                continue;
            }
            const float value = own.apply(widen(x[i]), count, is_in_prompt);
            y[i] = narrow<T>(bias == nullptr ? value : value + bias[t]);
        }
    }
};

template <class T>
Status run_dense(const Launch& launch, int64_t batch, DensePenaltyJob<T> job) {
    job.tiles = ceil_div(job.vocab, kPenaltyTile);
    const int64_t bytes = std::min(job.vocab, kPenaltyTile) * static_cast<int64_t>(2 * sizeof(T) + sizeof(int32_t));
    return run_teams(launch, batch * job.tiles, bytes, job);
}

template <class T>
struct ApplyTokenPenalty {
    int32_t batch, vocab;
    float rep_penalty, freq_penalty, pres_penalty;

    Work work() const { return Work::kAll; }
    Status check() const { return require_positive({{"batch", batch}, {"vocab", vocab}}); }
    Status run(T* logits, const int32_t* counts, const Launch& launch) const {
        DensePenaltyJob<T> job{};
        job.vocab = vocab;
        job.x = logits;
        job.y = logits;
        job.penalties = {{rep_penalty, nullptr}, {freq_penalty, nullptr}, {pres_penalty, nullptr}};
        job.counts = counts;
        return as_invalid(run_dense(launch, batch, job));
    }
};

template <class T>
struct ProcessLogits {
    int32_t batch, vocab, words;
    float repetition, frequency, presence;

    Work work() const { return all_or_none(int64_t{batch} * vocab); }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"vocab", vocab}, {"words", words}}));
        const int64_t needed = ceil_div<int64_t>(vocab, 32);
        if (words != 0 && words < needed)
            return fail(Status::kInvalidProblem, "words is %d, must be 0 or at least %lld for vocab %d", words,
                        static_cast<long long>(needed), vocab);
        return Status::kOk;
    }
    Status run(const T* logits, const float* repetition_of, const float* frequency_of, const float* presence_of,
               const int32_t* counts, const uint8_t* in_prompt, const float* bias, const int32_t* allowed, T* y,
               const Launch& launch) const {
        DensePenaltyJob<T> job{};
        job.vocab = vocab;
        job.words = words;
        job.x = logits;
        job.y = y;
        job.penalties = {{repetition, repetition_of}, {frequency, frequency_of}, {presence, presence_of}};
        job.counts = counts;
        job.in_prompt = in_prompt;
        job.bias = bias;
        job.allowed = words > 0 ? allowed : nullptr;
        return run_dense(launch, batch, job);
    }
};

// y = x, unless they are one.
template <class T>
Status copy_rows(const Launch& launch, int64_t batch, int64_t vocab, const T* x, T* y) {
    if (x == y) return Status::kOk;
    DensePenaltyJob<T> job{};
    job.vocab = vocab;
    job.x = x;
    job.y = y;
    return run_dense(launch, batch, job);
}

// Sparse: lists of tokens. The thread with the first occurrence of a token changes its logit; others do nothing, so that
// every logit has one writer. Work grows with the square of the length.
template <class T>
struct ListPenaltyJob {
    int64_t vocab, length;
    T* logits;
    const int32_t* tokens;
    const int32_t* prompt_length;  // of each row, or null
    RowPenalties penalties;

    BK_HD void operator()(const Team& team, int64_t row) const {
        const int32_t* const list = tokens + row * length;
        const int64_t prompt = prompt_length == nullptr ? 0 : prompt_length[row];
        const Penalties own = penalties.of(row);
        for (int64_t i = team.rank; i < length; i += team.size) {
            const int32_t token = list[i];
            if (token < 0 || token >= vocab) continue;
            bool is_first = true;
            for (int64_t k = 0; k < i && is_first; ++k) is_first = list[k] != token;
            if (!is_first) continue;
            int32_t count = 0;
            for (int64_t k = i; k < length; ++k) count += list[k] == token && k >= prompt ? 1 : 0;
            T* const x = logits + row * vocab + token;
            *x = narrow<T>(own.apply(widen(*x), count, i < prompt));
        }
    }
};

template <class T>
struct TokenPenaltyLists {
    int32_t batch, vocab, length;
    float repetition, frequency, presence;

    Work work() const { return all_or_none(int64_t{batch} * vocab); }
    Status check() const { return require_non_negative({{"batch", batch}, {"vocab", vocab}, {"length", length}}); }
    Status run(const T* logits, const int32_t* tokens, const int32_t* prompt_length, const float* repetition_of,
               const float* frequency_of, const float* presence_of, T* y, const Launch& launch) const {
        BK_TRY(copy_rows(launch, batch, vocab, logits, y));
        if (length == 0) return Status::kOk;
        const RowPenalties penalties{{repetition, repetition_of}, {frequency, frequency_of}, {presence, presence_of}};
        const ListPenaltyJob<T> job{vocab, length, y, tokens, prompt_length, penalties};
        return run_teams(launch, batch, static_cast<int64_t>(length) * 4, job);
    }
};

// logits[token] += bias, of a token that stands twice the sum of its numbers, in list order; without numbers -inf.
template <class T>
struct ListBiasJob {
    int64_t vocab, length;
    T* logits;
    const int32_t* tokens;
    const float* bias;  // or null

    BK_HD void operator()(const Team& team, int64_t row) const {
        const int32_t* const list = tokens + row * length;
        for (int64_t i = team.rank; i < length; i += team.size) {
            const int32_t token = list[i];
            if (token < 0 || token >= vocab) continue;
            bool is_first = true;
            for (int64_t k = 0; k < i && is_first; ++k) is_first = list[k] != token;
            if (!is_first) continue;
            T* const x = logits + row * vocab + token;
            if (bias == nullptr) {
                *x = narrow<T>(-bit_cast<float>(kInfinityBits));
                continue;
            }
            float sum = 0.0f;
            for (int64_t k = i; k < length; ++k)
                if (list[k] == token) sum += bias[row * length + k];
            *x = narrow<T>(widen(*x) + sum);
        }
    }
};

template <class T>
struct TokenBiasLists {
    int32_t batch, vocab, length;

    Work work() const { return all_or_none(int64_t{batch} * vocab); }
    Status check() const { return require_non_negative({{"batch", batch}, {"vocab", vocab}, {"length", length}}); }
    Status run(const T* logits, const int32_t* tokens, const float* bias, T* y, const Launch& launch) const {
        BK_TRY(copy_rows(launch, batch, vocab, logits, y));
        if (length == 0) return Status::kOk;
        return run_teams(launch, batch, static_cast<int64_t>(length) * 4, ListBiasJob<T>{vocab, length, y, tokens, bias});
    }
};

}  // namespace bk::sampling
