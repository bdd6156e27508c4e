// SPDX-License-Identifier: Apache-2.0
// The reference's optimiser functions: host arrays of pointers and sizes, of which kInlined tensors make a launch. Tensors
// of any size are updated whole.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "optim/lamb.h"
#include "optim/step.h"

namespace bk::optim {

// The reference's unit of work, by which its callers size buffers; launches here are divided otherwise.
constexpr int32_t kReferenceChunk = 2048, kReferenceTensors = 110, kReferenceBlocks = 320;

constexpr int32_t reference_chunk_size() { return kReferenceChunk; }
constexpr int32_t reference_max_tensors() { return kReferenceTensors; }
constexpr int32_t reference_max_blocks() { return kReferenceBlocks; }
inline int32_t reference_chunk_count(int32_t n) { return n <= 0 ? 0 : ceil_div(n, kReferenceChunk); }

struct HostLists {
    int32_t n_tensors;
    const int32_t* sizes;
    void* const* list[4];  // params, grads, states
    const char* name[4];

    Status check(int lists) const {
        if (n_tensors <= 0) return fail(Status::kInvalidProblem, "n_tensors is %d, must be > 0", n_tensors);
        if (sizes == nullptr) return fail(Status::kInvalidProblem, "sizes is NULL");
        for (int k = 0; k < lists; ++k)
            if (list[k] == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", name[k]);
        for (int32_t t = 0; t < n_tensors; ++t) {
            if (sizes[t] < 0) return fail(Status::kInvalidProblem, "sizes[%d] is %d, must be >= 0", t, sizes[t]);
            for (int k = 0; k < lists; ++k)
                if (sizes[t] > 0 && list[k][t] == nullptr) return fail(Status::kInvalidProblem, "%s[%d] is NULL", name[k], t);
        }
        return Status::kOk;
    }

    // Calls run(table, first tensor) for tables of up to kInlined tensors.
    template <class Run>
    Status for_tables(int lists, const Run& run) const {
        for (int32_t first = 0; first < n_tensors; first += kInlined) {
            Table table{};
            table.tensors = n_tensors - first < kInlined ? n_tensors - first : kInlined;
            for (int32_t t = 0; t < table.tensors; ++t) {
                InlineEntry& to = table.inlined[t];
                void* each[4] = {};
                for (int k = 0; k < lists; ++k) each[k] = list[k][first + t];
                to = {each[0], each[1], {each[2], each[3]}, sizes[first + t], static_cast<int32_t>(table.chunks)};
                table.chunks += chunks_of(sizes[first + t]);
            }
            if (table.chunks > 0) BK_TRY(run(table, first));
        }
        return Status::kOk;
    }
};

inline Common reference_common(double lr, int64_t step, double grad_scale, void* stream) {
    return common_of(lr, step, grad_scale, 0, 0, 0, kNearest, 32, 0, 0, nullptr, nullptr, nullptr, nullptr, nullptr, stream);
}

// Without bias correction no formula reads the step.
inline Status require_step(int32_t* step, int32_t bias_correction) {
    if (bias_correction != 0 && *step < 1) return fail(Status::kInvalidProblem, "step is %d, must be >= 1", *step);
    if (*step < 1) *step = 1;
    return Status::kOk;
}

template <class T>
Status reference_adam(int32_t n_tensors, const int32_t* sizes, void* const* params, void* const* grads, void* const* exp_avg,
                      void* const* exp_avg_sq, int32_t step, float lr, float beta1, float beta2, float epsilon,
                      float weight_decay, int32_t bias_correction, int32_t adamw_mode, void* stream) {
    const HostLists lists{n_tensors, sizes, {params, grads, exp_avg, exp_avg_sq}, {"params", "grads", "exp_avg", "exp_avg_sq"}};
    BK_TRY(lists.check(4));
    BK_TRY(require_step(&step, bias_correction));
    const AdamSettings settings = AdamSettings::of(beta1, beta2, epsilon, weight_decay, adamw_mode, bias_correction);
    return lists.for_tables(4, [&](const Table& table, int32_t) {
        return checked_step<Adam<float>, T>(table, settings, reference_common(lr, step, 1, stream));
    });
}

template <class T>
Status reference_sgd(int32_t n_tensors, const int32_t* sizes, void* const* params, void* const* grads, void* const* momenta,
                     float lr, float momentum, float dampening, float weight_decay, int32_t nesterov, int32_t first_run,
                     int32_t wd_after_momentum, float grad_scale, void* stream) {
    const HostLists lists{n_tensors, sizes, {params, grads, momenta, nullptr}, {"params", "grads", "momentum_buffers", ""}};
    BK_TRY(lists.check(3));
    const SgdSettings settings{momentum, dampening, weight_decay, nesterov, wd_after_momentum, first_run != 0};
    return lists.for_tables(3, [&](const Table& table, int32_t) {
        return checked_step<Sgd<float>, T>(table, settings, reference_common(lr, 1, grad_scale, stream));
    });
}

template <class T>
Status reference_lamb(int32_t n_tensors, const int32_t* sizes, void* const* params, void* const* grads, void* const* exp_avg,
                      void* const* exp_avg_sq, void* const* u_scratch, void* u_scratch_dev, void* w_norm_dev, void* u_norm_dev,
                      int32_t step, float lr, float beta1, float beta2, float epsilon, float weight_decay,
                      int32_t bias_correction, int32_t adamw_mode, float global_grad_norm, float max_global_grad_norm,
                      float lr_lower, float lr_upper, void* stream) {
    const HostLists lists{n_tensors, sizes, {params, grads, exp_avg, exp_avg_sq}, {"params", "grads", "exp_avg", "exp_avg_sq"}};
    BK_TRY(lists.check(4));
    BK_TRY(require_step(&step, bias_correction));
    const char* const missing = u_scratch == nullptr       ? "u_scratch"
                                : u_scratch_dev == nullptr ? "u_scratch_dev"
                                : w_norm_dev == nullptr    ? "w_norm_dev"
                                : u_norm_dev == nullptr    ? "u_norm_dev"
                                                           : nullptr;
    if (missing != nullptr) return fail(Status::kInvalidProblem, "%s is NULL", missing);
    const LambSettings settings{AdamSettings::of(beta1, beta2, epsilon, weight_decay, adamw_mode, bias_correction), lr_lower,
                                lr_upper};
    BK_TRY(settings.check());
    const bool clips = max_global_grad_norm > 0 && global_grad_norm > max_global_grad_norm;
    const double scale = clips ? static_cast<double>(max_global_grad_norm) / static_cast<double>(global_grad_norm) : 1.0;
    const Common common = reference_common(lr, step, scale, stream);
    return lists.for_tables(4, [&](const Table& table, int32_t first) {
        const LambSums<float> sums{static_cast<float*>(w_norm_dev) + first, static_cast<float*>(u_norm_dev) + first, nullptr,
                                   static_cast<float* const*>(u_scratch_dev) + first};
        return run_lamb<T>({nullptr, 0, stream}, table, settings, common, sums);
    });
}

}  // namespace bk::optim
