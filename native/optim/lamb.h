// SPDX-License-Identifier: Apache-2.0
// LAMB (You et al. 2020): the direction u of Adam, plus wd p if decay is decoupled, scaled for each tensor by the trust ratio
// r = |p| / |u|, limited to [lower, upper], and 1 if either norm is 0: p -= lr r u.
//
// Three launches: moments, with sums of p^2 and u^2 of each chunk; ratios, which add the sums of a tensor's chunks in order,
// in f64, so that results are deterministic; and weights, which computes u again from the moments, as cheap as keeping it.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "optim/common.h"
#include "optim/rules.h"
#include "optim/table.h"

namespace bk::optim {

struct LambSettings {
    AdamSettings adam;
    double lower, upper;

    Status check() const {
        BK_TRY(adam.check());
        if (!(lower >= 0 && lower <= upper))
            return fail(Status::kInvalidProblem, "ratio_lower is %g, must be in [0, ratio_upper], %g", lower, upper);
        return Status::kOk;
    }
};

template <class C>
struct Lamb {
    using Settings = LambSettings;
    static constexpr bool kQuantises = false;
    AdamMoments<C> moments;
    C lr, decay_of_gradient, decay_of_weight, lower, upper;

    static BK_HD Lamb make(const Settings& s, C lr, C step) {
        const C decay = static_cast<C>(s.adam.weight_decay);
        const bool is_decoupled = s.adam.is_decoupled != 0;
        return {AdamMoments<C>::make(s.adam, step),
                lr,
                is_decoupled ? C(0) : decay,
                is_decoupled ? decay : C(0),
                static_cast<C>(s.lower),
                static_cast<C>(s.upper)};
    }
    BK_HD C direction(C p, C m, C v) const { return moments.direction(m, v) + decay_of_weight * p; }
    BK_HD C ratio(C weight_norm, C update_norm) const {
        if (weight_norm == C(0) || update_norm == C(0)) return C(1);
        const C r = weight_norm / update_norm;
        return r < lower ? lower : r > upper ? upper : r;
    }
};

// Sums of squares: the pair of a chunk lies in `partials` of its tensor, or if that is its only one, in the norms.
template <class C>
struct LambSums {
    C* weight;       // [tensors]: sums, then norms
    C* update;       // [tensors]
    C* partials;     // [2 chunks] of all tensors, or NULL for:
    C* const* each;  // addresses of 2 chunks of each tensor, in device memory

    BK_HD C* partials_of(int64_t tensor, int64_t first_chunk) const {
        return partials != nullptr ? partials + 2 * first_chunk : each[tensor];
    }
    static BK_HD bool is_single(int64_t size) { return size <= kChunk; }
};

// Defined in lamb_cuda.cuh and lamb_cpu.h.
template <class T>
Status run_lamb(const Launch& launch, const Table& table, const LambSettings& settings, const Common& common,
                const LambSums<compute_t<T>>& sums);

template <class C>
struct LambWorkspace {
    LambSums<C> sums;
    size_t bytes;

    LambWorkspace(void* base, int64_t n_tensors, int64_t n_chunks) {
        Carver carver(base);
        C* const weight = carver.take<C>(n_tensors);
        C* const update = carver.take<C>(n_tensors);
        C* const partials = carver.take<C>(2 * n_chunks);
        sums = {weight, update, partials, nullptr};
        bytes = carver.bytes();
    }
};

template <class T>
size_t lamb_workspace_size(int64_t n_tensors, int64_t n_chunks) {
    return n_tensors < 0 || n_chunks < 0 ? 0 : LambWorkspace<compute_t<T>>(nullptr, n_tensors, n_chunks).bytes;
}

template <class T>
Status lamb(const void* table, int64_t n_tensors, int64_t n_chunks, double beta1, double beta2, double eps, double weight_decay,
            int32_t decoupled, int32_t bias_correction, double ratio_lower, double ratio_upper, double lr, int64_t step,
            double grad_scale, double max_norm, double ema_decay, int32_t maximize, int32_t rounding, int32_t state_bits,
            int32_t zero_grads, uint64_t seed, const void* lr_at, const void* step_at, const void* scale_at,
            const void* found_inf_at, const void* norm_at, void* workspace, size_t workspace_bytes, void* stream) {
    using C = compute_t<T>;
    BK_TRY(require_table(table, n_tensors, n_chunks));
    const LambSettings settings{AdamSettings::of(beta1, beta2, eps, weight_decay, decoupled, bias_correction), ratio_lower,
                                ratio_upper};
    const Common common = common_of(lr, step, grad_scale, max_norm, ema_decay, maximize, rounding, state_bits, zero_grads, seed,
                                    lr_at, step_at, scale_at, found_inf_at, norm_at, stream);
    BK_TRY(settings.check());
    BK_TRY(require_common(common, std::is_same_v<T, bf16>, sizeof(T) == 2, false));
    if (n_chunks == 0) return Status::kOk;
    const LambWorkspace<C> carved(workspace, n_tensors, n_chunks);
    const Launch launch{workspace, workspace_bytes, stream};
    if (!workspace_holds(launch, carved.bytes))
        return fail(Status::kWorkspaceTooSmall, "workspace_bytes is %zu, must be >= %zu", workspace_bytes, carved.bytes);
    return run_lamb<T>(launch, table_at(table, n_tensors, n_chunks), settings, common, carved.sums);
}

}  // namespace bk::optim
