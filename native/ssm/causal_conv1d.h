// SPDX-License-Identifier: Apache-2.0
// Entry points of the causal convolution (ssm/conv_problem.h): those of the reference, [batch, channels, seqlen] and widths 2
// to 4, and the general ones, with strides, sequences of their own lengths, states, and widths 1 to 16.
#pragma once

#include <cstdint>

#include "ssm/conv_backward.h"
#include "ssm/operands.h"

namespace bk::ssm {

template <class T>
struct CausalConv1dScalars {
    int32_t batch;
    int32_t channels;
    int32_t seqlen;
    int32_t width;
    int32_t use_silu;

    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"channels", channels}, {"seqlen", seqlen}, {"width", width}}));
        if (width >= 2 && width <= 4) return Status::kOk;
        return fail(Status::kUnsupported, "width is %d, must be 2, 3 or 4", width);
    }
    Work work() const { return batch != 0 && channels != 0 && seqlen != 0 ? Work::kAll : Work::kNone; }

protected:
    template <class E>
    TokenView<E> view(E* data) const {
        return {data, int64_t{channels} * seqlen, 1, seqlen};
    }
    ConvProblem<T> problem(const T* x, const T* weight, const T* bias) const {
        return {{nullptr, batch, seqlen, batch}, channels, width, use_silu != 0, view(x), weight, bias, nullptr};
    }
};

template <class T>
struct CausalConv1d : CausalConv1dScalars<T> {
    size_t workspace_size() const { return 0; }
    Status run(const T* x, const T* weight, const T* bias, T* y, const Launch& launch) const {
        return conv_forward<T>(launch, this->problem(x, weight, bias), this->view(y), nullptr);
    }
};

template <class T>
struct CausalConv1dBackward : CausalConv1dScalars<T> {
    size_t workspace_size() const {
        Carver carver;
        ConvSlices<T>::carve(&carver, int64_t{this->batch} * this->seqlen, this->channels, this->width);
        return carver.bytes();
    }
    Status run(const T* x, const T* weight, const T* bias, const T* dy, T* dx, T* dw, T* db, const Launch& launch) const {
        const ConvResults<T> out{this->view(dy), nullptr, this->view(dx), nullptr, {dw, false, true}, {db, false, true}};
        return conv_backward<T>(launch, this->problem(x, weight, bias), out);
    }
};

// The scalars and strides of the inputs that the general forms share.
template <class T>
struct CausalConv1dInputs {
    int32_t batch;
    int32_t channels;
    int32_t seqlen;
    int32_t width;
    int32_t sequences;
    int32_t use_silu;
    const int64_t* stride_x;

    BK_COLD Status check_scalars() const {
        BK_TRY(require_non_negative(
            {{"batch", batch}, {"channels", channels}, {"seqlen", seqlen}, {"width", width}, {"sequences", sequences}}));
        if (width == 0) return fail(Status::kInvalidProblem, "width is 0, must be > 0");
        BK_TRY(require_count(batch, sequences, seqlen));
        return require_most("width", width, kMaxWidth);
    }
    BK_COLD Status check() const {
        BK_TRY(check_scalars());
        return shape("stride_x", stride_x).require(false);
    }
    int64_t offsets() const { return int64_t{sequences} + 1; }
    int64_t history() const { return int64_t{width} - 1; }
    bool has_tokens() const { return batch != 0 && seqlen != 0; }

    StridedShape shape(const char* name, const int64_t* strides) const {
        return {name, strides, 3, 3, {batch, channels, seqlen, 1}};
    }
    template <class E>
    static TokenView<E> view(E* data, const int64_t* strides) {
        return data == nullptr || strides == nullptr ? TokenView<E>{} : TokenView<E>{data, strides[0], strides[2], strides[1]};
    }
    ConvProblem<T> problem(const T* x, const T* weight, const T* bias, const T* initial, const int32_t* cu_seqlens) const {
        return {
            {cu_seqlens, sequences, seqlen, batch}, channels, width, use_silu != 0, view(x, stride_x), weight, bias, initial};
    }
};

template <class T>
struct CausalConv1dGeneral {
    int32_t batch;
    int32_t channels;
    int32_t seqlen;
    int32_t width;
    int32_t sequences;
    int32_t use_silu;
    const int64_t* stride_x;
    const int64_t* stride_y;

    CausalConv1dInputs<T> inputs() const { return {batch, channels, seqlen, width, sequences, use_silu, stride_x}; }
    int64_t offsets() const { return inputs().offsets(); }
    int64_t history() const { return inputs().history(); }
    Status check_scalars() const { return inputs().check_scalars(); }
    BK_COLD Status check() const {
        BK_TRY(inputs().check());
        return inputs().shape("stride_y", stride_y).require(true);
    }
    Work work() const {
        return channels != 0 && (inputs().has_tokens() || (sequences != 0 && width > 1)) ? Work::kAll : Work::kNone;
    }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().shape("stride_x", stride_x).locate(at, name, role, size);
    }
    Status locate_y(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().shape("stride_y", stride_y).locate(at, name, role, size);
    }
    Status run(const T* x, const T* weight, const T* bias, const T* initial_state, const int32_t* cu_seqlens, T* y,
               T* final_state, const Launch& launch) const {
        BK_TRY(require_sequences(cu_seqlens, batch, sequences));
        return conv_forward<T>(launch, inputs().problem(x, weight, bias, initial_state, cu_seqlens), inputs().view(y, stride_y),
                               final_state);
    }
};

template <class T>
struct CausalConv1dGeneralBackward {
    int32_t batch;
    int32_t channels;
    int32_t seqlen;
    int32_t width;
    int32_t sequences;
    int32_t use_silu;
    const int64_t* stride_x;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    CausalConv1dInputs<T> inputs() const { return {batch, channels, seqlen, width, sequences, use_silu, stride_x}; }
    int64_t offsets() const { return inputs().offsets(); }
    int64_t history() const { return inputs().history(); }
    Status check_scalars() const { return inputs().check_scalars(); }
    BK_COLD Status check() const {
        BK_TRY(inputs().check());
        BK_TRY(inputs().shape("stride_dy", stride_dy).require(false));
        return inputs().shape("stride_dx", stride_dx).require_output();
    }
    Work work() const { return channels != 0 ? Work::kAll : Work::kNone; }
    size_t workspace_size() const {
        Carver carver;
        ConvSlices<T>::carve(&carver, int64_t{batch} * seqlen, channels, width);
        return carver.bytes();
    }
    Status locate_x(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().shape("stride_x", stride_x).locate(at, name, role, size);
    }
    Status locate_dy(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().shape("stride_dy", stride_dy).locate(at, name, role, size);
    }
    Status locate_dx(Operand* at, const char* name, Role role, int64_t size) const {
        return inputs().shape("stride_dx", stride_dx).locate(at, name, role, size);
    }
    Status run(const T* x, const T* weight, const T* bias, const T* initial_state, const int32_t* cu_seqlens, const T* dy,
               const T* d_final_state, T* dx, T* dweight, T* dbias, T* d_initial_state, const Launch& launch) const {
        BK_TRY(require_sequences(cu_seqlens, batch, sequences));
        BK_TRY(inputs().shape("stride_dx", stride_dx).require_of("dx", dx));
        const ConvResults<T> out{inputs().view(dy, stride_dy), d_final_state,
                                 inputs().view(dx, stride_dx), d_initial_state,
                                 {dweight, false, false},      {dbias, false, false}};
        return conv_backward<T>(launch, inputs().problem(x, weight, bias, initial_state, cu_seqlens), out);
    }
};

}  // namespace bk::ssm
