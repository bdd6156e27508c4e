// SPDX-License-Identifier: Apache-2.0
// Steps of attention's gradients from matrices in memory: products of each head, gradients of a softmax's scores, and the
// products of rows with themselves. All sums have a fixed order.
#pragma once

#include <cstdint>

#include "attention/dense/heads.h"

namespace bk {

// A matrix of each batch and head, with strides in elements.
template <class E>
struct HeadMatrices {
    E* data;
    int64_t batch, head, row, column;

    BK_HD E* at(int64_t b, int64_t h, int64_t i, int64_t j) const {
        return data + (b * batch + h * head + i * row + j * column);
    }
};

template <class E>
HeadMatrices<E> matrices_of(const HeadsView<E>& view) {
    return {view.data, view.batch, view.head, view.row, 1};
}
template <class E>
HeadMatrices<E> transposed(const HeadMatrices<E>& m) {
    return {m.data, m.batch, m.head, m.column, m.row};
}

// c[b, g] = alpha sum of a[b, h] b[b, h] over the heads h = g * summed ... (g + 1) * summed - 1 of a group, [m, n] with k
// summands each; with `adds` the sum is added to c, each rounded to T.
template <class T>
struct HeadProducts {
    int64_t batch, groups, summed, m, n, k;
    HeadMatrices<const T> a, b;
    HeadMatrices<T> c;
    float alpha;
    bool adds;
};

template <class T>
Status multiply_heads(const Launch& launch, const HeadProducts<T>& p);

// ds = attn (da - sum of attn da over the row), for contiguous rows; ds may be da.
template <class T>
Status score_gradients(const Launch& launch, int64_t rows, int64_t columns, const T* attn, const T* da, T* ds);

// dots[b, h, i] = sum over the row of y dy.
template <class T>
Status row_dots(const Launch& launch, const AttentionExtents& e, const HeadsView<const T>& y, const HeadsView<const T>& dy,
                T* dots);

}  // namespace bk
