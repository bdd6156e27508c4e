// Connectionist temporal classification: the probability that frames, each with one class or the blank, spell the targets.
//
// The states of a sample are its labels with a blank before, between and behind them. alpha[t, k] is the logarithm of the
// probability of all paths through the first t + 1 frames that end in state k, beta[t, k] that of the rest of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/math/math.h"
#include "core/math/wide_range.h"
#include "core/pointwise/pointwise.h"
#include "core/rows/row_map.h"
#include "core/rows/team.h"
#include "loss/reduction.h"

namespace bk {

// ln(exp(a) + exp(b) + exp(c)).
template <class C>
BK_HD C log_sum(C a, C b, C c) {
    const C most = math::max(math::max(a, b), c), base = math::select(most == -C(INFINITY), C(0), most);
    return base + math::log<C>(math::exp<C>(a - base) + math::exp<C>(b - base) + math::exp<C>(c - base));
}

// States that a thread computes at once: on the CPU those of vectors.
constexpr int kCtcStates = BK_CUDA ? 1 : 32;

// Logarithms of sums of what leads to a thread's states.
template <class C>
struct CtcSteps {
    C a[kCtcStates], b[kCtcStates], c[kCtcStates], sum[kCtcStates];

    BK_HD void add() {
        BK_HELD_LOOP
        for (int i = 0; i < kCtcStates; ++i) sum[i] = log_sum(a[i], b[i], c[i]);
    }
};

// Targets of 4 or 8 bytes, of which kernels know at run time. There are `count`: max_labels for each sample, or as many as it
// has, one sample's behind those of the one before it.
struct CtcTargets {
    const void* data;
    bool is_wide, is_concatenated;
    int64_t count;

    // The class of a target; of one behind the last, none.
    BK_HD int64_t operator[](int64_t place) const {
        if (place >= count) return -1;
        return is_wide ? static_cast<const int64_t*>(data)[place] : int64_t{static_cast<const int32_t*>(data)[place]};
    }
};

// A batch, and where its operands lie.
template <class T>
struct CtcBatch {
    using C = compute_t<T>;
    int64_t max_time, samples, classes, max_labels, blank;
    const T* log_probs;
    CtcTargets targets;
    const int64_t *input_lengths, *target_lengths;

    BK_HD static int64_t bounded(int64_t length, int64_t most) { return length < 0 ? 0 : length > most ? most : length; }
    BK_HD int64_t frames(int64_t n) const { return bounded(input_lengths[n], max_time); }
    BK_HD int64_t labels(int64_t n) const { return bounded(target_lengths[n], max_labels); }
    BK_HD int64_t states() const { return 2 * max_labels + 1; }
    // Where the targets of a sample begin. The whole team asks.
    BK_HD int64_t first_target(const Team& team, int64_t n) const {
        if (!targets.is_concatenated) return n * max_labels;
        int64_t before = 0;
        for (int64_t k = team.rank; k < n; k += team.size) before += labels(k);
        return team.sum(before);
    }
    // A class that there is not never comes.
    BK_HD C emission(int64_t t, int64_t n, int64_t c) const {
        return c >= 0 && c < classes ? widen(log_probs[(t * samples + n) * classes + c]) : -C(INFINITY);
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

// A sample's labels, and the states of its paths.
template <class T>
struct CtcSample {
    using C = compute_t<T>;
    const CtcBatch<T>* batch;
    int64_t n, frames, end, first;  // the last state; the place of the first target

    BK_HD CtcSample(const CtcBatch<T>& of, const Team& team, int64_t number)
        : batch(&of), n(number), frames(of.frames(number)), end(2 * of.labels(number)), first(of.first_target(team, number)) {}

    BK_HD int64_t label(int64_t i) const { return batch->targets[first + i]; }
    BK_HD int64_t class_of(int64_t state) const { return state % 2 == 0 ? batch->blank : label(state / 2); }
    // Whether a path may step into a state from the one before the last: past a blank, between labels that differ.
    BK_HD bool skips_into(int64_t state) const {
        if (state < 2) return false;
        const int64_t c = class_of(state);
        return c != batch->blank && c != class_of(state - 2);
    }
    BK_HD C emission(int64_t t, int64_t state) const { return batch->emission(t, n, class_of(state)); }
    // The last state that paths through frames 0 to t may end in: they skip where two classes beside the blank differ.
    BK_HD int64_t reach(int64_t t) const {
        const int64_t most = pace(batch->classes) * t + 1;
        return most < end ? most : end;
    }
    BK_HD static int64_t pace(int64_t classes) { return classes > 2 ? 2 : 1; }
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
        const CtcSample<T> sample(batch, team, n);
        for (int64_t t = 0; t < batch.max_time; ++t) {
            C* const row = alpha + batch.place(t, n);
            for (int64_t k = int64_t{team.rank} * kCtcStates; k < batch.states(); k += int64_t{team.size} * kCtcStates) {
                const int64_t left = batch.states() - k;
                CtcSteps<C> steps;
                fill(steps, sample, t, k);
                for (int i = 0; i < kCtcStates && i < left; ++i) row[k + i] = steps.sum[i];
            }
            team.sync();
        }
        if (team.rank != 0) return;
        const C found = loss(n);
        if (losses != nullptr) losses[n] = found;
        if (out != nullptr) out[n] = narrow<T>(found);
    }

private:
    // The sums of frame t from state `first` on, -inf where there is no such state or frame.
    BK_HD void fill(CtcSteps<C>& steps, const CtcSample<T>& sample, int64_t t, int64_t first) const {
        constexpr C never = -C(INFINITY);
        if (t >= sample.frames || first > sample.end) {
            for (int i = 0; i < kCtcStates; ++i) steps.sum[i] = never;
            return;
        }
        const C* const before = alpha + batch.place(t - 1, sample.n);
        for (int i = 0; i < kCtcStates; ++i) {
            const int64_t k = first + i;
            const bool comes = t > 0 && k <= sample.end;
            steps.a[i] = comes ? before[k] : t == 0 && k < 2 && k <= sample.end ? C(0) : never;
            steps.b[i] = comes && k > 0 ? before[k - 1] : never;
            steps.c[i] = comes && sample.skips_into(k) ? before[k - 2] : never;
        }
        steps.add();
        for (int i = 0; i < kCtcStates; ++i)
            if (first + i <= sample.end) steps.sum[i] += sample.emission(t, first + i);
    }
};

// What the losses of a batch become.
enum class CtcMean : int32_t { kNone, kOfLabels, kOfSamples };

// The sum of the losses; that over the sum of the lengths of the targets; or the mean of losses over their own lengths.
template <class T>
struct CtcTotal {
    using C = compute_t<T>;
    CtcForward<T> forward;
    CtcMean mean;
    T* out;

    BK_HD void operator()(const Team& team, int64_t) const {
        C sum = 0;
        int64_t all = 0;
        for (int64_t n = team.rank; n < forward.batch.samples; n += team.size) {
            const int64_t labels = forward.batch.labels(n);
            sum += mean == CtcMean::kOfSamples ? forward.loss(n) / static_cast<C>(labels > 0 ? labels : 1) : forward.loss(n);
            all += mean == CtcMean::kOfSamples ? 1 : labels;
        }
        sum = team.sum(sum);
        all = team.sum(all);
        if (team.rank == 0) *out = narrow<T>(mean == CtcMean::kNone ? sum : sum / static_cast<C>(all > 0 ? all : 1));
    }
};

// The betas of a frame: the first `near` of them in an array, the rest in frames of the gradient that are still to be written.
template <class T>
struct CtcBetas {
    using C = compute_t<T>;
    static constexpr int64_t kCells = sizeof(C) / sizeof(T);  // of the gradient that hold a beta
    C* array;
    int64_t near;
    T* gradient;             // of the sample's first frame
    int64_t classes, pitch;  // from frame to frame

    BK_HD T* cell(int64_t k) const { return gradient + k / classes * pitch + k % classes; }
    BK_HD C operator[](int64_t k) const {
        if (k < near) return array[k];
        if constexpr (kCells == 1) {
            return *cell(k - near);
        } else {
            const int64_t first = (k - near) * kCells;
            return bit_cast<C>(uint32_t{cell(first)->bits} | uint32_t{cell(first + 1)->bits} << 16);
        }
    }
    BK_HD void set(int64_t k, C beta) const {
        if (k < near) {
            array[k] = beta;
        } else if constexpr (kCells == 1) {
            *cell(k - near) = beta;
        } else {
            const int64_t first = (k - near) * kCells;
            const uint32_t bits = bit_cast<uint32_t>(beta);
            cell(first)->bits = static_cast<uint16_t>(bits);
            cell(first + 1)->bits = static_cast<uint16_t>(bits >> 16);
        }
    }
    // Whether the betas of any frame fit into the frames before it, beside two in the array.
    static bool fit(int64_t classes) { return CtcSample<T>::pace(classes) * kCells <= classes; }
};

// Which labels of a sample are of one class, the first of which speaks for all: of each label the place of the next one, or,
// for one that is not the first or is of no class beside the blank, of that the complement. Known of the first kMost labels;
// what lies behind them is looked for.
template <class T>
struct CtcRepeats {
    static constexpr int64_t kMost = 512;
    const CtcSample<T>* sample;
    int64_t labels;
    int32_t* next;

    BK_HD CtcRepeats(const CtcSample<T>& of, const Team& team, int32_t* places)
        : sample(&of), labels(of.end / 2), next(places) {
        for (int64_t i = team.rank; i < labels && i < kMost; i += team.size) {
            const int32_t place = static_cast<int32_t>(search_next(i));
            next[i] = search_first(i) ? place : ~place;
        }
        team.sync();
    }
    BK_HD bool is_first(int64_t i) const { return i < kMost ? next[i] >= 0 : search_first(i); }
    BK_HD int64_t behind(int64_t i) const {
        if (i >= kMost) return search_next(i);
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

// The gradient of the logits of which log_probs is the log-softmax: exp(log_probs) less the share of each class in a frame.
template <class T>
struct CtcGradient {
    using C = compute_t<T>;
    CtcBatch<T> batch;
    bool zeroes_infinity, is_mean_of_samples;
    int64_t dy_step;
    C factor;
    const C *alpha, *losses;
    const T* dloss;
    C* betas;  // of samples whose betas the scratch of a team has no room for; null: there, and in frames of the gradient
    T* dlog_probs;
    static constexpr int64_t kPlacesBytes = CtcRepeats<T>::kMost * int64_t{sizeof(int32_t)};  // at the scratch's beginning
    static constexpr int64_t kNear = (kTeamScratch - kPlacesBytes) / int64_t{sizeof(C)};      // betas behind them

    BK_HD T* frame(int64_t t, int64_t n) const { return dlog_probs + (t * batch.samples + n) * batch.classes; }

    // Of frame t from those of the frame behind it, in place: states read those behind them, and a step of the team is read
    // before it is written.
    BK_HD void step_beta(const Team& team, int64_t t, const CtcSample<T>& sample, const CtcBetas<T>& beta) const {
        const int64_t last = sample.reach(t), known = sample.reach(t + 1);
        const auto through = [&](int64_t state) {
            return state <= known ? beta[state] + sample.emission(t + 1, state) : -C(INFINITY);
        };
        for (int64_t first = 0; first <= last; first += int64_t{team.size} * kCtcStates) {
            const int64_t k = first + int64_t{team.rank} * kCtcStates;
            CtcSteps<C> steps;
            if (k <= last) {
                C behind[kCtcStates + 2];
                for (int i = 0; i < kCtcStates + 2; ++i) behind[i] = through(k + i);
                for (int i = 0; i < kCtcStates; ++i) {
                    const int64_t to = k + i + 2;
                    steps.a[i] = behind[i];
                    steps.b[i] = behind[i + 1];
                    steps.c[i] = to <= known && sample.skips_into(to) ? behind[i + 2] : -C(INFINITY);
                }
                steps.add();
            }
            team.sync();
            for (int i = 0; i < kCtcStates && k + i <= last; ++i) beta.set(k + i, steps.sum[i]);
        }
        team.sync();
    }

    BK_HD void write_frame(const Team& team, int64_t t, const CtcSample<T>& sample, const CtcRepeats<T>& repeats,
                           const CtcBetas<T>& beta, C scale) const {
        const int64_t n = sample.n, last = sample.reach(t), labels = (last + 1) / 2;
        const C* const row = alpha + batch.place(t, n);
        const C loss = losses[n];
        const auto share = [&](int64_t k) { return loss == C(INFINITY) ? C(0) : math::exp<C>(row[k] + beta[k] + loss); };
        C blanks = 0;
        for (int64_t k = team.rank; k <= last; k += team.size)
            if (sample.class_of(k) == batch.blank) blanks += share(k);
        blanks = team.sum(blanks);
        T* const cell = frame(t, n);
        for (int64_t c = team.rank; c < batch.classes; c += team.size)
            cell[c] = narrow<T>((math::exp<C>(batch.emission(t, n, c)) - (c == batch.blank ? blanks : C(0))) * scale);
        team.sync();
        // The first state of each label speaks for all of them.
        for (int64_t i = team.rank; i < labels; i += team.size) {
            if (!repeats.is_first(i)) continue;
            const int64_t c = sample.label(i);
            C all = 0;
            for (int64_t j = i; j < labels; j = repeats.behind(j)) all += share(2 * j + 1);
            cell[c] = narrow<T>((math::exp<C>(batch.emission(t, n, c)) - all) * scale);
        }
    }

    BK_HD CtcBetas<T> betas_of(const Team& team, int64_t n) const {
        const int64_t states = batch.states(), pitch = batch.samples * batch.classes;
        if (betas != nullptr && states > kNear) return {betas + n * states, states, nullptr, batch.classes, pitch};
        return {reinterpret_cast<C*>(static_cast<char*>(team.scratch) + kPlacesBytes), kNear, frame(0, n), batch.classes,
                pitch};
    }

    BK_HD void operator()(const Team& team, int64_t n) const {
        const CtcSample<T> sample(batch, team, n);
        const bool is_zeroed = zeroes_infinity && !is_finite(batch.loss(alpha, n));
        const C over = is_mean_of_samples && sample.end > 0 ? static_cast<C>(sample.end / 2) : C(1);
        // A sample that cannot be aligned has no gradient: NaN, as in PyTorch.
        const C scale = is_finite(losses[n]) ? widen(dloss[n * dy_step]) * factor / over : C(NAN);
        for (int64_t t = is_zeroed ? 0 : sample.frames; t < batch.max_time; ++t)
            for (int64_t c = team.rank; c < batch.classes; c += team.size) frame(t, n)[c] = narrow<T>(C(0));
        if (is_zeroed || sample.frames == 0) return;
        const CtcRepeats<T> repeats(sample, team, static_cast<int32_t*>(team.scratch));
        const CtcBetas<T> beta = betas_of(team, n);
        const int64_t last = sample.reach(sample.frames - 1);
        for (int64_t k = team.rank; k <= last; k += team.size) beta.set(k, k + 1 >= sample.end ? C(0) : -C(INFINITY));
        team.sync();
        for (int64_t t = sample.frames - 1; t >= 0; --t) {
            if (t + 1 < sample.frames) step_beta(team, t, sample, beta);
            write_frame(team, t, sample, repeats, beta, scale);
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

// The losses of a batch, and what becomes of them.
template <class T>
Status run_ctc(const Launch& launch, const CtcForward<T>& forward, int32_t reduction_mode, CtcMean mean, T* out) {
    BK_TRY(run_teams(launch, forward.batch.samples, forward.batch.states() * 16, forward, false, forward.batch.max_time));
    if (reduction_mode == kReductionNone) return Status::kOk;
    return run_teams(launch, 1, 4096, CtcTotal<T>{forward, reduction_mode == kMeanOfTerms ? mean : CtcMean::kNone, out});
}

// Of betas for as many samples, aligned in a workspace that may lie anywhere.
template <class C>
size_t ctc_betas_bytes(int64_t samples, int64_t states) {
    return static_cast<size_t>(samples * states) * sizeof(C) + sizeof(C) - 1;
}

template <class T>
Status run_ctc_backward(const Launch& launch, CtcGradient<T> gradient) {
    using C = compute_t<T>;
    const int64_t states = gradient.batch.states(), classes = gradient.batch.classes;
    gradient.betas = workspace_array<C>(launch, gradient.batch.samples * states);
    if (gradient.betas == nullptr && states > CtcGradient<T>::kNear && !CtcBetas<T>::fit(classes))
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
        return run_ctc(launch, forward, reduction_mode, CtcMean::kOfLabels, out);
    }

private:
    // The workspace is an output too: one that cannot get all losses is an error, since the caller would read what is missing.
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

// Of targets of either width that are padded or concatenated, with PyTorch's mean: of losses over the lengths of their targets.
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
        return run_ctc(launch, forward, reduction_mode, CtcMean::kOfSamples, out);
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
        const bool is_mean = reduction_mode == kMeanOfTerms;
        const CtcBatch<T> batch = forward().batch(log_probs, targets, input_lengths, target_lengths);
        return run_ctc_backward(
            launch,
            CtcGradient<T>{batch, zero_infinity != 0, is_mean, reduction_mode == kReductionNone ? 1 : 0,
                           reduction_scale<C>(batch_size, reduction_mode), alpha, per_sample_loss, dloss, nullptr, dlog_probs});
    }
};

}  // namespace bk
