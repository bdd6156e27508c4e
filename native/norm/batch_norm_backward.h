// Gradients of batch_norm_training.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "norm/batch_shape.h"
#include "norm/norm_columns.h"

namespace bk {

// dx = gamma * rstd * (dy - slope - xh * product), with the means over a channel: numbers of the row or, where a row has an
// element a channel, of the position.
template <class T, bool kOfColumns>
struct BatchApplyBackward : RowDefaults {
    static constexpr bool kOnePass = true, kOnlySums = true, kOnlyMaps = true;
    static constexpr int kHeldBytes = kOfColumns ? 64 : 128;  // numbers of columns need registers, too
    using C = compute_t<T>;
    using Acc = C;  // of nothing
    struct Row {
        C mean, rstd, gamma, product, slope;
    };
    struct Held {
        C dy, x;
    };

    bool has_gamma;
    C share;  // 1 / elements of a channel

    BK_HD Row start() const { return {}; }
    BK_HD Row start(C mean, C rstd, C gamma, C product, C slope) const {
        return {mean, rstd, has_gamma ? gamma : C(1), product * share, slope * share};
    }
    BK_HD Held hold(const Row&, int64_t, C dy, C x) const { return {dy, x}; }
    BK_HD Held pad() const { return {0, 0}; }
    BK_HD Acc identity() const { return 0; }
    template <class W, int N>
    BK_HD Acc sum_up(const Row&, Held (&)[N], const W&) const {
        return 0;
    }
    BK_HD Acc combine(const Acc& a, const Acc&) const { return a; }
    BK_HD bool finish(Row&, const Acc&, int64_t) const { return false; }
    template <class... Numbers>
    BK_HD Pack<C> map(const Row& row, const Nothing&, int64_t, const Held& held, Numbers... of_column) const {
        Row of = row;
        if constexpr (kOfColumns) of = start(of_column...);
        const C xh = (held.x - of.mean) * of.rstd;
        return pack(of.gamma * of.rstd * (held.dy - of.slope - xh * of.product));
    }
};

template <class T>
struct BatchNormTrainingBackward {
    int32_t n_extent;
    int32_t c_extent;
    int32_t spatial_extent;
    int32_t channels_last;

    using C = compute_t<T>;
    // Without elements the gradients of gamma and beta are sums of nothing.
    Work work() const { return !shape().is_empty() ? Work::kAll : c_extent > 0 ? Work::kZeros : Work::kNone; }
    Status check() const { return shape().check(); }
    int64_t statistic_count() const { return shape().statistic_count(); }
    size_t workspace_size() const { return reduce_workspace<NormColumnPair<T>, T, T, C, C>(sums()); }

    Status run(const T* dy, const T* x, const C* gamma, const C* saved_mean, const C* saved_rstd, T* dx, C* dgamma, C* dbeta,
               const Launch& launch) const {
        if (work() == Work::kZeros) {
            BK_TRY(write_zeros(launch, c_extent, dgamma));
            return write_zeros(launch, c_extent, dbeta);
        }
        BK_TRY(reduce(launch, sums(), NormColumnPair<T>{{true, false}}, outputs(dgamma, dbeta),
                      inputs(dy, x, saved_mean, saved_rstd)));
        const C share = C(1) / static_cast<C>(shape().items * shape().spatial);
        const auto numbers = inputs<C, C, C, C, C>(saved_mean, saved_rstd, gamma, dgamma, dbeta);
        const Launch alone{nullptr, 0, launch.stream};
        const bool has_gamma = gamma != nullptr;
        if (shape().has_columns())
            return map_rows(alone, shape().template rows<3, 0>(), BatchApplyBackward<T, true>{{}, has_gamma, share},
                            inputs(dy, x), numbers, inputs(), outputs(dx), outputs());
        return map_rows(alone, shape().template rows<3, 5>(), BatchApplyBackward<T, false>{{}, has_gamma, share}, inputs(dy, x),
                        inputs(), numbers, outputs(dx), outputs());
    }

private:
    BatchShape shape() const { return {n_extent, c_extent, spatial_extent, channels_last}; }
    ReduceAxes<4, 2> sums() const { return shape().template sums<4, 2, 2>(); }
};

}  // namespace bk
