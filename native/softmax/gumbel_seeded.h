// SPDX-License-Identifier: Apache-2.0
// Gumbel softmax with noise generated in the kernel from a seed and an offset, and its gradient, which generates it again.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/random/philox.h"
#include "softmax/gumbel_softmax.h"

namespace bk {

namespace op {

// Rows with a random stream: element e of the tensor, in row-major order, takes number e.
template <class T, class Base>
struct WithNoise : Base {
    using C = compute_t<T>;
    using Stream = RandomStream<C>;
    static constexpr int kTogether = kVectorLanes<T>;  // elements whose numbers a thread generates at once
    static constexpr int kWords = kTogether * Stream::kWords;
    static_assert(kTogether % Stream::kNumbers == 0, "whole blocks");

    struct Row : Base::Row {
        int64_t first_offset;  // of the row's first element
    };
    struct PositionParams {
        int64_t at;
        uint32_t word[kWords];  // of position `at` and the next ones, if generated at once
    };

    Stream stream;
    int64_t step;  // between adjacent elements of a row, in row-major order
    bool are_together;

    BK_HD Row start(C) const { return {Base::start(), 0}; }
    BK_HD bool shares_params(int64_t n) const { return are_together && n == kTogether; }
    BK_HD PositionParams position_params(const Row& row, int64_t j) const {
        PositionParams position_params{j, {}};
        const uint64_t number = static_cast<uint64_t>(row.first_offset) + static_cast<uint64_t>(j * step);
#if BK_IN_KERNEL
        if (are_together && j % kTogether == 0) {
            stream.template block_words<kTogether>(number, position_params.word);
            return position_params;
        }
#endif
        stream.words(number, position_params.word);
        return position_params;
    }
    BK_HD void next(PositionParams& position_params) const {
        ++position_params.at;
        BK_UNROLL
        for (int i = 0; i + Stream::kWords < kWords; ++i) position_params.word[i] = position_params.word[i + Stream::kWords];
    }
    // The logit with noise -ln(-ln(1 - u)): the largest noise comes from small u, which are dense in floating point.
    static BK_HD C noisy(const PositionParams& position_params, C x) {
        return x - math::log<C>(-math::log1p<C>(-UniformOf<C>::of(position_params.word)));
    }
};

template <class T>
struct SeededSoftRows : WithNoise<T, GumbelSoftmaxRows<T>> {
    using Rows = WithNoise<T, GumbelSoftmaxRows<T>>;
    using typename Rows::C;
    using typename Rows::PositionParams;
    using typename Rows::Row;
    BK_HD C transform(const Row&, const PositionParams& position_params, C x) const {
        return Rows::noisy(position_params, x) * this->inv_tau;
    }
    BK_HD Pack<C> map(const Row& row, const typename Rows::TileParams& tile_params, const PositionParams& position_params,
                      C x) const {
        return GumbelSoftmaxRows<T>::map(row, tile_params, position_params.at, x);
    }
};

template <class T>
struct SeededHardRows : WithNoise<T, GumbelHardRows<T>> {
    using Rows = WithNoise<T, GumbelHardRows<T>>;
    using typename Rows::C;
    using typename Rows::PositionParams;
    using typename Rows::Row;
    BK_HD C transform(const Row&, const PositionParams& position_params, C x) const {
        return Rows::noisy(position_params, x) * this->inv_tau;
    }
    BK_HD Pack<C> map(const Row& row, Nothing, const PositionParams& position_params, C x) const {
        return GumbelHardRows<T>::map(row, {}, position_params.at, x);
    }
};

// dx = inv_tau y (dy - sum(y dy)) with y = exp(v - m) / s, m the row maximum of v and s the sum of exp(v - m).
template <class T>
struct SoftmaxOfLogitsGradientRows : RowDefaults {
    static constexpr bool kOnePass = true;
    using C = compute_t<T>;
    struct Acc {
        C max, sum, product;  // sum of e = exp(v - base_of(max)); product: sum of e dy
    };
    struct Row {
        C max, factor, mean;  // factor = 1 / s, mean = sum(y dy)
    };
    struct TileParams {
        C factor;
    };
    struct Cached {
        C v, dy;
    };

    C inv_tau;

    static BK_HD C base_of(C max) { return SoftmaxRows<T>::base_of(max); }
    BK_HD Row start() const { return {}; }
    BK_HD Cached pad() const { return {-C(INFINITY), C(0)}; }
    BK_HD Acc identity() const { return {-C(INFINITY), C(0), C(0)}; }
    template <class W, int N>
    BK_HD Acc reduce_tile(const Row&, Cached (&held)[N], const W&) const {
        C v[N], dy[N];
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) {
            v[i] = held[i].v;
            dy[i] = held[i].dy;
        }
        const C max = max_of(v), base = base_of(max);
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) v[i] = math::exp_of_negative<T>(v[i] - base);
        BK_HELD_LOOP
        for (int i = 0; i < N; ++i) held[i].v = v[i];
        return {max, sum_of(v), sum_of_products(v, dy)};
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const bool first = a.max > b.max;
        const Acc high = first ? a : b, low = first ? b : a;
        const C share = math::exp_of_negative<T>(low.max - base_of(high.max));
        return {high.max, high.sum + low.sum * share, high.product + low.product * share};
    }
    BK_HD bool finish(Row& row, const Acc& all, int64_t) const {
        row.max = all.max;
        row.factor = C(1) / all.sum;
        row.mean = all.product * row.factor;
        return false;
    }
    BK_HD TileParams tile_params(const Row& row, const Acc& mine) const {
        return {math::exp_of_negative<T>(base_of(mine.max) - row.max) * row.factor * inv_tau};
    }
    BK_HD Pack<C> map(const Row& row, const TileParams& tile_params, int64_t, const Cached& held) const {
        return pack(held.v * tile_params.factor * (held.dy - row.mean));
    }
};

template <class T>
struct SeededGradientRows : WithNoise<T, SoftmaxOfLogitsGradientRows<T>> {
    using Rows = WithNoise<T, SoftmaxOfLogitsGradientRows<T>>;
    using typename Rows::C;
    using typename Rows::Cached;
    using typename Rows::PositionParams;
    using typename Rows::Row;
    BK_HD Cached transform(const Row&, const PositionParams& position_params, C dy, C x) const {
        return {Rows::noisy(position_params, x) * this->inv_tau, dy};
    }
    BK_HD Pack<C> map(const Row& row, const typename Rows::TileParams& tile_params, const PositionParams& position_params,
                      const Cached& held) const {
        return SoftmaxOfLogitsGradientRows<T>::map(row, tile_params, position_params.at, held);
    }
};

}  // namespace op

// Rows of `Full` operands along an axis, the offset of each row's first element, and the random stream.
template <class T, int Full>
struct NoisyRows {
    RowAxes<Full, 1> axes;
    int64_t step = 1;
    bool are_together = false;

    NoisyRows(int32_t rank, const int32_t* shape, int32_t axis, uint64_t offset, const int64_t* const (&strides)[Full]) {
        using Stream = RandomStream<compute_t<T>>;
        int64_t dense = 1;
        int64_t steps[kMaxRank];
        for (int32_t d = rank - 1; d >= 0; dense *= shape[d--]) steps[d] = dense;
        for (int32_t d = 0; d < rank; ++d) {
            int64_t at_axis[Full + 1], of_row[Full];
            for (int k = 0; k < Full; ++k) at_axis[k] = of_row[k] = strides[k][d];
            at_axis[Full] = steps[d];
            if (d == axis)
                axes.inner.append(shape[d], of_row);
            else
                axes.outer.append(shape[d], at_axis);
        }
        step = steps[axis];
        are_together = step == 1 && offset % Stream::kNumbers == 0 && shape[axis] % kVectorLanes<T> == 0;
    }
    // Runs F over the rows, which take consecutive random numbers.
    template <class F>
    F with(const typename F::Rows& rows) const {
        F f{rows};
        f.step = step;
        f.are_together = are_together;
        return f;
    }
};

template <class T>
struct GumbelSoftmaxSeeded {
    using C = compute_t<T>;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t softmax_axis;
    int32_t softmax_extent;
    int64_t softmax_stride_x;
    int64_t softmax_stride_y;
    double inv_tau;
    int32_t hard;
    uint64_t seed;
    uint64_t offset;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY((SoftmaxForwardArgs{numel, rank, shape, stride_x, stride_y, softmax_axis, softmax_extent, softmax_stride_x,
                                   softmax_stride_y}
                    .check()));
        return require_temperature(inv_tau);
    }
    size_t workspace_size() const { return map_rows_workspace<op::SeededHardRows<T>>(rows().axes); }
    Status run(const T* x, T* y, const Launch& launch) const {
        const C factor = static_cast<C>(inv_tau);
        if (hard != 0) return run_rows<op::SeededHardRows<T>>({{{}, factor}, {seed, offset}, 1, false}, x, y, launch);
        return run_rows<op::SeededSoftRows<T>>({{{{}, false}, factor}, {seed, offset}, 1, false}, x, y, launch);
    }

private:
    NoisyRows<T, 2> rows() const { return {rank, shape, softmax_axis, offset, {stride_x, stride_y}}; }
    template <class F>
    Status run_rows(const typename F::Rows& f, const T* x, T* y, const Launch& launch) const {
        const NoisyRows<T, 2> noisy = rows();
        return map_rows(launch, noisy.axes, noisy.template with<F>(f), inputs(x), inputs(),
                        inputs(static_cast<const T*>(nullptr)), outputs(y), outputs());
    }
};

template <class T>
struct GumbelSoftmaxSeededBackward {
    using C = compute_t<T>;
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    int32_t softmax_axis;
    int32_t softmax_extent;
    int64_t softmax_stride_dy;
    int64_t softmax_stride_x;
    double inv_tau;
    uint64_t seed;
    uint64_t offset;

    using F = op::SeededGradientRows<T>;
    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_x", stride_x}},
                           {{"stride_dx", stride_dx}}));
        BK_TRY(require_softmax_axis(rank, shape, softmax_axis, softmax_extent,
                                    {{"softmax_stride_dy", softmax_stride_dy, "stride_dy", stride_dy},
                                     {"softmax_stride_x", softmax_stride_x, "stride_x", stride_x}}));
        return require_temperature(inv_tau);
    }
    size_t workspace_size() const { return map_rows_workspace<F>(rows().axes); }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        const NoisyRows<T, 3> noisy = rows();
        const F f = noisy.template with<F>({{{}, static_cast<C>(inv_tau)}, {seed, offset}, 1, false});
        return map_rows(launch, noisy.axes, f, inputs(dy, x), inputs(), inputs(static_cast<const T*>(nullptr)), outputs(dx),
                        outputs());
    }

private:
    NoisyRows<T, 3> rows() const { return {rank, shape, softmax_axis, offset, {stride_dy, stride_x, stride_dx}}; }
};

}  // namespace bk
