// SPDX-License-Identifier: Apache-2.0
// Entry points of pointwise ops whose outputs are gradients, summed where their operand was broadcast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/pointwise/pointwise_op.h"
#include "core/reduce/pointwise_sum.h"

namespace bk {

template <class... Out>
Work work_of_gradients(const PointwiseArguments& given) {
    return work_of_sums(given.numel, given.rank, given.shape, {given.strides[Out::at]...});
}

template <class... Out, class... In>
size_t sums_workspace(const PointwiseOp& op, const PointwiseArguments& given, OperandSlots<Out...>, OperandSlots<In...>) {
    Operand operands[sizeof...(Out) + sizeof...(In)];
    const Status status = locate(op, given, operands);
    leave(op.name, status);
    if (status != Status::kOk || work_of_gradients<Out...>(given) != Work::kAll) return 0;
    return pointwise_sums_workspace(layout_of<In..., Out...>(given), Inputs<std::remove_const_t<typename In::Element>...>{},
                                    Outputs<typename Out::Element...>{});
}

template <class Fn, class... Out, class... In, class... P>
int32_t run_sums(const PointwiseOp& op, const PointwiseArguments& given, const Launch& launch, OperandSlots<Out...>,
                 OperandSlots<In...>, P... parameters) {
    Operand operands[sizeof...(Out) + sizeof...(In)];
    Status status = locate(op, given, operands);
    const Work work = status == Status::kOk ? work_of_gradients<Out...>(given) : Work::kNone;
    if (work == Work::kNone) return leave(op.name, status);
    status = admit(op, given, operands, work);
    if (status == Status::kOk)
        status = pointwise_sums(launch, layout_of<In..., Out...>(given), functor_of<Fn, compute_of<Out...>>(parameters...),
                                outputs(Out::pointer(given)...), inputs(In::pointer(given)...));
    return leave(op.name, status);
}

}  // namespace bk
