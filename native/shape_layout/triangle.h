// SPDX-License-Identifier: Apache-2.0
// triu and tril along the last two axes, as a band of a mapped copy; other elements are zero.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "shape_layout/extents.h"

namespace bk {

inline Status require_matrices(const int32_t* shape, int32_t rank, int64_t* count) {
    if (rank < 2 || rank > kMaxRank) return fail(Status::kInvalidProblem, "rank is %d, must be in [2, %d]", rank, kMaxRank);
    return count_elements("shape", rank, shape, count);
}

BK_COLD inline Status copy_triangle(const Launch& launch, bool upper, int bytes, const int32_t* shape, int32_t rank,
                                    const int64_t* stride_x, const int64_t* stride_y, int32_t diagonal, const void* x,
                                    void* y) {
    MappedCopy copy;
    copy.rank = rank;
    for (int32_t d = 0; d < rank; ++d) copy.axis[d] = {shape[d], shape[d], 0, stride_y[d], stride_x[d]};
    copy.axis[rank - 2].slope = -1;
    copy.axis[rank - 1].slope = 1;
    (upper ? copy.band[0].least : copy.band[0].most) = diagonal;
    return copy_mapped(launch, copy, bytes, x, y);
}

template <bool upper, class T>
struct Triangle {
    const int32_t* shape;
    int32_t rank;
    int32_t diagonal;

    int64_t numel() const {
        int64_t strides[kMaxRank];
        return row_major(rank, shape, strides);
    }
    Work work() const { return all_or_none(numel()); }
    Status check() const {
        int64_t count = 0;
        return require_matrices(shape, rank, &count);
    }
    Status run(const T* input, T* output, const Launch& launch) const {
        int64_t strides[kMaxRank];
        row_major(rank, shape, strides);
        return copy_triangle(launch, upper, sizeof(T), shape, rank, strides, strides, diagonal, input, output);
    }
};

template <bool upper, class T>
struct TriangleStrided {
    const int32_t* shape;
    int32_t rank;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t diagonal;

    Work work() const { return Triangle<upper, T>{shape, rank, diagonal}.work(); }
    Status check() const {
        int64_t count = 0;
        BK_TRY(require_matrices(shape, rank, &count));
        return check_shape("shape", count, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}});
    }
    Status locate_input(Operand* input, const char* name, Role role, int64_t size) const {
        return locate_strided(input, name, role, size, "stride_x", rank, shape, stride_x, nullptr);
    }
    Status locate_output(Operand* output, const char* name, Role role, int64_t size) const {
        return locate_strided(output, name, role, size, "stride_y", rank, shape, stride_y, nullptr);
    }
    Status run(const T* input, T* output, const Launch& launch) const {
        return copy_triangle(launch, upper, sizeof(T), shape, rank, stride_x, stride_y, diagonal, input, output);
    }
};

}  // namespace bk
