// SPDX-License-Identifier: Apache-2.0
// Ops of native/recurrent/cells.abi.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/require_workspace.h"
#include "core/abi/workspace.h"
#include "recurrent/cells/matrix_gradient.h"
#include "recurrent/cells/steps.h"

namespace bk::recurrent {

// Scalars of a row; dtypes differ at run time alone.
struct CellExtents {
    int32_t seqlen, batch, directions, hidden, outputs, cell, reverse;
    RowType type;

    int64_t gate_rows() const { return int64_t{gates_of(static_cast<Cell>(cell))} * hidden; }
    int64_t saved_rows() const { return int64_t{saved_of(static_cast<Cell>(cell))} * hidden; }
    int64_t cell_rows() const { return static_cast<Cell>(cell) == Cell::kLstm ? hidden : 0; }
    Work work() const { return Work::kAll; }

    Status check() const {
        BK_TRY(require_non_negative({{"seqlen", seqlen}, {"batch", batch}}));
        if (directions < 1 || directions > 2)
            return fail(Status::kInvalidProblem, "directions is %d, must be 1 or 2", directions);
        if (hidden < 1) return fail(Status::kInvalidProblem, "hidden is %d, must be >= 1", hidden);
        if (outputs < 1) return fail(Status::kInvalidProblem, "outputs is %d, must be >= 1", outputs);
        if (cell < 0 || cell > static_cast<int32_t>(Cell::kLstm))
            return fail(Status::kInvalidProblem, "cell is %d, must be in [0, 4]", cell);
        if (reverse != 0 && (reverse != 1 || directions == 2))
            return fail(Status::kInvalidProblem, "reverse is %d, must be 0%s", reverse,
                        directions == 2 ? " with two directions" : " or 1");
        if (outputs != hidden && static_cast<Cell>(cell) != Cell::kLstm)
            return fail(Status::kInvalidProblem, "outputs is %d, must be hidden, %d: only an LSTM has a projection", outputs,
                        hidden);
        return Status::kOk;
    }
    Status check_projection(const void* w_hr) const {
        if (w_hr == nullptr && outputs != hidden)
            return fail(Status::kInvalidProblem, "w_hr is NULL, but outputs is %d and hidden %d", outputs, hidden);
        if (w_hr != nullptr && static_cast<Cell>(cell) != Cell::kLstm)
            return fail(Status::kInvalidProblem, "w_hr is given, but cell is %d: only an LSTM has a projection", cell);
        return Status::kOk;
    }

    CellProblem problem() const {
        CellProblem p{};
        p.cell = static_cast<Cell>(cell);
        p.type = type;
        p.seqlen = seqlen;
        p.batch = batch;
        p.directions = directions;
        p.hidden = hidden;
        p.outputs = outputs;
        p.is_reverse = reverse != 0;
        return p;
    }

    void carve(Carver* carver, CellProblem* p) const {
        p->recurrent = carver->take<float>(PackMatrix::floats(directions, outputs, gate_rows()));
        p->projection = carver->take<float>(cell_rows() > 0 ? PackMatrix::floats(directions, hidden, outputs) : 0);
        p->teams = carver->take<float>(CellTile::items(*p) * CellRows::floats(*p));
    }
    // Carves the gradient of h too, and the scratch of the products over tokens; returns the latter.
    float* carve_backward(Carver* carver, CellProblem* p, CellGradients* d) const {
        carve(carver, p);
        const int64_t tokens = int64_t{seqlen} * batch * directions;
        d->outputs = carver->take<float>(cell_rows() > 0 ? tokens * outputs : 0);
        const MatrixGradient of_recurrent{*p, *d, false}, of_projection{*p, *d, true};
        return carver->take<float>(std::max(matrix_gradient_floats(of_recurrent), matrix_gradient_floats(of_projection)));
    }
    size_t forward_bytes() const {
        CellProblem p = problem();
        Carver teams, steps;
        carve(&teams, &p);
        StepBuffers::carve(&steps, p, true);
        return std::max(teams.bytes(), steps.bytes());
    }
    size_t backward_bytes() const {
        CellProblem p = problem();
        CellGradients d{};
        Carver teams, steps;
        carve_backward(&teams, &p, &d);
        StepBuffers::carve(&steps, p, false);
        return std::max(teams.bytes(), steps.bytes());
    }
};

inline Status pack(const Launch& launch, const CellProblem& p, bool is_forward) {
    const PackMatrix recurrent{p.type,
                               p.w_hh,
                               p.recurrent,
                               p.directions,
                               is_forward ? p.outputs : p.gate_rows(),
                               is_forward ? p.gate_rows() : p.outputs,
                               is_forward};
    BK_TRY(run_teams(launch, recurrent.items(), 4096, recurrent));
    if (!p.projects()) return Status::kOk;
    const PackMatrix projection{
        p.type,    p.w_hr, p.projection, p.directions, is_forward ? p.hidden : p.outputs, is_forward ? p.outputs : p.hidden,
        is_forward};
    return run_teams(launch, projection.items(), 4096, projection);
}

inline Status run_cells(const Launch& launch, const CellExtents& e, CellProblem p) {
    BK_TRY(e.check_projection(p.w_hr));
    if (p.batch == 0) return Status::kOk;
    BK_TRY(require_workspace(launch, e.forward_bytes()));
    Carver carver(launch.workspace);
    if (goes_by_steps(p)) return run_steps(launch, p, StepBuffers::carve(&carver, p, true));
    e.carve(&carver, &p);
    BK_TRY(pack(launch, p, true));
    return run_teams(launch, CellTile::items(p), int64_t{1} << 16, CellForward{p});
}

inline Status run_cells_backward(const Launch& launch, const CellExtents& e, CellProblem p, CellGradients d) {
    BK_TRY(e.check_projection(p.w_hr));
    BK_TRY(require_workspace(launch, e.backward_bytes()));
    Carver carver(launch.workspace);
    float* const workers = e.carve_backward(&carver, &p, &d);
    if (!p.projects()) d.outputs = nullptr;
    if (p.batch > 0 && goes_by_steps(p)) {
        Carver steps(launch.workspace);
        const StepBuffers buffers = StepBuffers::carve(&steps, p, false);
        if (p.projects()) d.outputs = buffers.outputs;
        BK_TRY(run_steps_backward(launch, p, d, buffers));
    } else if (p.batch > 0) {
        BK_TRY(pack(launch, p, false));
        BK_TRY(run_teams(launch, CellTile::items(p), int64_t{1} << 16, CellBackward{p, d}));
    }
    const MatrixGradient of_recurrent{p, d, false}, of_projection{p, d, true};
    if (d.dw_hh != nullptr || d.db_hh != nullptr) BK_TRY(run_matrix_gradient(launch, of_recurrent, workers));
    if (d.dw_hr == nullptr) return Status::kOk;
    if (!p.projects()) {
        const size_t bytes = p.type == RowType::kF32 ? 4 : 2;
        return fill_bytes(launch, d.dw_hr, 0, static_cast<size_t>(p.directions) * p.outputs * p.hidden * bytes);
    }
    return run_matrix_gradient(launch, of_projection, workers);
}

template <class T>
struct RecurrentCells {
    int32_t seqlen, batch, directions, hidden, outputs, cell, reverse;

    CellExtents extents() const { return {seqlen, batch, directions, hidden, outputs, cell, reverse, kRowType<T>}; }
    int64_t gate_rows() const { return extents().gate_rows(); }
    int64_t saved_rows() const { return extents().saved_rows(); }
    int64_t cell_rows() const { return extents().cell_rows(); }
    Work work() const { return all_or_none(batch); }
    Status check() const { return extents().check(); }
    size_t workspace_size() const { return extents().forward_bytes(); }

    CellProblem problem(const T* w_hh, const T* w_hr, const T* h0, const T* c0, const int32_t* lengths) const {
        CellProblem p = extents().problem();
        p.w_hh = w_hh;
        p.w_hr = w_hr;
        p.h0 = h0;
        p.c0 = c0;
        p.lengths = lengths;
        return p;
    }
    Status run(const T* gates, const T* w_hh, const T* b_hh, const T* w_hr, const T* h0, const T* c0, const int32_t* lengths,
               T* y, T* h_n, T* c_n, float* saved, const Launch& launch) const {
        CellProblem p = problem(w_hh, w_hr, h0, c0, lengths);
        p.gates = gates;
        p.b_hh = b_hh;
        p.y = y;
        p.h_n = h_n;
        p.c_n = c_n;
        p.saved = saved;
        return run_cells(launch, extents(), p);
    }
};

template <class T>
struct RecurrentCellsBackward : RecurrentCells<T> {
    Work work() const { return Work::kAll; }  // gradients of matrices have elements without tokens
    size_t workspace_size() const { return this->extents().backward_bytes(); }
    Status run(const T* dy, const T* dh_n, const T* dc_n, const T* w_hh, const T* w_hr, const T* h0, const T* c0,
               const int32_t* lengths, const T* y, const float* saved, T* dgates, T* dw_hh, T* db_hh, T* dw_hr, T* dh0, T* dc0,
               const Launch& launch) const {
        CellProblem p = this->problem(w_hh, w_hr, h0, c0, lengths);
        p.y = const_cast<T*>(y);
        p.saved = const_cast<float*>(saved);
        CellGradients d{};
        d.dy = dy;
        d.dh_n = dh_n;
        d.dc_n = dc_n;
        d.dgates = dgates;
        d.dw_hh = dw_hh;
        d.db_hh = db_hh;
        d.dw_hr = dw_hr;
        d.dh0 = dh0;
        d.dc0 = dc0;
        return run_cells_backward(launch, this->extents(), p, d);
    }
};

}  // namespace bk::recurrent
