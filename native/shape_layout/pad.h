// SPDX-License-Identifier: Apache-2.0
// Padding along every axis: constant, reflect, replicate, circular.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "shape_layout/extents.h"

namespace bk {

struct PadShape {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* pad_low;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(output_numel); }
    BK_COLD Status check_all() const {
        BK_TRY(check_shape("output_numel", output_numel, rank, "output_shape", output_shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}}));
        int64_t count = 0;
        BK_TRY(count_elements("input_shape", rank, input_shape, &count));
        return require_array("pad_low", pad_low, rank);
    }
    // Modes other than constant need an element of x for every element of y.
    BK_COLD Status check_source() const {
        for (int32_t d = 0; d < rank; ++d)
            if (input_shape[d] == 0 && output_numel > 0)
                return fail(Status::kInvalidProblem, "input_shape[%d] is 0, must be >= 1 for a non-empty output", d);
        return Status::kOk;
    }
    BK_COLD Status pad(const Launch& launch, PadMode pad_mode, uint64_t value, uint64_t value_high, int bytes, const void* x,
                       void* y) const {
        MappedCopy copy;
        copy.pad_mode = pad_mode;
        copy.value = value;
        copy.value_high = value_high;
        copy.rank = rank;
        for (int32_t d = 0; d < rank; ++d)
            copy.axis[d] = {output_shape[d], input_shape[d], pad_low[d], stride_y[d], stride_x[d]};
        return copy_mapped(launch, copy, bytes, x, y);
    }
};

// Type of the `value` parameter: T, or its bits if C has no such type.
template <class T>
using pad_value_t = std::conditional_t<std::is_arithmetic_v<T>, T, bits_t<T>>;

template <class T>
struct PadConstant {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* pad_low;
    const int64_t* stride_x;
    const int64_t* stride_y;
    pad_value_t<T> value;

    Work work() const { return all_or_none(output_numel); }
    Status check() const { return shape().check_all(); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return shape().pad(launch, PadMode::kConstant, bit_cast<bits_t<T>>(value), 0, sizeof(T), x, y);
    }

private:
    PadShape shape() const { return {output_numel, rank, input_shape, output_shape, pad_low, stride_x, stride_y}; }
};

// Constant padding of 16-byte elements.
template <class T>
struct PadConstantHalves {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* output_shape;
    const int32_t* pad_low;
    const int64_t* stride_x;
    const int64_t* stride_y;
    uint64_t value;
    uint64_t value_high;

    Work work() const { return all_or_none(output_numel); }
    Status check() const { return shape().check_all(); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return shape().pad(launch, PadMode::kConstant, value, value_high, sizeof(T), x, y);
    }

private:
    PadShape shape() const { return {output_numel, rank, input_shape, output_shape, pad_low, stride_x, stride_y}; }
};

template <PadMode pad_mode, class T>
struct PadFrom : PadShape {
    Status check() const {
        BK_TRY(check_all());
        return check_source();
    }
    Status run(const T* x, T* y, const Launch& launch) const { return pad(launch, pad_mode, 0, 0, sizeof(T), x, y); }
};

// dx is a slice of dy.
struct PadConstantBackwardShape {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* pad_low;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    Work work() const { return all_or_none(input_numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("input_numel", input_numel, rank, "input_shape", input_shape, {{"stride_dy", stride_dy}},
                           {{"stride_dx", stride_dx}}));
        BK_TRY(require_array("pad_low", pad_low, rank));
        for (int32_t d = 0; d < rank; ++d)
            if (pad_low[d] < 0) return fail(Status::kInvalidProblem, "pad_low[%d] is %d, must be >= 0", d, pad_low[d]);
        return Status::kOk;
    }
    BK_COLD Status locate_dy(Operand* dy, const char* name, Role role, int64_t size) const {
        Extents reached;  // extents of dy as far as it is read
        for (int32_t d = 0; d < rank; ++d) {
            if (__builtin_add_overflow(input_shape[d], pad_low[d], &reached.of[d]))
                return fail(Status::kInvalidProblem, "pad_low[%d] is %d: dy would have 2^31 or more elements along the axis", d,
                            pad_low[d]);
        }
        BK_TRY(locate_extents(dy, name, role, size, "stride_dy", rank, reached, stride_dy));
        BK_TRY(locate_extents(dy, name, role, size, "stride_dy", rank, extents(), stride_dy));
        if (!dy->has_elements()) return Status::kOk;
        dy->low += offset() * size, dy->high += offset() * size;
        dy->origin = offset() * size;
        dy->has_gaps = true;
        return Status::kOk;
    }
    BK_COLD Status slice(const Launch& launch, int bytes, const void* dy, void* dx) const {
        CopyLayout layout;
        for (int32_t d = 0; d < rank; ++d) layout.append(input_shape[d], {stride_dx[d], stride_dy[d]});
        return copy_strided(launch, layout, bytes, static_cast<const char*>(dy) + offset() * bytes, dx);
    }

private:
    Extents extents() const {
        Extents own;
        for (int32_t d = 0; d < rank; ++d) own.of[d] = input_shape[d];
        return own;
    }
    int64_t offset() const {
        int64_t sum = 0;
        for (int32_t d = 0; d < rank; ++d) sum += pad_low[d] * stride_dy[d];
        return sum;
    }
};

template <class T>
struct PadConstantBackward : PadConstantBackwardShape {
    Status run(const T* dy, T* dx, const Launch& launch) const { return slice(launch, sizeof(T), dy, dx); }
};

}  // namespace bk
