// SPDX-License-Identifier: Apache-2.0
// scatter and put: elements are written at indices; of duplicates the last wins if there is a workspace.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/gather/indexed_copy.h"
#include "indexing/indexed_operand.h"

namespace bk {

template <class T, class I>
struct Scatter {
    int64_t upd_numel;
    int32_t rank;
    int32_t scatter_dim;
    int32_t out_dim_size;
    const int32_t* upd_shape;
    const int64_t* stride_updates;
    const int64_t* stride_index;
    const int64_t* stride_out;

    Work work() const { return all_or_none(out_dim_size == 0 ? 0 : upd_numel); }
    Status check() const {
        BK_TRY(check_shape("upd_numel", upd_numel, rank, "upd_shape", upd_shape,
                           {{"stride_updates", stride_updates}, {"stride_index", stride_index}, {"stride_out", stride_out}},
                           {}));
        BK_TRY(require_axis("scatter_dim", scatter_dim, rank));
        return require_non_negative({{"out_dim_size", out_dim_size}});
    }
    Status locate_out(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_indexed(operand, name, role, size, "stride_out", rank, upd_shape, scatter_dim, out_dim_size, stride_out);
    }
    // Duplicates exist only with several updates along the axis.
    size_t workspace_size() const {
        return upd_shape[scatter_dim] < 2 ? 0 : scatter_workspace<int32_t>(upd_numel / upd_shape[scatter_dim] * out_dim_size);
    }
    Status run(const T* updates, const I* index, T* out, const Launch& launch) const {
        using Bits = bits_t<T>;
        const Launch alone{nullptr, 0, launch.stream};
        return scatter_along<int32_t>(
            workspace_size() > 0 ? launch : alone,
            indexed_axes(rank, upd_shape, scatter_dim, out_dim_size, stride_updates, stride_index, stride_out), scatter_dim,
            reinterpret_cast<const Bits*>(updates), index, reinterpret_cast<Bits*>(out));
    }
};

template <class T, class I>
struct Put {
    int64_t numel;
    int64_t out_numel;

    Work work() const { return all_or_none(out_numel == 0 ? 0 : numel); }
    Status check() const { return require_non_negative({{"numel", numel}, {"out_numel", out_numel}}); }
    size_t workspace_size() const { return numel < 2 ? 0 : scatter_workspace<long long>(out_numel); }
    Status run(const T* updates, const I* index, T* out, const Launch& launch) const {
        using Bits = bits_t<T>;
        const Launch alone{nullptr, 0, launch.stream};
        return scatter_along<long long>(workspace_size() > 0 ? launch : alone, indexed_row(numel, out_numel), 0,
                                        reinterpret_cast<const Bits*>(updates), index, reinterpret_cast<Bits*>(out));
    }
};

}  // namespace bk
