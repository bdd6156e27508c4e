// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al. 2021): pair i of features is rotated by position * base^(-2i / D).
#pragma once

#include <cstdint>

#include "attention/rope/rotation.h"
#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"

namespace bk {

struct NamedStride {
    const char* name;
    int64_t value;
};

// Strides of an operand [batch, heads, seq, head_dim] whose last axis is dense.
struct RopeStrides {
    NamedStride batch, heads, seq;
};

// Extents and checks that all forms share.
struct RopeShape {
    int32_t batch, heads, seq, head_dim;

    bool is_empty() const { return batch == 0 || heads == 0 || seq == 0 || head_dim == 0; }
    Work work() const { return is_empty() ? Work::kNone : Work::kAll; }

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"heads", heads}, {"seq", seq}, {"head_dim", head_dim}}));
        if (head_dim % 2 != 0) return fail(Status::kInvalidProblem, "head_dim is %d, must be even", head_dim);
        return Status::kOk;
    }
    // Checks that a strided output does not exceed the size limit and has no stride 0.
    BK_COLD Status check_output(const char* name, int64_t size, const RopeStrides& strides) const {
        if (is_empty()) return Status::kOk;
        Operand dense;
        BK_TRY(locate_dense(&dense, name, Role::kOutput, size,
                            {{"batch", batch}, {"heads", heads}, {"seq", seq}, {"head_dim", head_dim}}));
        const NamedStride each[] = {strides.batch, strides.heads, strides.seq};
        const int32_t extents[] = {batch, heads, seq};
        for (int d = 0; d < 3; ++d)
            if (each[d].value == 0 && extents[d] > 1)
                return fail(Status::kInvalidProblem, "%s is 0, but an output has %d elements along that axis", each[d].name,
                            extents[d]);
        return Status::kOk;
    }
    // The pointer and two of the three strides identify an operand for alias checks: they imply the third.
    BK_COLD Status locate(Operand* operand, const char* name, Role role, int64_t size, const RopeStrides& given) const {
        const int32_t shape[] = {batch, heads, seq, head_dim};
        const int64_t strides[] = {given.batch.value, given.heads.value, given.seq.value, 1};
        const NamedStride named[] = {given.batch, given.heads, given.seq};
        for (int d = 0; d < 3; ++d)  // separately, so that their sum fits 64 bits
            BK_TRY(locate_strided(operand, name, role, size, named[d].name, 1, shape + d, strides + d, nullptr));
        BK_TRY(locate_strided(operand, name, role, size, given.batch.name, 4, shape, strides, nullptr));
        operand->rank = 0;
        operand->shape = nullptr;
        operand->strides = nullptr;
        operand->pitch = seq > 1 ? given.seq.value : 0;
        operand->step = heads > 1 ? given.heads.value : 0;
        return Status::kOk;
    }
    // Rotates the first `rotary_dim` features. Batches share one sequence's positions or have their own.
    RotaryShape rotary(int32_t rotary_dim, bool is_split, bool is_inverse, const RopeStrides& x, const RopeStrides& y,
                       bool has_own_positions) const {
        const auto strides = [&](const RopeStrides& s) -> RotaryStrides {
            if (has_own_positions) return {s.batch.value, 0, s.heads.value, s.seq.value};
            return {0, s.batch.value, s.heads.value, s.seq.value};
        };
        const int64_t groups = has_own_positions ? batch : 1, outer = has_own_positions ? 1 : batch;
        return {groups, outer, heads, seq, rotary_dim / 2, head_dim - rotary_dim, is_split, is_inverse, strides(x), strides(y)};
    }
    RopeStrides row_major() const {
        return {{"batch", int64_t{heads} * seq * head_dim}, {"heads", int64_t{seq} * head_dim}, {"seq", head_dim}};
    }

    template <class T>
    Status run(const Launch& launch, bool is_split, bool is_inverse, float base, int32_t pos_default_flag, const T* x,
               const int64_t* positions, T* y, const RopeStrides& of_x, const RopeStrides& of_y) const {
        if (pos_default_flag == 0 && positions == nullptr)
            return fail(Status::kInvalidProblem, "positions is NULL, but pos_default_flag is 0");
        const RotaryShape shape = rotary(head_dim, is_split, is_inverse, of_x, of_y, false);
        const RotaryPositions<compute_t<T>> angles{
            pos_default_flag != 0 ? nullptr : positions, 0,
            RotaryFrequencies<kAngleWords<compute_t<T>>>::of(static_cast<double>(base), shape.pairs)};
        return rotate(launch, shape, angles, x, y);
    }
};

// kSplit: pairs are (i, i + head_dim / 2), else (2i, 2i + 1). kInverse: the gradient.
template <class T, bool kSplit, bool kInverse>
struct Rope {
    int32_t batch;
    int32_t heads;
    int32_t seq;
    int32_t head_dim;
    float base;
    int32_t pos_default_flag;

    Work work() const { return shape().work(); }
    Status check() const { return shape().check(); }
    Status run(const T* x, const int64_t* positions, T* y, const Launch& launch) const {
        const RopeStrides dense = shape().row_major();
        return shape().run(launch, kSplit, kInverse, base, pos_default_flag, x, positions, y, dense, dense);
    }

private:
    RopeShape shape() const { return {batch, heads, seq, head_dim}; }
};

template <class T, bool kSplit>
struct RopeStrided {
    int32_t batch;
    int32_t heads;
    int32_t seq;
    int32_t head_dim;
    int64_t stride_x_b;
    int64_t stride_x_h;
    int64_t stride_x_s;
    int64_t stride_y_b;
    int64_t stride_y_h;
    int64_t stride_y_s;
    float base;
    int32_t pos_default_flag;

    Work work() const { return shape().work(); }
    Status check() const {
        BK_TRY(shape().check());
        return shape().check_output("y", size_of<T>(), of_y());
    }
    Status locate_x(Operand* x, const char* name, Role role, int64_t size) const {
        return shape().locate(x, name, role, size, of_x());
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return shape().locate(y, name, role, size, of_y());
    }
    Status run(const T* x, const int64_t* positions, T* y, const Launch& launch) const {
        return shape().run(launch, kSplit, false, base, pos_default_flag, x, positions, y, of_x(), of_y());
    }

private:
    RopeShape shape() const { return {batch, heads, seq, head_dim}; }
    RopeStrides of_x() const { return {{"stride_x_b", stride_x_b}, {"stride_x_h", stride_x_h}, {"stride_x_s", stride_x_s}}; }
    RopeStrides of_y() const { return {{"stride_y_b", stride_y_b}, {"stride_y_h", stride_y_h}, {"stride_y_s", stride_y_s}}; }
};

template <class T, bool kSplit>
struct RopeBackwardStrided {
    int32_t batch;
    int32_t heads;
    int32_t seq;
    int32_t head_dim;
    int64_t stride_dy_b;
    int64_t stride_dy_h;
    int64_t stride_dy_s;
    int64_t stride_dx_b;
    int64_t stride_dx_h;
    int64_t stride_dx_s;
    float base;
    int32_t pos_default_flag;

    Work work() const { return shape().work(); }
    Status check() const {
        BK_TRY(shape().check());
        return shape().check_output("dx", size_of<T>(), of_dx());
    }
    Status locate_dy(Operand* dy, const char* name, Role role, int64_t size) const {
        return shape().locate(dy, name, role, size, of_dy());
    }
    Status locate_dx(Operand* dx, const char* name, Role role, int64_t size) const {
        return shape().locate(dx, name, role, size, of_dx());
    }
    Status run(const T* dy, const int64_t* positions, T* dx, const Launch& launch) const {
        return shape().run(launch, kSplit, true, base, pos_default_flag, dy, positions, dx, of_dy(), of_dx());
    }

private:
    RopeShape shape() const { return {batch, heads, seq, head_dim}; }
    RopeStrides of_dy() const {
        return {{"stride_dy_b", stride_dy_b}, {"stride_dy_h", stride_dy_h}, {"stride_dy_s", stride_dy_s}};
    }
    RopeStrides of_dx() const {
        return {{"stride_dx_b", stride_dx_b}, {"stride_dx_h", stride_dx_h}, {"stride_dx_s", stride_dx_s}};
    }
};

// Positions per batch or, with kStarts, the first position per batch; features from rotary_dim on are copied.
template <class T, bool kSplit, bool kInverse, bool kStarts = false>
struct RopePositions {
    int32_t batch;
    int32_t heads;
    int32_t seq;
    int32_t head_dim;
    int32_t rotary_dim;
    float base;

    Work work() const { return shape().work(); }
    Status check() const {
        BK_TRY(shape().check());
        if (rotary_dim < 0 || rotary_dim > head_dim || rotary_dim % 2 != 0)
            return fail(Status::kInvalidProblem, "rotary_dim is %d, must be even and in [0, head_dim], %d", rotary_dim,
                        head_dim);
        return Status::kOk;
    }
    Status run(const T* x, const int64_t* positions, T* y, const Launch& launch) const {
        const RopeStrides dense = shape().row_major();
        const RotaryShape rotary = shape().rotary(rotary_dim, kSplit, kInverse, dense, dense, positions != nullptr);
        const RotaryPositions<compute_t<T>> angles{
            positions, seq, RotaryFrequencies<kAngleWords<compute_t<T>>>::of(static_cast<double>(base), rotary.pairs), kStarts};
        return rotate(launch, rotary, angles, x, y);
    }

private:
    RopeShape shape() const { return {batch, heads, seq, head_dim}; }
};

}  // namespace bk
