// SPDX-License-Identifier: Apache-2.0
// Entry points of regular pointwise ops: a functor, and operands that all have the problem's extents.
//
// Such an op has no struct. For each form, contiguous or strided, tools/gen_abi.py writes a PointwiseOp that describes
// the operands and a call of run_flat or run_strided. Operands are in the order of the C function; OperandSlots list the
// functor's results and arguments in its own order.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/checks.h"
#include "core/abi/entry.h"
#include "core/abi/strided_args.h"
#include "core/pointwise/pointwise.h"

namespace bk {

struct PointwiseOperand {
    const char* name;
    const char* strides_name;
    Role role;
    int64_t size;                            // bytes of an element
    unsigned readers = Operand::kAnyReader;  // of an input: a bit for each operand that reads it
    unsigned may_be = 0;                     // of an output: a bit for each input that it may alias
};

struct PointwiseOp {
    const char* name;
    const PointwiseOperand* operands;  // the inputs, then the outputs
    int inputs, outputs;
    bool is_strided;
    bool is_summed;  // outputs may have stride 0 along an axis, which is then summed
};

// Arguments of one call except workspace, stream and parameters. numel alone describes contiguous operands; a query of
// `_can_implement` has no pointers.
struct PointwiseArguments {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t** strides;
    const void** pointers;
};

// Checks everything that needs no pointers and computes the operands' byte ranges.
BK_COLD inline Status locate(const PointwiseOp& op, const PointwiseArguments& given, Operand* operands) {
    const int count = op.inputs + op.outputs;
    if (op.is_strided) {
        NamedStrides strides[kMaxStridedOperands] = {};
        for (int k = 0; k < count; ++k) strides[k] = {op.operands[k].strides_name, given.strides[k]};
        const int outputs = op.is_summed ? 0 : op.outputs;  // that must be distinct for each index
        BK_TRY(check_shape("numel", given.numel, given.rank, "shape", given.shape, strides, strides + count - outputs,
                           strides + count));
    } else {
        BK_TRY(require_non_negative({{"numel", given.numel}}));
    }
    for (int k = 0; k < count; ++k) {
        const PointwiseOperand& o = op.operands[k];
        BK_TRY(op.is_strided ? locate_strided(operands + k, o.name, o.role, o.size, o.strides_name, given.rank, given.shape,
                                              given.strides[k], nullptr)
                             : locate_dense(operands + k, o.name, o.role, o.size, {{"numel", given.numel}}));
    }
    return Status::kOk;
}

BK_COLD inline int32_t can_implement(const PointwiseOp& op, const PointwiseArguments& given) {
    Operand operands[kMaxStridedOperands];
    return leave(op.name, locate(op, given, operands));
}

// Checks the pointers of a problem that `locate` accepted. An input that no wanted output reads may be null; the first
// input, which has the same extents, stands in for it.
BK_COLD inline Status admit(const PointwiseOp& op, const PointwiseArguments& given, Operand* operands, Work work) {
    const int count = op.inputs + op.outputs;
    for (int k = 0; k < count; ++k) {
        operands[k].pointer = given.pointers[k];
        operands[k].readers = op.operands[k].readers;
        operands[k].may_be = op.operands[k].may_be;
    }
    BK_TRY(require_pointers(operands, operands + count, work));
    for (int k = 1; k < op.inputs; ++k) {
        if (given.pointers[k] != nullptr || op.operands[k].readers == Operand::kAnyReader) continue;
        given.pointers[k] = given.pointers[0];
        if (op.is_strided) given.strides[k] = given.strides[0];
    }
    return Status::kOk;
}

// Whether a problem without sums is valid and has an output to write; if not, `status` is the result of the call.
BK_COLD inline bool has_work(const PointwiseOp& op, const PointwiseArguments& given, Status* status) {
    Operand operands[kMaxStridedOperands];
    *status = locate(op, given, operands);
    if (*status != Status::kOk || given.numel == 0) return false;
    *status = admit(op, given, operands, Work::kAll);
    if (*status != Status::kOk) return false;
    for (int k = op.inputs; k < op.inputs + op.outputs; ++k)
        if (given.pointers[k] != nullptr) return true;
    return false;
}

// Operand slot `index` as a functor's argument (const T) or result.
template <class T, int index>
struct OperandSlot {
    using Element = T;
    static constexpr int at = index;
    static T* pointer(const PointwiseArguments& given) { return static_cast<T*>(const_cast<void*>(given.pointers[index])); }
};

template <class... P>
struct OperandSlots {};

template <class Fn, class = void>
constexpr bool kTakesBits = false;
template <class Fn>
constexpr bool kTakesBits<Fn, std::enable_if_t<Fn::takes_bits>> = true;

// Operand pointers as the functor sees them: typed or, if it takes bits, as unsigned integers.
template <class Fn, class T>
auto* elements(T* p) {
    if constexpr (!kTakesBits<Fn>)
        return p;
    else if constexpr (std::is_const_v<T>)
        return reinterpret_cast<const bits_t<T>*>(p);
    else
        return reinterpret_cast<bits_t<T>*>(p);
}

template <class, class Fn, class... P>
constexpr bool kIsMadeFrom = false;
template <class Fn, class... P>
constexpr bool kIsMadeFrom<std::void_t<decltype(Fn::from(std::declval<P>()...))>, Fn, P...> = true;

// Makes the functor: its members are the parameters in the compute type C, unless it defines `from`.
template <class Fn, class C, class... P>
auto functor_of(P... parameters) {
    if constexpr (sizeof...(P) == 0)
        return Plain<Fn>{};
    else if constexpr (kIsMadeFrom<void, Fn, P...>)
        return Fn::from(parameters...);
    else
        return Fn{static_cast<C>(parameters)...};
}

template <class Out, class... Others>
struct ComputeOf {
    using type = compute_t<typename Out::Element>;
};
template <class... Out>
using compute_of = typename ComputeOf<Out...>::type;

template <class... P>
Layout<sizeof...(P)> layout_of(const PointwiseArguments& given) {
    return make_layout<sizeof...(P)>(given.rank, given.shape, {given.strides[P::at]...});
}

template <class Fn, class... Out, class... In, class... P>
int32_t run_flat(const PointwiseOp& op, const PointwiseArguments& given, const Launch& launch, OperandSlots<Out...>,
                 OperandSlots<In...>, P... parameters) {
    Status status;
    if (has_work(op, given, &status))
        status = pointwise(launch, given.numel, functor_of<Fn, compute_of<Out...>>(parameters...),
                           outputs(elements<Fn>(Out::pointer(given))...), inputs(elements<Fn>(In::pointer(given))...));
    return leave(op.name, status);
}

template <class Fn, class... Out, class... In, class... P>
int32_t run_strided(const PointwiseOp& op, const PointwiseArguments& given, const Launch& launch, OperandSlots<Out...>,
                    OperandSlots<In...>, P... parameters) {
    Status status;
    if (has_work(op, given, &status))
        status = pointwise_strided(launch, layout_of<Out..., In...>(given), functor_of<Fn, compute_of<Out...>>(parameters...),
                                   outputs(elements<Fn>(Out::pointer(given))...), inputs(elements<Fn>(In::pointer(given))...));
    return leave(op.name, status);
}

}  // namespace bk
