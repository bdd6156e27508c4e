// batch_norm and group_norm.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/launch.h"
#include "norm/channel_shape.h"
#include "norm/norm_row.h"

namespace bk {

template <class T>
struct ChannelNorm {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t num_groups;
    int32_t group_kind;
    float eps;

    Work work() const { return shape().is_empty() ? Work::kNone : Work::kAll; }
    Status check() const { return shape().check(); }
    int64_t group_count() const { return shape().group_count(); }
    size_t workspace_size() const {
        return std::max(map_rows_workspace<OfGroups>(group_axes(Per::kElement, Per::kElement)),
                        map_rows_workspace<OfChannels>(channel_axes(Per::kElement, Per::kElement)));
    }

    // Inputs that are not there have x to stand in for them; what is read of that is not used.
    Status run(const T* x, const T* gamma, const T* beta, T* y, T* saved_mean, T* saved_rstd, const Launch& launch) const {
        const T* const given_gamma = gamma == nullptr ? x : gamma;
        const T* const given_beta = beta == nullptr ? x : beta;
        const Per of_gamma = gamma == nullptr ? Per::kElement : Per::kChannel;
        const Per of_beta = beta == nullptr ? Per::kElement : Per::kChannel;
        if (shape().is_of_channels() || (gamma == nullptr && beta == nullptr)) {
            OfGroups f{};
            prepare(&f);
            f.has_row_gamma = gamma != nullptr;
            f.has_row_beta = beta != nullptr;
            return map_rows(launch, group_axes(of_gamma, of_beta), f, inputs(x), inputs<T, T>(nullptr, nullptr),
                            inputs(given_gamma, given_beta), outputs(y), outputs(saved_mean, saved_rstd));
        }
        OfChannels f{};
        prepare(&f);
        f.has_gamma = gamma != nullptr;
        f.has_beta = beta != nullptr;
        return map_rows(launch, channel_axes(of_gamma, of_beta), f, inputs(x, given_gamma, given_beta), inputs(), inputs(x, x),
                        outputs(y), outputs(saved_mean, saved_rstd));
    }

private:
    using Per = ChannelShape::Per;
    using OfGroups = NormForward<T, NormAffine::kColumns>;
    using OfChannels = NormForward<T, NormAffine::kElements>;

    ChannelShape shape() const {
        return {n_extent, c_extent, spatial_extent, num_groups, static_cast<ChannelGroups>(group_kind)};
    }

    template <class F>
    void prepare(F* f) const {
        f->eps = static_cast<compute_t<T>>(eps);
        f->is_centered = true;
    }

    RowAxes<2, 4> group_axes(Per gamma, Per beta) const {
        return shape().axes({Per::kElement, Per::kElement}, {gamma, beta, Per::kGroup, Per::kGroup});
    }

    RowAxes<4, 4> channel_axes(Per gamma, Per beta) const {
        return shape().axes({Per::kElement, gamma, beta, Per::kElement},
                            {Per::kElement, Per::kElement, Per::kGroup, Per::kGroup});
    }
};

}  // namespace bk
