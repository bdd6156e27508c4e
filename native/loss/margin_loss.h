// SPDX-License-Identifier: Apache-2.0
// Ops of margin losses of rows: multi-class margin, multi-label soft margin, cosine embedding, triplet margin.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"
#include "loss/cross_entropy/class_rows.h"
#include "loss/likelihood.h"
#include "loss/pair_triplet_rows.h"
#include "loss/reduction.h"
#include "loss/row_reduction.h"

namespace bk {

// Index width and parameters are run-time values, so that there is one kernel.
template <class T, class I, class Real>
MultiMarginRows<T> make_multi_margin_rows(int32_t classes, Real margin, Real p, compute_t<T> grad_scale,
                                          const compute_t<T>* weight) {
    using C = compute_t<T>;
    return {{}, classes, static_cast<C>(margin), static_cast<C>(p), grad_scale, weight, sizeof(I) == 8};
}

template <class T, class Real = float, class I = int64_t>
struct MultiMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS(class_extent, {"row_stride", row_stride})
    Status run(const T* input, const I* target, T* out, const Launch& launch) const {
        return run_weighted(input, target, nullptr, out, launch);
    }

protected:
    Status run_weighted(const T* input, const I* target, const compute_t<T>* weight, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, StridedRows<1>{n_rows, class_extent, {row_stride}, kWordsPerIndex<I>},
                        make_multi_margin_rows<T, I>(class_extent, margin, p_norm, 1, weight), inputs(input), words_of(target),
                        out);
    }
};

template <class T, class Real = float, class I = int64_t>
struct MultiMarginBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS_BACKWARD(class_extent, {"row_stride", row_stride})
    Status run(const T* input, const I* target, const T* dy, T* dinput, const Launch& launch) const {
        return row_gradients(launch, reduction_mode, StridedRows<1>{n_rows, class_extent, {row_stride}, kWordsPerIndex<I>},
                             make_multi_margin_rows<T, I>(class_extent, margin, p_norm, grad_scale(), nullptr), inputs(input),
                             words_of(target, dy), outputs(dinput));
    }
};

// Multi-class margin with class weights.
template <class I, class T>
struct WeightedMultiMargin : MultiMargin<T, double, I> {
    Status run(const T* input, const I* target, const compute_t<T>* weight, T* out, const Launch& launch) const {
        return this->run_weighted(input, target, weight, out, launch);
    }
};

template <class I, class T>
struct WeightedMultiMarginBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    double margin;
    double p_norm;

    BK_ROW_LOSS_GRADIENT(class_extent, {"row_stride", row_stride})
    Status run(const T* input, const I* target, const compute_t<T>* weight, const T* dy, T* dinput,
               const Launch& launch) const {
        return row_gradients(launch, reduction_mode, StridedRows<1>{n_rows, class_extent, {row_stride}, kWordsPerIndex<I>},
                             make_multi_margin_rows<T, I>(class_extent, margin, p_norm, grad_scale(), weight), inputs(input),
                             words_of(target, dy), outputs(dinput));
    }
};

template <class T>
struct MultilabelSoftMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, StridedRows<2>{n_rows, class_extent, {row_stride_in, row_stride_tgt}},
                        SoftMarginRows<T>{{}, class_extent}, inputs(input, target), inputs(), out);
    }
};

template <class T>
struct MultilabelSoftMarginBackward {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;
    float scale_scalar;

    BK_ROW_LOSS_BACKWARD(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, const T* dy, T* dinput, const Launch& launch) const {
        Layout<4> layout;
        layout.append(n_rows, {row_stride_in, row_stride_in, row_stride_tgt, reduction_mode == kReductionNone ? 1 : 0});
        layout.append(class_extent, {1, 1, 1, 0});
        const auto class_scale = grad_scale() / static_cast<compute_t<T>>(class_extent);
        return pointwise_strided(launch, layout, BceWithLogits::gradient<T>(class_scale), outputs(dinput),
                                 inputs(input, target, dy));
    }
};

// Multi-label soft margin with class weights; NULL: 1.
template <class T>
struct WeightedSoftMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, const compute_t<T>* weight, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, StridedRows<2>{n_rows, class_extent, {row_stride_in, row_stride_tgt}},
                        SoftMarginRows<T>{{}, class_extent, weight}, inputs(input, target), inputs(), out);
    }
};

template <class T>
struct WeightedSoftMarginGradient {
    using C = compute_t<T>;
    C grad_scale;
    BK_HD C operator()(C x, C target, C weight, C dy) const { return (logistic<T>(x) - target) * weight * (dy * grad_scale); }
};

template <class T>
struct WeightedSoftMarginBackward {
    using C = compute_t<T>;
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;

    BK_ROW_LOSS_GRADIENT(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, const C* weight, const T* dy, T* dinput, const Launch& launch) const {
        if (weight == nullptr) {
            const MultilabelSoftMarginBackward<T> unweighted{n_rows,         class_extent,   row_stride_in,
                                                             row_stride_tgt, reduction_mode, static_cast<float>(grad_scale())};
            return unweighted.run(input, target, dy, dinput, launch);
        }
        Layout<5> layout;
        layout.append(n_rows, {row_stride_in, row_stride_in, row_stride_tgt, 0, reduction_mode == kReductionNone ? 1 : 0});
        layout.append(class_extent, {1, 1, 1, 1, 0});
        return pointwise_strided(launch, layout, WeightedSoftMarginGradient<T>{grad_scale() / static_cast<C>(class_extent)},
                                 outputs(dinput), inputs(input, target, weight, dy));
    }
};

template <class T, class Real = float>
struct CosineEmbedding {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride_x;
    int32_t reduction_mode;
    Real margin;

    BK_ROW_LOSS(d_extent, {"row_stride_x", row_stride_x})
    Status run(const T* x1, const T* x2, const T* t, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, StridedRows<2>{n_rows, d_extent, {row_stride_x, row_stride_x}},
                        CosineRows<T>{{}, static_cast<compute_t<T>>(margin), 1}, inputs(x1, x2), inputs(t), out);
    }
};

template <class T, class Real = float>
struct CosineEmbeddingBackward {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride_x;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;

    BK_ROW_LOSS_BACKWARD(d_extent, {"row_stride_x", row_stride_x})
    Status run(const T* x1, const T* x2, const T* t, const T* dy, T* dx1, T* dx2, const Launch& launch) const {
        if (dx1 == nullptr && dx2 == nullptr) return Status::kOk;
        return row_gradients(launch, reduction_mode, StridedRows<2>{n_rows, d_extent, {row_stride_x, row_stride_x}},
                             CosineRows<T>{{}, static_cast<compute_t<T>>(margin), grad_scale()}, inputs(x1, x2), inputs(t, dy),
                             outputs(dx1, dx2));
    }
};

template <class T, class Real = float>
struct TripletMargin {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS(d_extent, {"row_stride", row_stride})
    Status run(const T* a, const T* p_tensor, const T* n_tensor, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, StridedRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}},
                        TripletRows<T>{{}, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), 1},
                        inputs(a, p_tensor, n_tensor), inputs(), out);
    }
};

template <class T, class Real = float>
struct TripletMarginBackward {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    float scale_scalar;
    Real margin;
    Real p_norm;

    BK_ROW_LOSS_BACKWARD(d_extent, {"row_stride", row_stride})
    Status run(const T* a, const T* p_tensor, const T* n_tensor, const T* dy, T* da, T* dp, T* dn, const Launch& launch) const {
        if (da == nullptr && dp == nullptr && dn == nullptr) return Status::kOk;
        return row_gradients(
            launch, reduction_mode, StridedRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}},
            TripletRows<T>{{}, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), grad_scale()},
            inputs(a, p_tensor, n_tensor), inputs(dy), outputs(da, dp, dn));
    }
};

// Triplet margin with the distance swap of Balntas et al. 2016, if swap_flag is set.
template <class T>
struct TripletSwap {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    double margin;
    double p_norm;
    double eps;
    int32_t swap_flag;

    BK_ROW_LOSS(d_extent, {"row_stride", row_stride})
    Status run(const T* a, const T* p_tensor, const T* n_tensor, T* out, const Launch& launch) const {
        using C = compute_t<T>;
        const TripletSwapRows<T> f{
            {{}, static_cast<C>(margin), static_cast<C>(p_norm), 1}, static_cast<C>(eps), swap_flag != 0};
        return row_loss(launch, reduction_mode, StridedRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}}, f,
                        inputs(a, p_tensor, n_tensor), inputs(), out);
    }
};

template <class T>
struct TripletSwapBackward {
    int64_t n_rows;
    int32_t d_extent;
    int64_t row_stride;
    int32_t reduction_mode;
    double margin;
    double p_norm;
    double eps;
    int32_t swap_flag;

    BK_ROW_LOSS_GRADIENT(d_extent, {"row_stride", row_stride})
    Status run(const T* a, const T* p_tensor, const T* n_tensor, const T* dy, T* da, T* dp, T* dn, const Launch& launch) const {
        using C = compute_t<T>;
        if (da == nullptr && dp == nullptr && dn == nullptr) return Status::kOk;
        const TripletSwapRows<T> f{
            {{}, static_cast<C>(margin), static_cast<C>(p_norm), grad_scale()}, static_cast<C>(eps), swap_flag != 0};
        return row_gradients(launch, reduction_mode, StridedRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}}, f,
                             inputs(a, p_tensor, n_tensor), inputs(dy), outputs(da, dp, dn));
    }
};

}  // namespace bk
