// SPDX-License-Identifier: Apache-2.0
// Concatenation of two tensors along an axis and its adjoint, the split: one strided copy per tensor.
#pragma once

#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "shape_layout/extents.h"

namespace bk {

// Extents and offsets of both tensors within y, their concatenation.
struct Halves {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t concat_dim;
    int32_t split_offset;

    Extents extents(bool second) const {
        Extents extents;
        for (int32_t d = 0; d < rank; ++d) extents.of[d] = output_shape[d];
        extents.of[concat_dim] = second ? output_shape[concat_dim] - split_offset : split_offset;
        return extents;
    }
    BK_COLD Status check() const {
        BK_TRY(require_axis("concat_dim", concat_dim, rank));
        if (split_offset < 0 || split_offset > output_shape[concat_dim])
            return fail(Status::kInvalidProblem, "split_offset is %d, must be in [0, %d], the extent along concat_dim",
                        split_offset, output_shape[concat_dim]);
        return Status::kOk;
    }
    BK_COLD Status check_distinct(const NamedStrides& strides, bool second) const {
        const Extents own = extents(second);
        for (int32_t d = 0; d < rank; ++d)
            if (own.of[d] == 0) return Status::kOk;
        return require_distinct(strides, rank, own.of);
    }
    // Layout of one half, with the strides of y and x in this order.
    CopyLayout layout(bool second, const int64_t* stride_y, const int64_t* stride_x) const {
        const Extents own = extents(second);
        CopyLayout layout;
        for (int32_t d = 0; d < rank; ++d) layout.append(own.of[d], {stride_y[d], stride_x[d]});
        return layout;
    }
};

template <class T>
struct Concat2 {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t concat_dim;
    int32_t split_offset;
    const int64_t* stride_a;
    const int64_t* stride_b;
    const int64_t* stride_y;

    Work work() const { return all_or_none(output_numel); }
    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape,
                           {{"stride_a", stride_a}, {"stride_b", stride_b}}, {{"stride_y", stride_y}}));
        return halves().check();
    }
    Status locate_a(Operand* a, const char* name, Role role, int64_t size) const {
        return locate_extents(a, name, role, size, "stride_a", rank, halves().extents(false), stride_a);
    }
    Status locate_b(Operand* b, const char* name, Role role, int64_t size) const {
        return locate_extents(b, name, role, size, "stride_b", rank, halves().extents(true), stride_b);
    }
    Status run(const T* a, const T* b, T* y, const Launch& launch) const {
        const CopyLayout first = halves().layout(false, stride_y, stride_a), second = halves().layout(true, stride_y, stride_b);
        if (!first.is_empty()) BK_TRY(copy_strided(launch, first, sizeof(T), a, y));
        if (second.is_empty()) return Status::kOk;
        return copy_strided(launch, second, sizeof(T), b, y + split_offset * stride_y[concat_dim]);
    }

private:
    Halves halves() const { return {output_numel, rank, output_shape, concat_dim, split_offset}; }
};

template <class T>
struct Concat2Backward {
    int64_t output_numel;
    int32_t rank;
    const int32_t* output_shape;
    int32_t concat_dim;
    int32_t split_offset;
    const int64_t* stride_dy;
    const int64_t* stride_da;
    const int64_t* stride_db;

    Work work() const { return all_or_none(output_numel); }
    Status check() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape,
                           {{"stride_dy", stride_dy}, {"stride_da", stride_da}, {"stride_db", stride_db}}, {}));
        BK_TRY(halves().check());
        BK_TRY(halves().check_distinct({"stride_da", stride_da}, false));
        return halves().check_distinct({"stride_db", stride_db}, true);
    }
    Status locate_da(Operand* da, const char* name, Role role, int64_t size) const {
        return locate_extents(da, name, role, size, "stride_da", rank, halves().extents(false), stride_da);
    }
    Status locate_db(Operand* db, const char* name, Role role, int64_t size) const {
        return locate_extents(db, name, role, size, "stride_db", rank, halves().extents(true), stride_db);
    }
    Status run(const T* dy, T* da, T* db, const Launch& launch) const {
        const CopyLayout first = halves().layout(false, stride_da, stride_dy),
                         second = halves().layout(true, stride_db, stride_dy);
        if (da != nullptr && !first.is_empty()) BK_TRY(copy_strided(launch, first, sizeof(T), dy, da));
        if (db == nullptr || second.is_empty()) return Status::kOk;
        return copy_strided(launch, second, sizeof(T), dy + split_offset * stride_dy[concat_dim], db);
    }

private:
    Halves halves() const { return {output_numel, rank, output_shape, concat_dim, split_offset}; }
};

}  // namespace bk
