// SPDX-License-Identifier: Apache-2.0
// Views of matrices, and batches of them. Strides count elements.
#pragma once

#include <cstdint>

#include "linalg/scalar.h"

namespace bk::linalg {

// Element (i, j) is data[i row + j column].
template <class S>
struct Matrix {
    S* data;
    int64_t row, column;

    BK_HD S& operator()(int64_t i, int64_t j) const { return data[i * row + j * column]; }
    BK_HD Matrix at(int64_t i, int64_t j) const { return {data + i * row + j * column, row, column}; }
    BK_HD Matrix transposed() const { return {data, column, row}; }
    // Rows and columns of an m x n matrix in reverse order: of an upper triangle it makes a lower one.
    BK_HD Matrix reversed(int64_t m, int64_t n) const { return {&(*this)(m - 1, n - 1), -row, -column}; }
};

// Column-major in fast memory or a workspace: the row stride is 1, which loops over a column vectorise by.
template <class S>
struct Columns {
    S* data;
    int64_t pitch;

    BK_HD S& operator()(int64_t i, int64_t j) const { return data[i + j * pitch]; }
    BK_HD S* column(int64_t j) const { return data + j * pitch; }
    BK_HD Columns at(int64_t i, int64_t j) const { return {data + i + j * pitch, pitch}; }
    BK_HD Matrix<S> view() const { return {data, 1, pitch}; }
};

// Matrices `step` elements apart, or at the addresses in `each`.
template <class S>
struct Matrices {
    S* data = nullptr;
    int64_t step = 0, row = 0, column = 0;
    S* const* each = nullptr;

    BK_HD Matrix<S> operator[](int64_t b) const {
        return each == nullptr ? Matrix<S>{data + b * step, row, column} : Matrix<S>{each[b] + step, row, column};
    }
    // A batch of matrix b alone.
    Matrices only(int64_t b) const {
        const Matrix<S> one = (*this)[b];
        return {one.data, 0, one.row, one.column};
    }
    // The parts from element (i, j) on.
    BK_HD Matrices at(int64_t i, int64_t j) const {
        const int64_t offset = i * row + j * column;
        return each == nullptr ? Matrices{data + offset, step, row, column}
                               : Matrices{nullptr, step + offset, row, column, each};
    }
    BK_HD Matrices transposed() const { return {data, step, column, row, each}; }
    BK_HD Matrices reversed(int64_t m, int64_t n) const {
        Matrices found = at(m - 1, n - 1);
        found.row = -row;
        found.column = -column;
        return found;
    }
    BK_HD Matrices rows_reversed(int64_t m) const {
        Matrices found = at(m - 1, 0);
        found.row = -row;
        return found;
    }
    BK_HD Matrices<const S> constant() const { return {data, step, row, column, each}; }
};

// A batch of column-major matrices with this pitch.
template <class S>
Matrices<S> column_major(S* data, int64_t pitch, int64_t step = 0) {
    return {data, step, 1, pitch};
}

}  // namespace bk::linalg
