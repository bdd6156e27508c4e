// SPDX-License-Identifier: Apache-2.0
// gather, index_select, take and gather_rows: y = x at indices along an axis.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/gather/gather_rows.h"
#include "core/gather/indexed_copy.h"
#include "indexing/indexed_operand.h"

namespace bk {

template <class T, class I>
struct Gather {
    int64_t out_numel;
    int32_t rank;
    int32_t gather_dim;
    int32_t src_dim_size;
    const int32_t* out_shape;
    const int64_t* stride_src;
    const int64_t* stride_index;
    const int64_t* stride_out;

    Work work() const { return all_or_none(out_numel); }
    Status check() const {
        BK_TRY(check_shape("out_numel", out_numel, rank, "out_shape", out_shape,
                           {{"stride_src", stride_src}, {"stride_index", stride_index}}, {{"stride_out", stride_out}}));
        BK_TRY(require_axis("gather_dim", gather_dim, rank));
        return require_non_negative({{"src_dim_size", src_dim_size}});
    }
    Status locate_src(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_indexed(operand, name, role, size, "stride_src", rank, out_shape, gather_dim, src_dim_size, stride_src);
    }
    Status run(const T* src, const I* index, T* out, const Launch& launch) const {
        using Bits = bits_t<T>;
        return gather_along(launch,
                            indexed_axes(rank, out_shape, gather_dim, src_dim_size, stride_out, stride_index, stride_src),
                            reinterpret_cast<Bits*>(out), index, reinterpret_cast<const Bits*>(src));
    }
};

template <class T, class I>
struct IndexSelect {
    int64_t out_numel;
    int32_t rank;
    int32_t select_dim;
    int32_t src_dim_size;
    const int32_t* out_shape;
    const int64_t* stride_src;
    const int64_t* stride_out;

    int32_t selected() const { return out_shape[select_dim]; }
    Work work() const { return all_or_none(out_numel); }
    Status check() const {
        BK_TRY(check_shape("out_numel", out_numel, rank, "out_shape", out_shape, {{"stride_src", stride_src}},
                           {{"stride_out", stride_out}}));
        BK_TRY(require_axis("select_dim", select_dim, rank));
        return require_non_negative({{"src_dim_size", src_dim_size}});
    }
    Status locate_src(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_indexed(operand, name, role, size, "stride_src", rank, out_shape, select_dim, src_dim_size, stride_src);
    }
    Status run(const T* src, const I* idx, T* out, const Launch& launch) const {
        using Bits = bits_t<T>;
        return gather_along(launch, indexed_axes(rank, out_shape, select_dim, src_dim_size, stride_out, nullptr, stride_src),
                            reinterpret_cast<Bits*>(out), idx, reinterpret_cast<const Bits*>(src));
    }
};

template <class T, class I>
struct Take {
    int64_t numel;
    int64_t src_numel;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}, {"src_numel", src_numel}}); }
    Status run(const T* src, const I* index, T* out, const Launch& launch) const {
        using Bits = bits_t<T>;
        return gather_along(launch, indexed_row(numel, src_numel), reinterpret_cast<Bits*>(out), index,
                            reinterpret_cast<const Bits*>(src));
    }
};

// Whole rows; zeros if the index is out of range.
template <class T>
struct GatherRows {
    int64_t v;
    int64_t h;
    int64_t n;

    Work work() const { return all_or_none(n); }
    Status check() const {
        for (const NamedExtent& e : {NamedExtent{"v", v}, NamedExtent{"h", h}})
            if (e.value <= 0)
                return fail(Status::kInvalidProblem, "%s is %lld, must be >= 1", e.name, static_cast<long long>(e.value));
        return require_non_negative({{"n", n}});
    }
    Status check_extents() const { return check(); }
    size_t workspace_size() const { return 0; }
    Status run(T* dest, const T* table, const uint32_t* idx, const Launch& launch) const {
        return gather_rows(launch, GatherShape{n, h * kWords<T>, v}, words_of(table), idx, words_of(dest));
    }
};

}  // namespace bk
