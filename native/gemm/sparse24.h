// SPDX-License-Identifier: Apache-2.0
// GEMM with 2:4 structured sparse weights: two of every four K elements are kept.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/gemm.h"

namespace bk {

// Expands 8 K elements of a row of weights from two groups of two values and their byte of indices each in `word`: bits
// 0 and 1 are the index of the first value, bits 2 and 3 that of the second, which wins if they are equal.
template <class E>
BK_HD void expand_groups(const E* values, uint32_t word, E (&expanded)[8]) {
    for (uint32_t g = 0; g < 2; ++g) {
        const uint32_t first = word >> 8 * g & 3u, second = word >> (8 * g + 2) & 3u;
        for (uint32_t c = 0; c < 4; ++c)
            expanded[4 * g + c] = second == c ? values[2 * g + 1] : first == c ? values[2 * g] : E{};
    }
}

// y[i, j] = sum over k of x[i, k] w[j, k], all contiguous.
template <class T>
struct Sparse24 {
    int64_t n, m, k;
    const T *x, *values;
    const uint16_t* metadata;
    T* y;
};

template <class T>
size_t sparse24_workspace(int64_t n, int64_t m, int64_t k);

template <class T>
Status sparse24_product(const Launch& launch, const Sparse24<T>& p);

template <class T>
struct GemmSparse24 {
    int32_t n, m, k;

    int32_t half_k() const { return k / 2; }
    int32_t words() const { return k / 8; }

    Work work() const { return all_or_none(std::min(n, m)); }
    size_t workspace_size() const { return sparse24_workspace<T>(n, m, k); }
    Status check_extents() const { return check(); }
    Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"m", m}, {"k", k}}));
        if (k % 8 != 0) return fail(Status::kUnsupported, "k is %d, must be a multiple of 8", k);
        return Status::kOk;
    }
    Status run(const T* x, const T* values, const uint16_t* metadata, T* y, const Launch& launch) const {
        return sparse24_product(launch, Sparse24<T>{n, m, k, x, values, metadata, y});
    }
};

// Expands the weights to a dense m x k matrix.
template <class T>
Status sparse24_inflate(const Launch& launch, int64_t m, int64_t k, const T* values, const uint16_t* metadata, T* dense);

template <class T>
struct Sparse24Inflate {
    int32_t m, k;

    int32_t half_k() const { return k / 2; }
    int32_t words() const { return k / 8; }

    Work work() const { return all_or_none(std::min(m, k)); }
    Status check() const {
        BK_TRY(require_non_negative({{"m", m}, {"k", k}}));
        if (k % 8 != 0) return fail(Status::kUnsupported, "k is %d, must be a multiple of 8", k);
        return Status::kOk;
    }
    Status run(const T* values, const uint16_t* metadata, T* dense, const Launch& launch) const {
        return sparse24_inflate(launch, m, k, values, metadata, dense);
    }
};

}  // namespace bk
