// SPDX-License-Identifier: Apache-2.0
// flip, roll and permute: copies with axes reversed, rotated, or exchanged.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "shape_layout/extents.h"

namespace bk {

struct FlipShape {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int32_t* flip_axes;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        return require_array("flip_axes", flip_axes, rank);
    }
    // Axes are walked in the direction of ascending y. If the innermost axis is then reversed in x, a mapped copy
    // reverses vectors; otherwise a strided copy serves.
    BK_COLD Status flip(const Launch& launch, int bytes, const char* x, char* y) const {
        MappedCopy copy;
        CopyLayout layout;
        copy.rank = rank;
        bool reverses = false;
        int64_t closest = INT64_MAX;
        for (int32_t d = 0; d < rank; ++d) {
            int64_t to = stride_y[d], from = stride_x[d];
            const int64_t last = shape[d] - 1;
            if (flip_axes[d] != 0) x += last * from * bytes, from = -from;
            if (to < 0) x += last * from * bytes, y += last * to * bytes, to = -to, from = -from;
            layout.append(shape[d], {to, from});
            copy.axis[d] = {shape[d], shape[d], 0, to, from};
            if (shape[d] > 1 && to < closest) closest = to, reverses = to == 1 && from == -1;
        }
        return reverses ? copy_mapped(launch, copy, bytes, x, y) : copy_strided(launch, layout, bytes, x, y);
    }
};

template <class T>
struct Flip : FlipShape {
    Status run(const T* x, T* y, const Launch& launch) const {
        return flip(launch, sizeof(T), reinterpret_cast<const char*>(x), reinterpret_cast<char*>(y));
    }
};

struct RollShape {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int32_t* shifts;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        return require_array("shifts", shifts, rank);
    }
    BK_COLD Status roll(const Launch& launch, int bytes, const void* x, void* y) const {
        MappedCopy copy;
        copy.pad_mode = PadMode::kCircular;
        copy.rank = rank;
        for (int32_t d = 0; d < rank; ++d) {
            const int64_t extent = shape[d], shift = (shifts[d] % extent + extent) % extent;
            copy.axis[d] = {extent, extent, shift, stride_y[d], stride_x[d]};
        }
        return copy_mapped(launch, copy, bytes, x, y);
    }
};

template <class T>
struct Roll : RollShape {
    Status run(const T* x, T* y, const Launch& launch) const { return roll(launch, sizeof(T), x, y); }
};

struct PermuteShape {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* dims;
    const int64_t* stride_x;
    const int64_t* stride_y;

    Work work() const { return all_or_none(input_numel); }
    BK_COLD Status check() const {
        BK_TRY(check_shape("input_numel", input_numel, rank, "input_shape", input_shape,
                           {{"stride_x", stride_x}, {"stride_y", stride_y}}, {}));
        BK_TRY(require_array("dims", dims, rank));
        unsigned seen = 0;
        for (int32_t d = 0; d < rank; ++d) {
            if (dims[d] < 0 || dims[d] >= rank)
                return fail(Status::kInvalidProblem, "dims[%d] is %d, must be in [0, rank), and rank is %d", d, dims[d], rank);
            if (seen >> dims[d] & 1) return fail(Status::kInvalidProblem, "dims[%d] is %d, as an entry before it", d, dims[d]);
            seen |= 1u << dims[d];
        }
        return input_numel > 0 ? require_distinct({"stride_y", stride_y}, rank, extents().of) : Status::kOk;
    }
    BK_COLD Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return locate_extents(y, name, role, size, "stride_y", rank, extents(), stride_y);
    }
    BK_COLD Status permute(const Launch& launch, int bytes, const void* x, void* y) const {
        CopyLayout layout;
        for (int32_t d = 0; d < rank; ++d) layout.append(input_shape[dims[d]], {stride_y[d], stride_x[dims[d]]});
        return copy_strided(launch, layout, bytes, x, y);
    }

private:
    Extents extents() const {
        Extents own;
        for (int32_t d = 0; d < rank; ++d) own.of[d] = input_shape[dims[d]];
        return own;
    }
};

template <class T>
struct Permute : PermuteShape {
    Status run(const T* x, T* y, const Launch& launch) const { return permute(launch, sizeof(T), x, y); }
};

}  // namespace bk
