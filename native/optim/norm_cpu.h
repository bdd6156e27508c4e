// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "optim/norm.h"

namespace bk::optim {

// 16 accumulators, the same on every instruction set.
template <class T>
BK_HD double norm_of_chunk(const NormKind& kind, const T* grad, int64_t count) {
    constexpr int kLanes = 16;
    double lane[kLanes] = {};
    const bool is_square = kind.q == 2 && !kind.is_largest;
    for (int64_t i = 0; i < count; i += kLanes) {
        double x[kLanes];
        for (int k = 0; k < kLanes; ++k)
            x[k] = i + k < count ? math::fabs<double>(static_cast<double>(widen(grad[i + k]))) : 0.0;
        if (is_square)
            for (int k = 0; k < kLanes; ++k) lane[k] += x[k] * x[k];
        else
            for (int k = 0; k < kLanes; ++k) lane[k] = kind.combine(lane[k], kind.of(x[k]));
    }
    double sum = 0;
    for (double each : lane) sum = kind.combine(sum, each);
    return sum;
}

template <class T>
Status run_norm(const Launch&, const NormProblem& problem) {
    const Table& table = problem.table;
    parallel_ranges(table.chunks, 4, [&](int64_t first, int64_t last) {
        for (int64_t chunk = first; chunk < last; ++chunk) {
            const Slot slot = table.at(chunk);
            const T* const grad = static_cast<const T*>(slot.grad);
            problem.partials[chunk] =
                grad == nullptr ? 0 : norm_of_chunk(problem.kind, grad + slot.begin(), slot.end() - slot.begin());
        }
    });
    double sum = 0;
    for (int64_t chunk = 0; chunk < table.chunks; ++chunk) sum = problem.kind.combine(sum, problem.partials[chunk]);
    finish_norm<compute_t<T>>(problem, sum);
    return Status::kOk;
}

}  // namespace bk::optim
