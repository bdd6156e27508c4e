// SPDX-License-Identifier: Apache-2.0
// Concatenation of n tensors along an axis and its adjoint, the split; copies share launches.
#pragma once

#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand_list.h"
#include "core/copy/row_copies.h"
#include "shape_layout/extents.h"

namespace bk {

// Slice k has extents[k] elements along the axis and the strides from strides[k * rank] on.
struct ConcatSlices {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t concat_dim;
    int32_t n;
    const int32_t* extents;
    const int64_t* strides;
    const char* strides_name;

    Status check(const NamedStrides& concat_strides, bool is_output) const;
    Status locate(Operand* slice, const char* name, Role role, int64_t size, int32_t k) const;

    // Strides of the concatenation, then of slice k, which begins after the extents of slices 0..k-1.
    CopyLayout layout(int32_t k, const int64_t* concat_strides) const {
        CopyLayout layout;
        const Extents own = extents_of(k);
        for (int32_t d = 0; d < rank; ++d) layout.append(own.of[d], {concat_strides[d], strides_of(k)[d]});
        return layout;
    }

private:
    const int64_t* strides_of(int32_t k) const { return strides + int64_t{k} * rank; }
    Extents extents_of(int32_t k) const {
        Extents own;
        for (int32_t d = 0; d < rank; ++d) own.of[d] = d == concat_dim ? extents[k] : output_shape[d];
        return own;
    }
};

BK_COLD inline Status ConcatSlices::check(const NamedStrides& concat_strides, bool is_output) const {
    const NamedStrides none[] = {concat_strides};
    BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape, none, none + !is_output, none + 1));
    BK_TRY(require_axis("concat_dim", concat_dim, rank));
    BK_TRY(require_non_negative({{"n", n}}));
    BK_TRY(require_array("extents", extents, n));
    BK_TRY(require_array(strides_name, strides, n));
    int64_t sum = 0;
    for (int32_t k = 0; k < n; ++k) {
        if (extents[k] < 0) return fail(Status::kInvalidProblem, "extents[%d] is %d, must be >= 0", k, extents[k]);
        sum += extents[k];
    }
    if (sum != output_shape[concat_dim])
        return fail(Status::kInvalidProblem, "extents has a sum of %lld, must be output_shape[%d], %d",
                    static_cast<long long>(sum), concat_dim, output_shape[concat_dim]);
    return Status::kOk;
}

BK_COLD inline Status ConcatSlices::locate(Operand* slice, const char* name, Role role, int64_t size, int32_t k) const {
    const Extents own = extents_of(k);
    const EntryName entry(strides_name, k);  // "stride_inputs[3]", to which error texts append an index
    BK_TRY(locate_extents(slice, name, role, size, entry.text, rank, own, strides_of(k)));
    return slice->is_output() && slice->has_elements() ? require_distinct({entry.text, strides_of(k)}, rank, own.of)
                                                       : Status::kOk;
}

template <class T>
struct Concat {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t concat_dim;
    int32_t n;
    const int32_t* extents;
    const int64_t* stride_inputs;
    const int64_t* stride_y;
    const void* const* inputs;

    Work work() const { return all_or_none(output_numel); }
    Status check() const { return slices().check({"stride_y", stride_y}, true); }
    Status locate_inputs(Operand* input, const char* name, Role role, int64_t size, int32_t k) const {
        return slices().locate(input, name, role, size, k);
    }
    Status run(T* y, const Launch& launch) const {
        CopyBatch batch(launch, sizeof(T));
        for (int32_t k = 0; k < n; ++k) {
            BK_TRY(batch.add(slices().layout(k, stride_y), inputs[k], y));
            y += extents[k] * stride_y[concat_dim];
        }
        return batch.flush();
    }

private:
    ConcatSlices slices() const {
        return {output_numel, rank, output_shape, concat_dim, n, extents, stride_inputs, "stride_inputs"};
    }
};

template <class T>
struct ConcatBackward {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t concat_dim;
    int32_t n;
    const int32_t* extents;
    const int64_t* stride_dy;
    const int64_t* stride_outputs;
    void* const* outputs;

    Work work() const { return all_or_none(output_numel); }
    Status check() const { return slices().check({"stride_dy", stride_dy}, false); }
    Status locate_outputs(Operand* output, const char* name, Role role, int64_t size, int32_t k) const {
        return slices().locate(output, name, role, size, k);
    }
    Status run(const T* dy, const Launch& launch) const {
        CopyBatch batch(launch, sizeof(T));
        for (int32_t k = 0; k < n; ++k) {
            CopyLayout layout = slices().layout(k, stride_dy);
            for (int d = 0; d < rank; ++d) std::swap(layout.stride[0][d], layout.stride[1][d]);
            if (outputs[k] != nullptr) BK_TRY(batch.add(layout, dy, outputs[k]));
            dy += extents[k] * stride_dy[concat_dim];
        }
        return batch.flush();
    }

private:
    ConcatSlices slices() const {
        return {output_numel, rank, output_shape, concat_dim, n, extents, stride_outputs, "stride_outputs"};
    }
};

}  // namespace bk
