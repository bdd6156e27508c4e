// Split-K GEMM for small M x N and large K: enough blocks to fill the chip compute partial sums over slices of K, which
// are added in slice order (deterministic). The number of slices follows from the extents alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/workspace.h"
#include "gemm/matmul_library.cuh"
#include "gemm/matmul_simt.cuh"
#include "gemm/matmul_tensor.cuh"

namespace bk {

// Integers are not split: their i32 partials would not add exactly as f32.
template <class T>
constexpr bool kHasParts =
    std::is_floating_point_v<matmul_scalar_t<T>> && !std::is_integral_v<matmul_element_t<T>> && !kIsPacked<matmul_element_t<T>>;

constexpr int64_t kLeastSpan = 512, kSpanUnit = 128;  // K elements of a slice; a multiple of 16-byte vectors and of tiles

// The split of a GEMM whose workspace is `sums`; one slice if splitting does not pay.
template <class T>
PartsOf<T> parts_of(int64_t m, int64_t n, int64_t k, int64_t batch, void* sums) {
    constexpr int64_t kSide = std::is_same_v<T, float> ? kSimtSide : 64;
    PartsOf<T> parts;
    if (!kHasParts<T> || std::min({m, n, batch}) <= 0 || k < 2 * kLeastSpan) return parts;
    const int64_t down = ceil_div(m, kSide), across = ceil_div(n, kSide);
    if (down > kMultiprocessors || across > kMultiprocessors || batch > kMultiprocessors) return parts;
    const int64_t tiles = down * across * batch, wanted = std::min(2 * kMultiprocessors / tiles, k / kLeastSpan);
    if (2 * tiles > kMultiprocessors || wanted < 2) return parts;
    parts.sums = static_cast<matmul_scalar_t<T>*>(sums);
    parts.span = ceil_div(ceil_div(k, wanted), kSpanUnit) * kSpanUnit;
    parts.count = ceil_div(k, parts.span);
    return parts;
}

template <class T>
size_t parts_workspace(int64_t m, int64_t n, int64_t k, int64_t batch) {
    const PartsOf<T> parts = parts_of<T>(m, n, k, batch, nullptr);
    if (parts.count == 1) return 0;
    Carver carver;
    carver.take<matmul_scalar_t<T>>(parts.count * batch * m * n);
    return carver.bytes();
}

template <class T>
Status matmul_by_parts(const Launch& launch, const Matmul<T>& p) {
    Carver carver(launch.workspace);
    const PartsOf<T> parts = parts_of<T>(p.m, p.n, p.k, p.batch, carver.take<char>(0));
    if constexpr (std::is_same_v<T, float>)
        BK_TRY(matmul_by_fma(launch, p, parts));
    else
        BK_TRY(matmul_by_tensor_cores(launch, p, parts));
    return finish(launch, p.epilogue, parts, p.n, p.m, p.n, p.batch);
}

}  // namespace bk
