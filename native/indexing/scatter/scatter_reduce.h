// SPDX-License-Identifier: Apache-2.0
// scatter_reduce: sums, products, means and extremes of elements at an index of the same shape.
#pragma once

#include <cstdint>

#include "indexing/scatter/scatter_add_axis.h"

namespace bk {

// The reduction as the ABI passes it.
struct ReduceRule {
    int32_t reduce, include_self;

    Reduction reduction() const { return static_cast<Reduction>(reduce); }
    bool includes_self() const { return include_self != 0; }
    Status check() const {
        if (reduce < 0 || reduce > static_cast<int32_t>(Reduction::kAmin))
            return fail(Status::kUnsupported, "reduce is %d, must be 0 (sum), 1 (prod), 2 (mean), 3 (amax) or 4 (amin)",
                        reduce);
        return Status::kOk;
    }
    bool is_mean() const { return reduction() == Reduction::kMean; }
};

template <class T>
size_t scatter_reduce_rule_workspace(const ScatterLayout& layout, const ReduceRule& rule);

template <class T>
Status scatter_reduce_rule(const Launch& launch, const ScatterLayout& layout, const ReduceRule& rule, const T* updates,
                           IdArray index, T* out);

// The cells of a layout in two walks: fibers with indices of their own, and cells that share a fiber's indices.
struct TargetTiles {
    Layout<2> fibers;  // strides of index and out
    Layout<1> shared;  // strides of out
    int64_t tiles;     // tiles of a fiber's targets

    TargetTiles(const ScatterLayout& s, int64_t tile) : tiles(ceil_div(s.targets, tile)) {
        using L = ScatterLayout;
        for (int d = 0; d < s.cells.rank; ++d) {
            if (s.cells.stride[L::kIndex][d] != 0)
                fibers.append(s.cells.extent[d], {s.cells.stride[L::kIndex][d], s.cells.stride[L::kOut][d]});
            else
                shared.append(s.cells.extent[d], {s.cells.stride[L::kOut][d]});
        }
        fibers = collapse(fibers);
        shared = collapse(shared);
    }
};

template <class T, class I>
struct ScatterReduce {
    int64_t upd_numel;
    int32_t rank;
    int32_t scatter_dim;
    int32_t out_dim_size;
    int32_t reduce;
    int32_t include_self;
    const int32_t* upd_shape;
    const int64_t* stride_updates;
    const int64_t* stride_index;
    const int64_t* stride_out;

    Work work() const { return axis().work(); }
    Status check() const {
        BK_TRY(rule().check());
        return axis().check({{"stride_updates", stride_updates}, {"stride_index", stride_index}, {"stride_out", stride_out}});
    }
    Status locate_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return axis().locate(operand, name, role, size, "stride_out", stride_out);
    }
    size_t workspace_size() const { return scatter_reduce_rule_workspace<T>(layout(), rule()); }
    Status run(const T* updates, const I* index, T* out, const Launch& launch) const {
        return scatter_reduce_rule(launch, layout(), rule(), updates, IdArray(index), out);
    }

private:
    ReduceRule rule() const { return {reduce, include_self}; }
    ScatterAddAxis axis() const {
        return {"upd_numel", upd_numel, rank, "scatter_dim", scatter_dim, "out_dim_size", out_dim_size, "upd_shape", upd_shape};
    }
    ScatterLayout layout() const { return axis().layout(stride_updates, stride_index, stride_out); }
};

}  // namespace bk
