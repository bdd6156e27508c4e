// SPDX-License-Identifier: Apache-2.0
// index_add: slices are added at one index each; index_select's gradient is the same.
#pragma once

#include <cstdint>

#include "indexing/scatter/scatter_add_axis.h"

namespace bk {

template <class T, class I>
struct IndexAdd {
    int64_t src_numel;
    int32_t rank;
    int32_t add_dim;
    int32_t dst_dim_size;
    const int32_t* src_shape;
    const int64_t* stride_src;
    const int64_t* stride_dst;

    Work work() const { return axis().work(); }
    Status check() const { return axis().check({{"stride_src", stride_src}, {"stride_dst", stride_dst}}); }
    int64_t selected() const { return src_shape[add_dim]; }
    Status locate_dst(Operand* operand, const char* name, Role role, int64_t size) const {
        return axis().locate(operand, name, role, size, "stride_dst", stride_dst);
    }
    size_t workspace_size() const { return scatter_add_workspace<T, I>(layout()); }
    Status run(const T* src, const I* idx, T* dst, const Launch& launch) const {
        return scatter_add(launch, layout(), src, idx, dst);
    }

private:
    ScatterAddAxis axis() const {
        return {"src_numel", src_numel, rank, "add_dim", add_dim, "dst_dim_size", dst_dim_size, "src_shape", src_shape};
    }
    ScatterLayout layout() const { return axis().layout(stride_src, nullptr, stride_dst); }
};

template <class T, class I>
struct IndexSelectBackward {
    int64_t out_numel;
    int32_t rank;
    int32_t select_dim;
    int32_t src_dim_size;
    const int32_t* out_shape;
    const int64_t* stride_dout;
    const int64_t* stride_dsrc;

    Work work() const { return axis().work(); }
    Status check() const { return axis().check({{"stride_dout", stride_dout}, {"stride_dsrc", stride_dsrc}}); }
    int64_t selected() const { return out_shape[select_dim]; }
    Status locate_dsrc(Operand* operand, const char* name, Role role, int64_t size) const {
        return axis().locate(operand, name, role, size, "stride_dsrc", stride_dsrc);
    }
    size_t workspace_size() const { return scatter_add_workspace<T, I>(layout()); }
    Status run(const T* dout, const I* idx, T* dsrc, const Launch& launch) const {
        return scatter_add(launch, layout(), dout, idx, dsrc);
    }

private:
    ScatterAddAxis axis() const {
        return {"out_numel", out_numel, rank, "select_dim", select_dim, "src_dim_size", src_dim_size, "out_shape", out_shape};
    }
    ScatterLayout layout() const { return axis().layout(stride_dout, nullptr, stride_dsrc); }
};

}  // namespace bk
