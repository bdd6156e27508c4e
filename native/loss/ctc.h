// Connectionist temporal classification: the probability that frames, each with one class or the blank, spell the targets.
//
// The states of a sample are its labels with a blank before, between and behind them. alpha[t, k] is the logarithm of the
// probability of all paths through the first t + 1 frames that end in state k, beta[t, k] that of the rest of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/math/math.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/team.h"
#include "loss/reduction.h"

namespace bk {

// ln(exp(a) + exp(b) + exp(c)).
template <class C>
BK_HD C log_sum(C a, C b, C c) {
    const C most = math::max(math::max(a, b), c);
    if (most == -C(INFINITY)) return a + b + c;
    return most + math::log<C>(math::exp<C>(a - most) + math::exp<C>(b - most) + math::exp<C>(c - most));
}

template <class C>
BK_HD bool is_finite(C x) {
    return x < C(INFINITY) && x > -C(INFINITY);
}

// A batch, and where its operands lie.
template <class T>
struct CtcBatch {
    using C = compute_t<T>;
    int64_t max_time, samples, classes, max_labels, blank;
    const T* log_probs;
    const int64_t *targets, *input_lengths, *target_lengths;

    BK_HD static int64_t bounded(int64_t length, int64_t most) { return length < 0 ? 0 : length > most ? most : length; }
    BK_HD int64_t frames(int64_t n) const { return bounded(input_lengths[n], max_time); }
    BK_HD int64_t labels(int64_t n) const { return bounded(target_lengths[n], max_labels); }
    BK_HD int64_t states() const { return 2 * max_labels + 1; }
    BK_HD int64_t class_of(int64_t n, int64_t state) const {
        return state % 2 == 0 ? blank : targets[n * max_labels + state / 2];
    }
    // A class that there is not never comes.
    BK_HD C emission(int64_t t, int64_t n, int64_t c) const {
        return c >= 0 && c < classes ? widen(log_probs[(t * samples + n) * classes + c]) : -C(INFINITY);
    }
    // Whether a path may step into a state from the one before the last: past a blank, between labels that differ.
    BK_HD bool skips_into(int64_t n, int64_t state) const {
        if (state < 2) return false;
        const int64_t c = class_of(n, state);
        return c != blank && c != class_of(n, state - 2);
    }
    BK_HD int64_t place(int64_t t, int64_t n) const { return (t * samples + n) * states(); }
    // From the finished alphas.
    BK_HD C loss(const C* alpha, int64_t n) const {
        const int64_t last = frames(n) - 1, end = 2 * labels(n);
        if (last < 0) return end == 0 ? C(0) : C(INFINITY);
        const C* const row = alpha + place(last, n);
        return -log_sum(row[end], end > 0 ? row[end - 1] : -C(INFINITY), -C(INFINITY));
    }
};

template <class T>
struct CtcForward {
    using C = compute_t<T>;
    CtcBatch<T> batch;
    bool zeroes_infinity;
    C* alpha;
    C* losses;  // of each sample; may be null
    T* out;     // the losses of all samples, rounded to T; may be null

    BK_HD C loss(int64_t n) const {
        const C found = batch.loss(alpha, n);
        return zeroes_infinity && !is_finite(found) ? C(0) : found;
    }
    BK_HD void operator()(const Team& team, int64_t n) const {
        const int64_t frames = batch.frames(n), end = 2 * batch.labels(n);
        for (int64_t t = 0; t < batch.max_time; ++t) {
            C* const row = alpha + batch.place(t, n);
            for (int64_t k = team.rank; k < batch.states(); k += team.size) {
                C from = -C(INFINITY);
                if (t < frames && k <= end) {
                    if (t == 0) {
                        from = k < 2 ? C(0) : from;
                    } else {
                        const C* const before = alpha + batch.place(t - 1, n);
                        from = log_sum(before[k], k > 0 ? before[k - 1] : from, batch.skips_into(n, k) ? before[k - 2] : from);
                    }
                    from += batch.emission(t, n, batch.class_of(n, k));
                }
                row[k] = from;
            }
            team.sync();
        }
        if (team.rank != 0) return;
        const C found = loss(n);
        if (losses != nullptr) losses[n] = found;
        if (out != nullptr) out[n] = narrow<T>(found);
    }
};

// The sum of the losses, or that over the sum of the lengths of the targets.
template <class T>
struct CtcTotal {
    using C = compute_t<T>;
    CtcForward<T> forward;
    bool is_mean;
    T* out;

    BK_HD void operator()(const Team& team, int64_t) const {
        C sum = 0;
        int64_t labels = 0;
        for (int64_t n = team.rank; n < forward.batch.samples; n += team.size) {
            sum += forward.loss(n);
            labels += forward.batch.labels(n);
        }
        sum = team.sum(sum);
        labels = team.sum(labels);
        if (team.rank == 0) *out = narrow<T>(is_mean ? sum / static_cast<C>(labels > 0 ? labels : 1) : sum);
    }
};

// The gradient of the logits of which log_probs is the log-softmax: exp(log_probs) less the share of each class in a frame.
template <class T>
struct CtcGradient {
    using C = compute_t<T>;
    CtcBatch<T> batch;
    bool zeroes_infinity;
    int64_t dy_step;
    C factor;
    const C *alpha, *losses;
    const T* dloss;
    C* betas;  // null: in the scratch of the team
    T* dlog_probs;

    BK_HD T* frame(int64_t t, int64_t n) const { return dlog_probs + (t * batch.samples + n) * batch.classes; }

    // In place: states read those behind them, and a step of the team is read before it is written.
    BK_HD void step_beta(const Team& team, int64_t t, int64_t n, int64_t end, C* beta) const {
        const auto through = [&](int64_t state) { return beta[state] + batch.emission(t + 1, n, batch.class_of(n, state)); };
        for (int64_t first = 0; first <= end; first += team.size) {
            const int64_t k = first + team.rank;
            C next = -C(INFINITY);
            if (k <= end)
                next = log_sum(through(k), k < end ? through(k + 1) : -C(INFINITY),
                               k + 2 <= end && batch.skips_into(n, k + 2) ? through(k + 2) : -C(INFINITY));
            team.sync();
            if (k <= end) beta[k] = next;
        }
        team.sync();
    }

    BK_HD void write_frame(const Team& team, int64_t t, int64_t n, int64_t end, const C* beta, C scale) const {
        const C* const row = alpha + batch.place(t, n);
        const C loss = losses[n];
        const auto share = [&](int64_t k) { return loss == C(INFINITY) ? C(0) : math::exp<C>(row[k] + beta[k] + loss); };
        C blanks = 0;
        for (int64_t k = team.rank; k <= end; k += team.size)
            if (batch.class_of(n, k) == batch.blank) blanks += share(k);
        blanks = team.sum(blanks);
        T* const cell = frame(t, n);
        for (int64_t c = team.rank; c < batch.classes; c += team.size)
            cell[c] = narrow<T>((math::exp<C>(batch.emission(t, n, c)) - (c == batch.blank ? blanks : C(0))) * scale);
        team.sync();
        // The first state of each label speaks for all of them.
        const int64_t* const label = batch.targets + n * batch.max_labels;
        for (int64_t i = team.rank; i < end / 2; i += team.size) {
            const int64_t c = label[i];
            bool is_first = c >= 0 && c < batch.classes && c != batch.blank;
            for (int64_t j = 0; j < i && is_first; ++j) is_first = label[j] != c;
            if (!is_first) continue;
            C all = 0;
            for (int64_t j = i; j < end / 2; ++j)
                if (label[j] == c) all += share(2 * j + 1);
            cell[c] = narrow<T>((math::exp<C>(batch.emission(t, n, c)) - all) * scale);
        }
    }

    BK_HD void operator()(const Team& team, int64_t n) const {
        const int64_t frames = batch.frames(n), end = 2 * batch.labels(n);
        const bool is_zeroed = zeroes_infinity && !is_finite(batch.loss(alpha, n));
        const C scale = widen(dloss[n * dy_step]) * factor;
        for (int64_t t = is_zeroed ? 0 : frames; t < batch.max_time; ++t)
            for (int64_t c = team.rank; c < batch.classes; c += team.size) frame(t, n)[c] = narrow<T>(C(0));
        if (is_zeroed) return;
        C* const beta = betas == nullptr ? static_cast<C*>(team.scratch) : betas + n * batch.states();
        for (int64_t k = team.rank; k <= end; k += team.size) beta[k] = k + 1 >= end ? C(0) : -C(INFINITY);
        team.sync();
        for (int64_t t = frames - 1; t >= 0; --t) {
            if (t + 1 < frames) step_beta(team, t, n, end, beta);
            write_frame(team, t, n, end, beta, scale);
            team.sync();
        }
    }
};

BK_COLD inline Status check_ctc(int32_t max_time, int32_t batch_size, int32_t num_classes, int32_t max_target_len,
                                int32_t blank, int32_t reduction_mode) {
    BK_TRY(require_non_negative({{"max_time", max_time},
                                 {"batch_size", batch_size},
                                 {"num_classes", num_classes},
                                 {"max_target_len", max_target_len}}));
    if (blank < 0 || blank >= num_classes)
        return fail(Status::kInvalidProblem, "blank is %d, must be in [0, num_classes), %d", blank, num_classes);
    return check_loss({}, reduction_mode);
}

template <class T>
struct Ctc {
    using C = compute_t<T>;
    int32_t max_time;
    int32_t batch_size;
    int32_t num_classes;
    int32_t max_target_len;
    int32_t blank;
    int32_t reduction_mode;
    int32_t zero_infinity;

    Status check() const { return check_ctc(max_time, batch_size, num_classes, max_target_len, blank, reduction_mode); }
    Work work() const { return work_of_loss(batch_size, reduction_mode); }
    int64_t results() const { return results_of_loss(batch_size, reduction_mode); }
    int64_t states() const { return 2 * int64_t{max_target_len} + 1; }
    size_t workspace_size() const { return static_cast<size_t>(batch_size) * sizeof(C); }
    Status run(const T* log_probs, const int64_t* targets, const int64_t* input_lengths, const int64_t* target_lengths,
               C* alpha_ws, T* out, const Launch& launch) const {
        if (batch_size == 0) return write_zeros(launch, 1, out);
        bool found = false;
        BK_TRY(find_workspace(launch, workspace_size(), &found));
        found = found && reinterpret_cast<uintptr_t>(launch.workspace) % sizeof(C) == 0;
        C* const losses = found ? static_cast<C*>(launch.workspace) : nullptr;
        const CtcBatch<T> batch{max_time,  batch_size, num_classes,   max_target_len, blank,
                                log_probs, targets,    input_lengths, target_lengths};
        const CtcForward<T> forward{batch, zero_infinity != 0, alpha_ws, losses, reduction_mode == kEachTerm ? out : nullptr};
        BK_TRY(run_teams(launch, batch_size, states() * 16, forward));
        if (reduction_mode == kEachTerm) return Status::kOk;
        return run_teams(launch, 1, 4096, CtcTotal<T>{forward, reduction_mode == kMeanOfTerms, out});
    }
};

template <class T>
struct CtcBackward {
    using C = compute_t<T>;
    int32_t max_time;
    int32_t batch_size;
    int32_t num_classes;
    int32_t max_target_len;
    int32_t blank;
    int32_t reduction_mode;
    int32_t zero_infinity;
    float inv_denom;

    Status check() const { return check_ctc(max_time, batch_size, num_classes, max_target_len, blank, reduction_mode); }
    Work work() const { return batch_size == 0 || max_time == 0 ? Work::kNone : Work::kAll; }
    int64_t results() const { return results_of_loss(batch_size, reduction_mode); }
    int64_t states() const { return 2 * int64_t{max_target_len} + 1; }
    size_t workspace_size() const { return static_cast<size_t>(batch_size * states()) * sizeof(C) + sizeof(C) - 1; }
    Status run(const T* log_probs, const int64_t* targets, const int64_t* input_lengths, const int64_t* target_lengths,
               const C* alpha_ws, const C* per_sample_loss, const T* dloss, T* dlog_probs, const Launch& launch) const {
        const uintptr_t address = reinterpret_cast<uintptr_t>(launch.workspace);
        const uintptr_t aligned = (address + sizeof(C) - 1) / sizeof(C) * sizeof(C);
        const size_t needed = static_cast<size_t>(batch_size * states()) * sizeof(C) + (aligned - address);
        const size_t given = launch.workspace == nullptr ? 0 : launch.workspace_bytes;
        const bool fits = given == 0 && static_cast<size_t>(states()) * sizeof(C) <= kTeamScratch;
        if (given < needed && !fits)
            return fail(Status::kWorkspaceTooSmall, "workspace_bytes is %zu, must be >= %zu", given, needed);
        const CtcBatch<T> batch{max_time,  batch_size, num_classes,   max_target_len, blank,
                                log_probs, targets,    input_lengths, target_lengths};
        return run_teams(
            launch, batch_size, states() * 16,
            CtcGradient<T>{batch, zero_infinity != 0, reduction_mode == kEachTerm ? 1 : 0, static_cast<C>(inv_denom), alpha_ws,
                           per_sample_loss, dloss, fits ? nullptr : reinterpret_cast<C*>(aligned), dlog_probs},
            fits);
    }
};

}  // namespace bk
