// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification (Graves et al. 2006): loss = -log p(targets | frames), by the forward-backward
// algorithm in log space.
//
// The states of a sample are its labels with blanks before, between and after them. alpha[t, k] is the log-probability
// of all paths through frames 0 to t that end in state k, beta[t, k] that of their continuations to the last frame.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/math/wide_range.h"
#include "core/pointwise/pointwise.h"
#include "core/row/row_map.h"
#include "loss/reduction.h"

namespace bk {

// log(exp(a) + exp(b) + exp(c)).
template <class C>
BK_HD C log_sum_exp(C a, C b, C c) {
    const C largest = math::max(math::max(a, b), c), base = math::select(largest == -C(INFINITY), C(0), largest);
    return base + math::log<C>(math::exp<C>(a - base) + math::exp<C>(b - base) + math::exp<C>(c - base));
}

// The CPU computes several states at once so that compilers vectorise over them.
constexpr int kCtcStatesPerThread = BK_CUDA ? 1 : 32;

// The paths into (or, for beta, out of) a thread's states: a stays, b goes on by one state, c skips a blank.
template <class C>
struct CtcTransitions {
    C a[kCtcStatesPerThread], b[kCtcStatesPerThread], c[kCtcStatesPerThread], sum[kCtcStatesPerThread];

    BK_HD void reduce() {
        BK_HELD_LOOP
        for (int i = 0; i < kCtcStatesPerThread; ++i) sum[i] = log_sum_exp(a[i], b[i], c[i]);
    }
};

// Targets of i32 or i64, told apart at run time: `count` in all, padded to max_labels per sample or concatenated.
struct CtcTargets {
    const void* data;
    bool is_int64, is_concatenated;
    int64_t count;

    // Past the end of the array is -1, which is no class.
    BK_HD int64_t operator[](int64_t index) const {
        if (index >= count) return -1;
        return is_int64 ? static_cast<const int64_t*>(data)[index] : int64_t{static_cast<const int32_t*>(data)[index]};
    }
};

template <class T>
struct CtcBatch {
    using C = compute_t<T>;
    int64_t max_time, samples, classes, max_labels, blank;
    const T* log_probs;
    CtcTargets targets;
    const int64_t *input_lengths, *target_lengths;

    BK_HD static int64_t clamp_length(int64_t length, int64_t limit) {
        return length < 0 ? 0 : length > limit ? limit : length;
    }
    BK_HD int64_t frames(int64_t n) const { return clamp_length(input_lengths[n], max_time); }
    BK_HD int64_t labels(int64_t n) const { return clamp_length(target_lengths[n], max_labels); }
    BK_HD int64_t states() const { return 2 * max_labels + 1; }
    // The index of the first target of sample n. All threads of the team must call it.
    BK_HD int64_t target_offset(const Team& team, int64_t n) const {
        if (!targets.is_concatenated) return n * max_labels;
        int64_t offset = 0;
        for (int64_t k = team.rank; k < n; k += team.size) offset += labels(k);
        return team.sum(offset);
    }
    // A class that is out of range has probability 0.
    BK_HD C emission(int64_t t, int64_t n, int64_t c) const {
        return c >= 0 && c < classes ? widen(log_probs[(t * samples + n) * classes + c]) : -C(INFINITY);
    }
    BK_HD int64_t alpha_offset(int64_t t, int64_t n) const { return (t * samples + n) * states(); }
    // Paths end in the last label or the blank after it; alpha must be complete.
    BK_HD C loss(const C* alpha, int64_t n) const {
        const int64_t last = frames(n) - 1, last_state = 2 * labels(n);
        if (last < 0) return last_state == 0 ? C(0) : C(INFINITY);
        const C* const row = alpha + alpha_offset(last, n);
        return -log_sum_exp(row[last_state], last_state > 0 ? row[last_state - 1] : -C(INFINITY), -C(INFINITY));
    }
};

// Sample n: its labels and the states of its paths.
template <class T>
struct CtcSample {
    using C = compute_t<T>;
    const CtcBatch<T>* batch;
    int64_t n, frames, last_state, target_offset;  // target_offset: index of the first target

    BK_HD CtcSample(const CtcBatch<T>& owner, const Team& team, int64_t index)
        : batch(&owner),
          n(index),
          frames(owner.frames(index)),
          last_state(2 * owner.labels(index)),
          target_offset(owner.target_offset(team, index)) {}

    BK_HD int64_t label(int64_t i) const { return batch->targets[target_offset + i]; }
    BK_HD int64_t class_of(int64_t state) const { return state % 2 == 0 ? batch->blank : label(state / 2); }
    // Whether a path may step from state - 2 to `state`: over a blank, between different labels.
    BK_HD bool skips_into(int64_t state) const {
        if (state < 2) return false;
        const int64_t c = class_of(state);
        return c != batch->blank && c != class_of(state - 2);
    }
    BK_HD C emission(int64_t t, int64_t state) const { return batch->emission(t, n, class_of(state)); }
    // The last state that a path can be in at frame t. Blanks can only be skipped with two classes besides the blank.
    BK_HD int64_t last_reachable(int64_t t) const {
        const int64_t bound = states_per_frame(batch->classes) * t + 1;
        return bound < last_state ? bound : last_state;
    }
    BK_HD static int64_t states_per_frame(int64_t classes) { return classes > 2 ? 2 : 1; }
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
        const C nll = batch.loss(alpha, n);
        return zeroes_infinity && !is_finite(nll) ? C(0) : nll;
    }
    BK_HD void operator()(const Team& team, int64_t n) const {
        const CtcSample<T> sample(batch, team, n);
        for (int64_t t = 0; t < batch.max_time; ++t) {
            C* const row = alpha + batch.alpha_offset(t, n);
            for (int64_t k = int64_t{team.rank} * kCtcStatesPerThread; k < batch.states();
                 k += int64_t{team.size} * kCtcStatesPerThread) {
                const int64_t remaining = batch.states() - k;
                CtcTransitions<C> transitions;
                step_alpha(transitions, sample, t, k);
                for (int i = 0; i < kCtcStatesPerThread && i < remaining; ++i) row[k + i] = transitions.sum[i];
            }
            team.sync();
        }
        if (team.rank != 0) return;
        const C nll = loss(n);
        if (losses != nullptr) losses[n] = nll;
        if (out != nullptr) out[n] = narrow<T>(nll);
    }

private:
    // alpha[t, first] and the thread's states after it; -inf past the last state or frame.
    BK_HD void step_alpha(CtcTransitions<C>& transitions, const CtcSample<T>& sample, int64_t t, int64_t first) const {
        constexpr C kLogZero = -C(INFINITY);
        if (t >= sample.frames || first > sample.last_state) {
            for (int i = 0; i < kCtcStatesPerThread; ++i) transitions.sum[i] = kLogZero;
            return;
        }
        const C* const previous = alpha + batch.alpha_offset(t - 1, sample.n);
        for (int i = 0; i < kCtcStatesPerThread; ++i) {
            const int64_t k = first + i;
            const bool has_previous = t > 0 && k <= sample.last_state;
            transitions.a[i] = has_previous ? previous[k] : t == 0 && k < 2 && k <= sample.last_state ? C(0) : kLogZero;
            transitions.b[i] = has_previous && k > 0 ? previous[k - 1] : kLogZero;
            transitions.c[i] = has_previous && sample.skips_into(k) ? previous[k - 2] : kLogZero;
        }
        transitions.reduce();
        for (int i = 0; i < kCtcStatesPerThread; ++i)
            if (first + i <= sample.last_state) transitions.sum[i] += sample.emission(t, first + i);
    }
};

// kOverLabels: sum of losses / sum of target lengths. kOverSamples: mean over the samples of loss / target length.
enum class CtcMean : int32_t { kNone, kOverLabels, kOverSamples };

// out = the sum of the losses of a batch, or their mean.
template <class T>
struct CtcReduction {
    using C = compute_t<T>;
    CtcForward<T> forward;
    CtcMean mean;
    T* out;

    BK_HD void operator()(const Team& team, int64_t) const {
        C sum = 0;
        int64_t divisor = 0;
        for (int64_t n = team.rank; n < forward.batch.samples; n += team.size) {
            const int64_t labels = forward.batch.labels(n);
            sum += mean == CtcMean::kOverSamples ? forward.loss(n) / static_cast<C>(labels > 0 ? labels : 1) : forward.loss(n);
            divisor += mean == CtcMean::kOverSamples ? 1 : labels;
        }
        sum = team.sum(sum);
        divisor = team.sum(divisor);
        if (team.rank == 0) *out = narrow<T>(mean == CtcMean::kNone ? sum : sum / static_cast<C>(divisor > 0 ? divisor : 1));
    }
};

// The betas of a frame: the first array_length in an array, others in the gradient of frames that are still unwritten.
template <class T>
struct CtcBetas {
    using C = compute_t<T>;
    static constexpr int64_t kElementsPerBeta = sizeof(C) / sizeof(T);  // elements of the gradient
    C* array;
    int64_t array_length;
    T* gradient;                   // of the sample's first frame
    int64_t classes, frame_pitch;  // from frame to frame

    BK_HD T* element(int64_t k) const { return gradient + k / classes * frame_pitch + k % classes; }
    BK_HD C operator[](int64_t k) const {
        if (k < array_length) return array[k];
        if constexpr (kElementsPerBeta == 1) {
            return *element(k - array_length);
        } else {
            const int64_t first_element = (k - array_length) * kElementsPerBeta;
            return bit_cast<C>(uint32_t{element(first_element)->bits} | uint32_t{element(first_element + 1)->bits} << 16);
        }
    }
    BK_HD void set(int64_t k, C beta) const {
        if (k < array_length) {
            array[k] = beta;
        } else if constexpr (kElementsPerBeta == 1) {
            *element(k - array_length) = beta;
        } else {
            const int64_t first_element = (k - array_length) * kElementsPerBeta;
            const uint32_t bits = bit_cast<uint32_t>(beta);
            element(first_element)->bits = static_cast<uint16_t>(bits);
            element(first_element + 1)->bits = static_cast<uint16_t>(bits >> 16);
        }
    }
    // Frame t has up to states_per_frame * t + 2 betas; all but two must fit into the gradient of t earlier frames.
    static bool fits_in_gradient(int64_t classes) {
        return CtcSample<T>::states_per_frame(classes) * kElementsPerBeta <= classes;
    }
};

// Lists of the labels of equal class: next[i] is the index of the next label of the class of label i, complemented
// unless label i is the first of a class that is in range and not the blank. Labels from kMaxCached on are searched.
template <class T>
struct CtcOccurrences {
    static constexpr int64_t kMaxCached = 512;
    const CtcSample<T>* sample;
    int64_t labels;
    int32_t* next;

    BK_HD CtcOccurrences(const CtcSample<T>& owner, const Team& team, int32_t* scratch)
        : sample(&owner), labels(owner.last_state / 2), next(scratch) {
        for (int64_t i = team.rank; i < labels && i < kMaxCached; i += team.size) {
            const int32_t next_index = static_cast<int32_t>(search_next(i));
            next[i] = search_first(i) ? next_index : ~next_index;
        }
        team.sync();
    }
    BK_HD bool is_first(int64_t i) const { return i < kMaxCached ? next[i] >= 0 : search_first(i); }
    BK_HD int64_t next_occurrence(int64_t i) const {
        if (i >= kMaxCached) return search_next(i);
        return next[i] < 0 ? ~next[i] : next[i];
    }

private:
    BK_HD bool search_first(int64_t i) const {
        const int64_t c = sample->label(i);
        bool is_first = c >= 0 && c < sample->batch->classes && c != sample->batch->blank;
        for (int64_t j = 0; j < i && is_first; ++j) is_first = sample->label(j) != c;
        return is_first;
    }
    BK_HD int64_t search_next(int64_t i) const {
        int64_t j = i + 1;
        while (j < labels && sample->label(j) != sample->label(i)) ++j;
        return j;
    }
};

// The gradient of the logits whose log-softmax is log_probs: exp(log_probs) minus the posterior of each class in a
// frame, which is the sum of exp(alpha + beta + loss) over the states of the class.
template <class T>
struct CtcGradient {
    using C = compute_t<T>;
    CtcBatch<T> batch;
    bool zeroes_infinity, is_mean_of_samples;
    int64_t dy_step;
    C grad_scale;
    const C *alpha, *losses;
    const T* dloss;
    C* betas;  // in the workspace, for more than kScratchBetas states; null: scratch of the team and gradient
    T* dlog_probs;
    // Scratch of a team: the cached occurrences, then betas.
    static constexpr int64_t kOccurrencesBytes = CtcOccurrences<T>::kMaxCached * int64_t{sizeof(int32_t)};
    static constexpr int64_t kScratchBetas = (kTeamScratch - kOccurrencesBytes) / int64_t{sizeof(C)};

    BK_HD T* frame(int64_t t, int64_t n) const { return dlog_probs + (t * batch.samples + n) * batch.classes; }

    // beta[t] from beta[t + 1], in place: states read only themselves and later ones; the team syncs before it writes.
    BK_HD void step_beta(const Team& team, int64_t t, const CtcSample<T>& sample, const CtcBetas<T>& beta) const {
        const int64_t last = sample.last_reachable(t), next_last = sample.last_reachable(t + 1);
        const auto next_beta = [&](int64_t state) {
            return state <= next_last ? beta[state] + sample.emission(t + 1, state) : -C(INFINITY);
        };
        for (int64_t first = 0; first <= last; first += int64_t{team.size} * kCtcStatesPerThread) {
            const int64_t k = first + int64_t{team.rank} * kCtcStatesPerThread;
            CtcTransitions<C> transitions;
            if (k <= last) {
                C ahead[kCtcStatesPerThread + 2];
                for (int i = 0; i < kCtcStatesPerThread + 2; ++i) ahead[i] = next_beta(k + i);
                for (int i = 0; i < kCtcStatesPerThread; ++i) {
                    const int64_t to = k + i + 2;
                    transitions.a[i] = ahead[i];
                    transitions.b[i] = ahead[i + 1];
                    transitions.c[i] = to <= next_last && sample.skips_into(to) ? ahead[i + 2] : -C(INFINITY);
                }
                transitions.reduce();
            }
            team.sync();
            for (int i = 0; i < kCtcStatesPerThread && k + i <= last; ++i) beta.set(k + i, transitions.sum[i]);
        }
        team.sync();
    }

    BK_HD void write_frame(const Team& team, int64_t t, const CtcSample<T>& sample, const CtcOccurrences<T>& occurrences,
                           const CtcBetas<T>& beta, C scale) const {
        const int64_t n = sample.n, last = sample.last_reachable(t), labels = (last + 1) / 2;
        const C* const row = alpha + batch.alpha_offset(t, n);
        const C loss = losses[n];
        const auto posterior = [&](int64_t k) { return loss == C(INFINITY) ? C(0) : math::exp<C>(row[k] + beta[k] + loss); };
        C blank_posterior = 0;
        for (int64_t k = team.rank; k <= last; k += team.size)
            if (sample.class_of(k) == batch.blank) blank_posterior += posterior(k);
        blank_posterior = team.sum(blank_posterior);
        T* const gradient_row = frame(t, n);
        for (int64_t c = team.rank; c < batch.classes; c += team.size)
            gradient_row[c] =
                narrow<T>((math::exp<C>(batch.emission(t, n, c)) - (c == batch.blank ? blank_posterior : C(0))) * scale);
        team.sync();
        // The first label of each class adds up the posteriors of all labels of that class.
        for (int64_t i = team.rank; i < labels; i += team.size) {
            if (!occurrences.is_first(i)) continue;
            const int64_t c = sample.label(i);
            C label_posterior = 0;
            for (int64_t j = i; j < labels; j = occurrences.next_occurrence(j)) label_posterior += posterior(2 * j + 1);
            gradient_row[c] = narrow<T>((math::exp<C>(batch.emission(t, n, c)) - label_posterior) * scale);
        }
    }

    BK_HD CtcBetas<T> beta_storage(const Team& team, int64_t n) const {
        const int64_t states = batch.states(), frame_pitch = batch.samples * batch.classes;
        if (betas != nullptr && states > kScratchBetas)
            return {betas + n * states, states, nullptr, batch.classes, frame_pitch};
        return {reinterpret_cast<C*>(static_cast<char*>(team.scratch) + kOccurrencesBytes), kScratchBetas, frame(0, n),
                batch.classes, frame_pitch};
    }

    BK_HD void operator()(const Team& team, int64_t n) const {
        const CtcSample<T> sample(batch, team, n);
        const bool is_zeroed = zeroes_infinity && !is_finite(batch.loss(alpha, n));
        const C divisor = is_mean_of_samples && sample.last_state > 0 ? static_cast<C>(sample.last_state / 2) : C(1);
        // A sample that cannot be aligned has no gradient: NaN, as in PyTorch.
        const C scale = is_finite(losses[n]) ? widen(dloss[n * dy_step]) * grad_scale / divisor : C(NAN);
        for (int64_t t = is_zeroed ? 0 : sample.frames; t < batch.max_time; ++t)
            for (int64_t c = team.rank; c < batch.classes; c += team.size) frame(t, n)[c] = narrow<T>(C(0));
        if (is_zeroed || sample.frames == 0) return;
        const CtcOccurrences<T> occurrences(sample, team, static_cast<int32_t*>(team.scratch));
        const CtcBetas<T> beta = beta_storage(team, n);
        const int64_t last = sample.last_reachable(sample.frames - 1);
        for (int64_t k = team.rank; k <= last; k += team.size) beta.set(k, k + 1 >= sample.last_state ? C(0) : -C(INFINITY));
        team.sync();
        for (int64_t t = sample.frames - 1; t >= 0; --t) {
            if (t + 1 < sample.frames) step_beta(team, t, sample, beta);
            write_frame(team, t, sample, occurrences, beta, scale);
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

// The losses of a batch and their reduction.
template <class T>
Status run_ctc(const Launch& launch, const CtcForward<T>& forward, int32_t reduction_mode, CtcMean mean, T* out) {
    BK_TRY(run_teams(launch, forward.batch.samples, forward.batch.states() * 16, forward, false, forward.batch.max_time));
    if (reduction_mode == kReductionNone) return Status::kOk;
    return run_teams(launch, 1, 4096, CtcReduction<T>{forward, reduction_mode == kReductionMean ? mean : CtcMean::kNone, out});
}

// Workspace for the betas of all samples, with slack to align a workspace of any address.
template <class C>
size_t ctc_betas_bytes(int64_t samples, int64_t states) {
    return static_cast<size_t>(samples * states) * sizeof(C) + sizeof(C) - 1;
}

template <class T>
Status run_ctc_backward(const Launch& launch, CtcGradient<T> gradient) {
    using C = compute_t<T>;
    const int64_t states = gradient.batch.states(), classes = gradient.batch.classes;
    gradient.betas = workspace_array<C>(launch, gradient.batch.samples * states);
    if (gradient.betas == nullptr && states > CtcGradient<T>::kScratchBetas && !CtcBetas<T>::fits_in_gradient(classes))
        return fail(Status::kWorkspaceTooSmall, "workspace_bytes is %zu, must be >= %zu for %lld classes",
                    launch.workspace_bytes, ctc_betas_bytes<C>(gradient.batch.samples, states),
                    static_cast<long long>(classes));
    return run_teams(launch, gradient.batch.samples, states * 16, gradient, true, gradient.batch.max_time);
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
    int64_t results() const { return loss_numel(batch_size, reduction_mode); }
    int64_t states() const { return 2 * int64_t{max_target_len} + 1; }
    size_t workspace_size() const { return static_cast<size_t>(batch_size) * sizeof(C); }
    CtcBatch<T> batch(const T* log_probs, const int64_t* targets, const int64_t* input_lengths,
                      const int64_t* target_lengths) const {
        const CtcTargets padded{targets, true, false, int64_t{batch_size} * max_target_len};
        return {max_time, batch_size, num_classes, max_target_len, blank, log_probs, padded, input_lengths, target_lengths};
    }
    Status run(const T* log_probs, const int64_t* targets, const int64_t* input_lengths, const int64_t* target_lengths,
               C* alpha_ws, T* out, const Launch& launch) const {
        if (batch_size == 0) return write_zeros(launch, 1, out);
        C* losses = nullptr;
        BK_TRY(find_losses(launch, &losses));
        const CtcForward<T> forward{batch(log_probs, targets, input_lengths, target_lengths), zero_infinity != 0, alpha_ws,
                                    losses, reduction_mode == kReductionNone ? out : nullptr};
        return run_ctc(launch, forward, reduction_mode, CtcMean::kOverLabels, out);
    }

private:
    // The workspace is an output, too: one too small for all losses is an error, since the caller reads them.
    Status find_losses(const Launch& launch, C** losses) const {
        if (launch.workspace == nullptr || launch.workspace_bytes == 0) return Status::kOk;
        if (launch.workspace_bytes < workspace_size())
            return fail(Status::kWorkspaceTooSmall, "workspace_bytes is %zu, must be 0 or >= %zu", launch.workspace_bytes,
                        workspace_size());
        const bool is_aligned = reinterpret_cast<uintptr_t>(launch.workspace) % sizeof(C) == 0;
        *losses = is_aligned ? static_cast<C*>(launch.workspace) : nullptr;
        return Status::kOk;
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

    Status check() const { return forward().check(); }
    Work work() const { return batch_size == 0 || max_time == 0 ? Work::kNone : Work::kAll; }
    int64_t results() const { return forward().results(); }
    int64_t states() const { return forward().states(); }
    size_t workspace_size() const { return ctc_betas_bytes<C>(batch_size, states()); }
    Ctc<T> forward() const { return {max_time, batch_size, num_classes, max_target_len, blank, reduction_mode, zero_infinity}; }
    Status run(const T* log_probs, const int64_t* targets, const int64_t* input_lengths, const int64_t* target_lengths,
               const C* alpha_ws, const C* per_sample_loss, const T* dloss, T* dlog_probs, const Launch& launch) const {
        const CtcBatch<T> batch = forward().batch(log_probs, targets, input_lengths, target_lengths);
        return run_ctc_backward(
            launch, CtcGradient<T>{batch, zero_infinity != 0, false, reduction_mode == kReductionNone ? 1 : 0,
                                   static_cast<C>(inv_denom), alpha_ws, per_sample_loss, dloss, nullptr, dlog_probs});
    }
};

// Targets are i32 or i64, padded or concatenated; the mean is PyTorch's: each loss is divided by its target length.
template <class I, class T>
struct RaggedCtc {
    using C = compute_t<T>;
    int32_t max_time;
    int32_t batch_size;
    int32_t num_classes;
    int32_t max_target_len;
    int64_t targets_numel;
    int32_t is_concatenated;
    int32_t blank;
    int32_t reduction_mode;
    int32_t zero_infinity;

    Status check() const {
        BK_TRY(check_ctc(max_time, batch_size, num_classes, max_target_len, blank, reduction_mode));
        BK_TRY(require_non_negative({{"targets_numel", targets_numel}}));
        if (is_concatenated == 0 && targets_numel != int64_t{batch_size} * max_target_len)
            return fail(Status::kInvalidProblem, "targets_numel is %lld, must be batch_size * max_target_len, %lld",
                        static_cast<long long>(targets_numel), static_cast<long long>(int64_t{batch_size} * max_target_len));
        return Status::kOk;
    }
    Work work() const { return work_of_loss(batch_size, reduction_mode); }
    int64_t results() const { return loss_numel(batch_size, reduction_mode); }
    int64_t states() const { return 2 * int64_t{max_target_len} + 1; }
    CtcBatch<T> batch(const T* log_probs, const I* targets, const int64_t* input_lengths, const int64_t* target_lengths) const {
        const CtcTargets given{targets, sizeof(I) == 8, is_concatenated != 0, targets_numel};
        return {max_time, batch_size, num_classes, max_target_len, blank, log_probs, given, input_lengths, target_lengths};
    }
    // The mean over no samples is NaN.
    Status run(const T* log_probs, const I* targets, const int64_t* input_lengths, const int64_t* target_lengths, C* alpha,
               C* per_sample_loss, T* out, const Launch& launch) const {
        if (batch_size == 0) return write_empty_loss(launch, reduction_mode, out);
        const CtcForward<T> forward{batch(log_probs, targets, input_lengths, target_lengths), zero_infinity != 0, alpha,
                                    per_sample_loss, reduction_mode == kReductionNone ? out : nullptr};
        return run_ctc(launch, forward, reduction_mode, CtcMean::kOverSamples, out);
    }
};

template <class I, class T>
struct RaggedCtcBackward {
    using C = compute_t<T>;
    int32_t max_time;
    int32_t batch_size;
    int32_t num_classes;
    int32_t max_target_len;
    int64_t targets_numel;
    int32_t is_concatenated;
    int32_t blank;
    int32_t reduction_mode;
    int32_t zero_infinity;

    Status check() const { return forward().check(); }
    Work work() const { return batch_size == 0 || max_time == 0 ? Work::kNone : Work::kAll; }
    int64_t results() const { return forward().results(); }
    int64_t states() const { return forward().states(); }
    size_t workspace_size() const { return ctc_betas_bytes<C>(batch_size, states()); }
    RaggedCtc<I, T> forward() const {
        return {max_time,        batch_size, num_classes,    max_target_len, targets_numel,
                is_concatenated, blank,      reduction_mode, zero_infinity};
    }
    Status run(const T* log_probs, const I* targets, const int64_t* input_lengths, const int64_t* target_lengths,
               const C* alpha, const C* per_sample_loss, const T* dloss, T* dlog_probs, const Launch& launch) const {
        const bool is_mean = reduction_mode == kReductionMean;
        const CtcBatch<T> batch = forward().batch(log_probs, targets, input_lengths, target_lengths);
        return run_ctc_backward(
            launch,
            CtcGradient<T>{batch, zero_infinity != 0, is_mean, reduction_mode == kReductionNone ? 1 : 0,
                           reduction_scale<C>(batch_size, reduction_mode), alpha, per_sample_loss, dloss, nullptr, dlog_probs});
    }
};

}  // namespace bk
