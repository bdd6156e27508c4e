// SPDX-License-Identifier: Apache-2.0
// Gated linear units: y = a f(b), where a and b are the halves of x along an axis.
#pragma once

#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"
#include "elementwise/gated_functions.h"

namespace bk {

inline Status require_split_axis(int32_t split_dim, int32_t rank) {
    BK_TRY(require_axis("split_dim", split_dim, rank));
    return Status::kOk;
}

// `size` is that of an element in bytes.
inline Status require_half_offset(const char* name, int64_t offset, size_t size) {
    const int64_t most = kMaxOperandBytes / static_cast<int64_t>(size);
    if (offset > most || offset < -most)
        return fail(Status::kInvalidProblem, "%s is %lld: the halves would lie more than 2^47 bytes apart", name,
                    static_cast<long long>(offset));
    return Status::kOk;
}

template <template <class> class F, class T>
struct Gated {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t split_dim;
    int64_t x_half_offset;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(output_numel); }
    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}}));
        BK_TRY(require_split_axis(split_dim, rank));
        return require_half_offset("x_half_offset", x_half_offset, sizeof(T));
    }
    Status run(const T* x, T* y, const Launch& launch) const {
        return pointwise_strided(launch, make_layout<3>(rank, output_shape, {stride_y, stride_x, stride_x}), F<T>{}, outputs(y),
                                 inputs(x, x + x_half_offset));
    }
};

template <template <class> class F, class T>
struct GatedBackward {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t split_dim;
    int64_t x_half_offset;
    int64_t dx_half_offset;
    const int64_t* stride_x;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Work work() const { return all_or_none(output_numel); }
    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape,
                           {{"stride_x", stride_x}, {"stride_dy", stride_dy}}, {{"stride_dx", stride_dx}}));
        BK_TRY(require_split_axis(split_dim, rank));
        BK_TRY(require_half_offset("x_half_offset", x_half_offset, sizeof(T)));
        BK_TRY(require_half_offset("dx_half_offset", dx_half_offset, sizeof(T)));
        if (output_numel != 0 && dx_half_offset == 0)
            return fail(Status::kInvalidProblem, "dx_half_offset is 0, but the halves of dx are distinct");
        return Status::kOk;
    }
    Status run(const T* x, const T* dy, T* dx, const Launch& launch) const {
        return pointwise_strided(launch,
                                 make_layout<5>(rank, output_shape, {stride_dx, stride_dx, stride_x, stride_x, stride_dy}),
                                 F<T>{}, outputs(dx, dx + dx_half_offset), inputs(x, x + x_half_offset, dy));
    }
};

}  // namespace bk
