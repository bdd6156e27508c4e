// SPDX-License-Identifier: Apache-2.0
// Uniform and normal numbers by seed alone, under the reference's names: the stream of the seed from its start.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/status.h"
#include "random/real.h"

namespace bk {

template <class T>
struct CurandUniform {
    int64_t numel;
    T low;
    T high;
    uint64_t seed;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        return numel == 0 ? Status::kOk : require_interval<T>(low, high);
    }
    Status run(T* y, const Launch& launch) const {
        return draw(launch, numel, uniform_between<T>(low, high, true), {seed, 0, nullptr}, y);
    }
};

template <class T>
struct CurandNormal {
    int64_t numel;
    T mean;
    T stddev;
    uint64_t seed;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        BK_TRY(require_finite("mean", mean));
        return require_positive("stddev", stddev);
    }
    Status run(T* y, const Launch& launch) const {
        return draw(launch, numel, dist::Normal<T>{mean, stddev}, {seed, 0, nullptr}, y);
    }
};

// The workspace that they need: none.
inline Status curand_workspace_size(int64_t numel, size_t* out_bytes) {
    BK_TRY(require_non_negative({{"numel", numel}}));
    if (out_bytes == nullptr) return fail(Status::kInvalidProblem, "out_bytes is NULL");
    *out_bytes = 0;
    return Status::kOk;
}

}  // namespace bk
