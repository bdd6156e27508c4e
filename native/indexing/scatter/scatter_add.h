// SPDX-License-Identifier: Apache-2.0
// scatter_add: elements are added at an index of the same shape; gather's gradient is the same.
#pragma once

#include <cstdint>

#include "indexing/scatter/scatter_add_axis.h"

namespace bk {

template <class T, class I>
struct ScatterAdd {
    int64_t upd_numel;
    int32_t rank;
    int32_t scatter_dim;
    int32_t out_dim_size;
    const int32_t* upd_shape;
    const int64_t* stride_updates;
    const int64_t* stride_index;
    const int64_t* stride_out;

    Work work() const { return axis().work(); }
    Status check() const {
        return axis().check({{"stride_updates", stride_updates}, {"stride_index", stride_index}, {"stride_out", stride_out}});
    }
    Status locate_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return axis().locate(operand, name, role, size, "stride_out", stride_out);
    }
    size_t workspace_size() const { return scatter_add_workspace<T, I>(layout()); }
    Status run(const T* updates, const I* index, T* out, const Launch& launch) const {
        return scatter_add(launch, layout(), updates, index, out);
    }

private:
    ScatterAddAxis axis() const {
        return {"upd_numel", upd_numel, rank, "scatter_dim", scatter_dim, "out_dim_size", out_dim_size, "upd_shape", upd_shape};
    }
    ScatterLayout layout() const { return axis().layout(stride_updates, stride_index, stride_out); }
};

template <class T, class I>
struct PutAdd {
    int64_t numel;
    int64_t out_numel;

    Work work() const { return all_or_none(out_numel == 0 ? 0 : numel); }
    Status check() const { return require_non_negative({{"numel", numel}, {"out_numel", out_numel}}); }
    size_t workspace_size() const { return scatter_add_workspace<T, I>(layout()); }
    Status run(const T* updates, const I* index, T* out, const Launch& launch) const {
        return scatter_add(launch, layout(), updates, index, out);
    }

private:
    ScatterLayout layout() const { return {{}, numel, {1, 1, 1}, out_numel, -1}; }
};

template <class T, class I>
struct GatherBackward {
    int64_t out_numel;
    int32_t rank;
    int32_t gather_dim;
    int32_t src_dim_size;
    const int32_t* out_shape;
    const int64_t* stride_dout;
    const int64_t* stride_index;
    const int64_t* stride_dsrc;

    Work work() const { return axis().work(); }
    Status check() const {
        return axis().check({{"stride_dout", stride_dout}, {"stride_index", stride_index}, {"stride_dsrc", stride_dsrc}});
    }
    Status locate_dsrc(Operand* operand, const char* name, Role role, int64_t size) const {
        return axis().locate(operand, name, role, size, "stride_dsrc", stride_dsrc);
    }
    size_t workspace_size() const { return scatter_add_workspace<T, I>(layout()); }
    Status run(const T* dout, const I* index, T* dsrc, const Launch& launch) const {
        return scatter_add(launch, layout(), dout, index, dsrc);
    }

private:
    ScatterAddAxis axis() const {
        return {"out_numel", out_numel, rank, "gather_dim", gather_dim, "src_dim_size", src_dim_size, "out_shape", out_shape};
    }
    ScatterLayout layout() const { return axis().layout(stride_dout, stride_index, stride_dsrc); }
};

}  // namespace bk
