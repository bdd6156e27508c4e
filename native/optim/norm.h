// SPDX-License-Identifier: Apache-2.0
// The norm of all gradients of a table, (sum |g|^q)^(1/q), or the largest |g|, as torch.nn.utils.get_total_norm. One launch
// writes a sum for each chunk, the next adds them, both in f64 and in a fixed order: no finite gradients overflow, and
// how tensors are grouped does not matter. The result stays on the device, where a step or clip reads it.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/math/math.h"
#include "optim/common.h"
#include "optim/table.h"

namespace bk::optim {

// Summand of each gradient element; inf takes the largest magnitude.
struct NormKind {
    double q;
    int32_t is_largest;

    BK_HD double of(double x) const { return is_largest ? x : q == 2 ? x * x : q == 1 ? x : ::pow(x, q); }
    BK_HD double combine(double a, double b) const { return !is_largest ? a + b : b > a || b != b ? b : a; }
    BK_HD double finish(double sum) const { return is_largest || q == 1 ? sum : q == 2 ? ::sqrt(sum) : ::pow(sum, 1 / q); }
};

struct NormProblem {
    Table table;
    NormKind kind;
    Common common;  // scales
    double* partials;
    void* norm;        // of the compute type
    float* found_inf;  // or NULL
};

// The norm of the scaled gradients: that of the gradients times |grad_scale / scale|.
template <class C>
BK_HD void finish_norm(const NormProblem& p, double sum) {
    const double multiplier = math::fabs<double>(multiplier_of<double>(p.common)), norm = p.kind.finish(sum) * multiplier;
    *static_cast<C*>(p.norm) = static_cast<C>(norm);
    if (p.found_inf != nullptr) *p.found_inf = norm - norm == 0 ? 0.0f : 1.0f;
}

// Defined in norm_cuda.cuh and norm_cpu.h.
template <class T>
Status run_norm(const Launch& launch, const NormProblem& problem);

inline size_t norm_workspace_size(int64_t n_chunks) {
    if (n_chunks < 0) return 0;
    Carver carver;
    carver.take<double>(n_chunks);
    return carver.bytes();
}

template <class T>
Status norm(const void* table, int64_t n_tensors, int64_t n_chunks, double norm_type, double grad_scale, const void* scale_at,
            void* norm, void* found_inf, void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_table(table, n_tensors, n_chunks));
    if (!(norm_type > 0)) return fail(Status::kInvalidProblem, "norm_type is %g, must be > 0", norm_type);
    if (norm == nullptr) return fail(Status::kInvalidProblem, "norm is NULL");
    const Launch launch{workspace, workspace_bytes, stream};
    const size_t needed = norm_workspace_size(n_chunks);
    if (n_chunks > 0 && !workspace_holds(launch, needed))
        return fail(Status::kWorkspaceTooSmall, "workspace_bytes is %zu, must be >= %zu", workspace_bytes, needed);
    const Common common =
        common_of(1, 1, grad_scale, 0, 0, 0, 0, 32, 0, 0, nullptr, nullptr, scale_at, nullptr, nullptr, stream);
    const bool is_largest = std::isinf(norm_type);
    return run_norm<T>(launch, {table_at(table, n_tensors, n_chunks),
                                {norm_type, is_largest},
                                common,
                                Carver(workspace).take<double>(n_chunks),
                                norm,
                                static_cast<float*>(found_inf)});
}

}  // namespace bk::optim
