// SPDX-License-Identifier: Apache-2.0
// Gradients of the matrices: products over all tokens in a fixed order,
//   dw[j, i] = sum over tokens of x[token, j] y[token, i],   db[j] = sum over tokens of x[token, j].
// For R, x is the gradient of s and y is h in front of the token; for the projection, x is that of h and y = o tanh(c).
#pragma once

#include "core/abi/launch.h"
#include "recurrent/cells/backward.h"

namespace bk::recurrent {

struct MatrixGradient {
    CellProblem p;
    CellGradients d;
    bool is_projection;

    // Rows of one gate, so that a tile's rows have one right operand.
    BK_HD int64_t rows() const { return is_projection ? p.outputs : p.hidden; }
    BK_HD int64_t columns() const { return is_projection ? p.hidden : p.outputs; }
    BK_HD int64_t blocks() const { return is_projection ? 1 : p.gates_count(); }
    BK_HD void* result() const { return is_projection ? d.dw_hr : d.dw_hh; }
    BK_HD void* bias() const { return is_projection ? nullptr : d.db_hh; }

    // Whether the reset gate multiplies an operand.
    BK_HD bool scales_left(int64_t gate) const { return p.cell == Cell::kGru && gate == 2; }
    BK_HD bool scales_right(int64_t gate) const { return p.cell == Cell::kGruResetFirst && gate == 2; }

    // The operands of a token, a block of elements.
    BK_TEAM Units left(int64_t t, int64_t n, int64_t direction, int64_t gate, int64_t j) const {
        const int64_t at = p.at_token(t, n, direction);
        const int count = block_count(rows(), j);
        if (is_projection) return Units::of(d.outputs + at * p.outputs + j, count);
        Units x = Units::load(p.type, d.dgates, at * p.gate_rows() + gate * p.hidden + j, count);
        if (!scales_left(gate)) return x;
        const Units r = Units::of(p.saved + at * saved_of(p.cell) * p.hidden + j, count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) x.at[l] *= r.at[l];
        return x;
    }
    BK_TEAM Units right(int64_t t, int64_t n, int64_t direction, int64_t gate, int64_t i) const {
        const int count = block_count(columns(), i);
        const float* const saved = p.saved + p.at_token(t, n, direction) * saved_of(p.cell) * p.hidden + i;
        if (t >= p.length(n)) return Units::zeros();
        if (is_projection) {
            Units o = Units::of(saved + int64_t{3} * p.hidden, count);
            const Units c = Units::of(saved + int64_t{4} * p.hidden, count);
            BK_UNIT_LOOP
            for (int l = 0; l < kUnits; ++l) o.at[l] *= cell_tanh(c.at[l]);
            return o;
        }
        Units h = p.previous(t, n, direction, static_cast<int>(i), count);
        if (!scales_right(gate)) return h;
        const Units r = Units::of(saved, count);
        BK_UNIT_LOOP
        for (int l = 0; l < kUnits; ++l) h.at[l] *= r.at[l];
        return h;
    }

    // Element (j, i) of a direction's gate, `block` of all.
    BK_TEAM void store(int64_t block, int64_t j, int64_t i, float x) const {
        if (result() == nullptr || j >= rows() || i >= columns()) return;
        store_float(p.type, result(), (block * rows() + j) * columns() + i, x);
    }
    BK_TEAM void store_bias(int64_t block, int64_t j, float x) const {
        if (bias() != nullptr && j < rows()) store_float(p.type, bias(), block * rows() + j, x);
    }

private:
    BK_TEAM static int block_count(int64_t width, int64_t first) {
        return static_cast<int>(width - first < kUnits ? width - first : kUnits);
    }
};

// Floats of the workspace that the gradients take, and the gradients.
inline int64_t matrix_gradient_floats(const MatrixGradient& gradient);
inline Status run_matrix_gradient(const Launch& launch, const MatrixGradient& gradient, float* workspace);

}  // namespace bk::recurrent

#if BK_CUDA
#include "recurrent/cells/matrix_gradient_cuda.cuh"
#else
#include "recurrent/cells/matrix_gradient_cpu.h"
#endif
