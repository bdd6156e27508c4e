// Losses of margins, with a term for each row: between classes, of independent classes, and of pairs and triplets of vectors.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "loss/class_rows.h"
#include "loss/likelihood.h"
#include "loss/reduction.h"
#include "loss/row_skeleton.h"
#include "loss/vector_rows.h"

namespace bk {

// One kernel has indices of 4 and of 8 bytes, and any parameters.
template <class T, class I, class Real>
MultiMarginRows<T> margin_rows(int32_t classes, Real margin, Real p, compute_t<T> factor, const compute_t<T>* weight) {
    using C = compute_t<T>;
    return {{}, classes, static_cast<C>(margin), static_cast<C>(p), factor, weight, sizeof(I) == 8};
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
        return weighted(input, target, nullptr, out, launch);
    }

protected:
    Status weighted(const T* input, const I* target, const compute_t<T>* weight, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride}, kWordsPerIndex<I>},
                        margin_rows<T, I>(class_extent, margin, p_norm, 1, weight), inputs(input), words_of(target), out);
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
        return row_gradients(launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride}, kWordsPerIndex<I>},
                             margin_rows<T, I>(class_extent, margin, p_norm, factor(), nullptr), inputs(input),
                             words_of(target, dy), outputs(dinput));
    }
};

// With weights of the classes.
template <class I, class T>
struct WeightedMultiMargin : MultiMargin<T, double, I> {
    Status run(const T* input, const I* target, const compute_t<T>* weight, T* out, const Launch& launch) const {
        return this->weighted(input, target, weight, out, launch);
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
        return row_gradients(launch, reduction_mode, TermRows<1>{n_rows, class_extent, {row_stride}, kWordsPerIndex<I>},
                             margin_rows<T, I>(class_extent, margin, p_norm, factor(), weight), inputs(input),
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
        return row_loss(launch, reduction_mode, TermRows<2>{n_rows, class_extent, {row_stride_in, row_stride_tgt}},
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
        const auto share = factor() / static_cast<compute_t<T>>(class_extent);
        return pointwise_strided(launch, layout, BceWithLogits::gradient<T>(share), outputs(dinput), inputs(input, target, dy));
    }
};

// With weights of the classes; NULL: 1.
template <class T>
struct WeightedSoftMargin {
    int64_t n_rows;
    int32_t class_extent;
    int64_t row_stride_in;
    int64_t row_stride_tgt;
    int32_t reduction_mode;

    BK_ROW_LOSS(class_extent, {"row_stride_in", row_stride_in}, {"row_stride_tgt", row_stride_tgt})
    Status run(const T* input, const T* target, const compute_t<T>* weight, T* out, const Launch& launch) const {
        return row_loss(launch, reduction_mode, TermRows<2>{n_rows, class_extent, {row_stride_in, row_stride_tgt}},
                        SoftMarginRows<T>{{}, class_extent, weight}, inputs(input, target), inputs(), out);
    }
};

template <class T>
struct WeightedSoftMarginGradient {
    using C = compute_t<T>;
    C factor;
    BK_HD C operator()(C x, C target, C weight, C dy) const { return (logistic<T>(x) - target) * weight * (dy * factor); }
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
            const MultilabelSoftMarginBackward<T> bare{n_rows,         class_extent,   row_stride_in,
                                                       row_stride_tgt, reduction_mode, static_cast<float>(factor())};
            return bare.run(input, target, dy, dinput, launch);
        }
        Layout<5> layout;
        layout.append(n_rows, {row_stride_in, row_stride_in, row_stride_tgt, 0, reduction_mode == kReductionNone ? 1 : 0});
        layout.append(class_extent, {1, 1, 1, 1, 0});
        return pointwise_strided(launch, layout, WeightedSoftMarginGradient<T>{factor() / static_cast<C>(class_extent)},
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
        return row_loss(launch, reduction_mode, TermRows<2>{n_rows, d_extent, {row_stride_x, row_stride_x}},
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
        return row_gradients(launch, reduction_mode, TermRows<2>{n_rows, d_extent, {row_stride_x, row_stride_x}},
                             CosineRows<T>{{}, static_cast<compute_t<T>>(margin), factor()}, inputs(x1, x2), inputs(t, dy),
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
        return row_loss(launch, reduction_mode, TermRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}},
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
        return row_gradients(launch, reduction_mode, TermRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}},
                             TripletRows<T>{{}, static_cast<compute_t<T>>(margin), static_cast<compute_t<T>>(p_norm), factor()},
                             inputs(a, p_tensor, n_tensor), inputs(dy), outputs(da, dp, dn));
    }
};

// Where the flag is set, with the smaller one of the distances of the negative from the anchor and from the positive.
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
        return row_loss(launch, reduction_mode, TermRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}}, f,
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
            {{}, static_cast<C>(margin), static_cast<C>(p_norm), factor()}, static_cast<C>(eps), swap_flag != 0};
        return row_gradients(launch, reduction_mode, TermRows<3>{n_rows, d_extent, {row_stride, row_stride, row_stride}}, f,
                             inputs(a, p_tensor, n_tensor), inputs(dy), outputs(da, dp, dn));
    }
};

}  // namespace bk
