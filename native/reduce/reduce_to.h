// SPDX-License-Identifier: Apache-2.0
// Reductions to a shape: the reverse of broadcasting.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "core/reduce/reduce.h"
#include "reduce/functions.h"

namespace bk {

// An axis of extent 1 in the output, and another one in the input, is reduced. An axis of extent 1 in the input alone
// is repeated. Fields are in the order of the table's parameters; other ops append theirs.
struct ShapeReduction {
    const int32_t* input_shape;
    const int64_t* input_stride;
    int32_t rank_in;
    const int32_t* output_shape;

    Work work() const {
        bool is_empty = false;
        for (int32_t d = 0; d < rank_in; ++d) {
            if (output_shape[d] == 0) return Work::kNone;
            is_empty = is_empty || input_shape[d] == 0;
        }
        return is_empty ? Work::kZeros : Work::kAll;
    }

    Status check() const {
        if (rank_in < 0 || rank_in > kMaxRank)
            return fail(Status::kInvalidProblem, "rank_in is %d, must be in [0, %d]", rank_in, kMaxRank);
        BK_TRY(require_shape("input_shape", input_shape, rank_in));
        const NamedStrides strides{"input_stride", input_stride};
        BK_TRY(require_strides(&strides, &strides + 1, rank_in));
        BK_TRY(require_shape("output_shape", output_shape, rank_in));
        int64_t elements[2] = {1, 1};
        for (int32_t d = 0; d < rank_in; ++d) {
            if (output_shape[d] != input_shape[d] && output_shape[d] != 1 && input_shape[d] != 1)
                return fail(Status::kInvalidProblem, "output_shape[%d] is %d, must be 1 or input_shape[%d], which is %d", d,
                            output_shape[d], d, input_shape[d]);
            for (int k = 0; k < 2; ++k) {
                const int64_t extent = std::max(k == 0 ? input_shape[d] : output_shape[d], 1);
                if (__builtin_mul_overflow(elements[k], extent, &elements[k]) || elements[k] > kMaxOperandBytes)
                    return fail(Status::kInvalidProblem, "%s has more than 2^47 elements",
                                k == 0 ? "input_shape" : "output_shape");
            }
        }
        return Status::kOk;
    }

    Status locate_src(Operand* src, const char* name, Role role, int64_t size) const {
        return locate_strided(src, name, role, size, "input_stride", rank_in, input_shape, input_stride, nullptr);
    }
    Status locate_dst(Operand* dst, const char* name, Role role, int64_t size) const {
        int64_t strides[kMaxRank];
        row_major(strides);
        BK_TRY(locate_strided(dst, name, role, size, "output_shape", rank_in, output_shape, strides, nullptr));
        dst->rank = 0;  // the strides are local, and no output is an input
        return Status::kOk;
    }

    // All outputs have the strides of dst.
    template <int Out>
    ReduceAxes<1, Out> axes() const {
        int64_t strides[kMaxRank];
        row_major(strides);
        ReduceAxes<1, Out> axes;
        for (int32_t d = 0; d < rank_in; ++d) {
            if (output_shape[d] == 1 && input_shape[d] != 1) {
                axes.reduced.append(input_shape[d], {input_stride[d]});
                continue;
            }
            int64_t stride[1 + Out];
            std::fill_n(stride, 1 + Out, strides[d]);
            stride[0] = input_shape[d] == 1 ? 0 : input_stride[d];
            axes.kept.append(output_shape[d], stride);
        }
        return axes;
    }

private:
    void row_major(int64_t* strides) const {
        int64_t step = 1;
        for (int32_t d = rank_in; d-- > 0; step *= output_shape[d]) strides[d] = step;
    }
};

// Op is a class of reduce/functions.h.
template <class Op, class T, class U = T>
struct ReduceTo : ShapeReduction {
    size_t workspace_size() const { return reduction_workspace<Op>(axes<Op::kOutputs>()); }
    Status run(const T* src, U* dst, const Launch& launch) const {
        return run_reduction<Op>(launch, axes<Op::kOutputs>(), Op::reducer(), src, dst);
    }
};

// Variance or standard deviation.
template <class Op, class T>
struct ReduceMomentsTo {
    const int32_t* input_shape;
    const int64_t* input_stride;
    int32_t rank_in;
    const int32_t* output_shape;
    int32_t correction;

    Work work() const { return plain().work(); }
    Status check() const { return plain().check(); }
    Status locate_src(Operand* src, const char* name, Role role, int64_t size) const {
        return plain().locate_src(src, name, role, size);
    }
    Status locate_dst(Operand* dst, const char* name, Role role, int64_t size) const {
        return plain().locate_dst(dst, name, role, size);
    }
    size_t workspace_size() const { return reduction_workspace<Op>(plain().template axes<Op::kOutputs>(), correction); }
    Status run(const T* src, T* dst, const Launch& launch) const {
        return run_reduction<Op>(launch, plain().template axes<Op::kOutputs>(), Op::reducer(correction), src, dst);
    }

private:
    ShapeReduction plain() const { return {input_shape, input_stride, rank_in, output_shape}; }
};

}  // namespace bk
