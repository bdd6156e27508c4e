// SPDX-License-Identifier: Apache-2.0
// RoIPool (Girshick 2015, arXiv 1504.08083): the maximum over each bin of a region whose corners are rounded to cells, and its
// gradient.
//
// Corners are rounded half away from 0; a region has width round(x2) - round(x1) + 1, at least 1. Bin p has the cells
// floor(p * bin) to ceil((p + 1) * bin) from the corner on, cut at the image. The first maximum in row-major order counts, and
// the first NaN before it. argmax is y * width + x; a bin without cells is 0, its argmax -1, as are those of a region whose
// corners are not finite.
//
// Backward, a team has a plane of an image, and takes gradients in order of regions and bins, as many at once as it has
// threads: of equal cells the first thread adds all. No atomics.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "image/boxes/rois.h"

namespace bk::boxes {

template <class C>
BK_HD C round_half_away(C x) {
    const C size = math::fabs<C>(x), whole = math::floor<C>(size);
    return math::copysign<C>(size - whole >= C(0.5) ? whole + C(1) : whole, x);
}

// Bins of a region along one axis.
template <class C>
struct PoolAxis {
    C start, bin;
    int32_t extent;

    BK_HD PoolAxis(C low, C high, C scale, int32_t pooled, int32_t cells) : extent(cells) {
        start = round_half_away(math::product(low, scale));
        const C size = round_half_away(math::product(high, scale)) - start + C(1);
        bin = (size > C(1) ? size : C(1)) / static_cast<C>(pooled);
        if (!is_finite(start) || !is_finite(size)) extent = 0;
    }
    BK_HD int32_t cut(C at) const { return at > C(0) ? (at < static_cast<C>(extent) ? static_cast<int32_t>(at) : extent) : 0; }
    BK_HD int32_t begin(int64_t p) const { return cut(math::floor<C>(math::product(static_cast<C>(p), bin)) + start); }
    BK_HD int32_t end(int64_t p) const { return cut(math::ceil<C>(math::product(static_cast<C>(p + 1), bin)) + start); }
};

template <class T>
struct RoiPoolJob {
    using C = compute_t<T>;
    RoiShape shape;
    RoiChannels chunks;
    C scale;
    const T *input, *rois;
    T* output;
    int32_t* argmax;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t roi = chunks.roi(item), first = chunks.first(item), count = chunks.here(item) * shape.bins();
        const T* const box = rois + roi * kRoiFields;
        const int64_t image = image_of(box, shape.batch), to = (roi * shape.channels + first) * shape.bins();
        const int32_t height = image < 0 ? 0 : shape.height;
        const PoolAxis<C> y(widen(box[2]), widen(box[4]), scale, shape.pooled_h, height);
        const PoolAxis<C> x(widen(box[1]), widen(box[3]), scale, shape.pooled_w, shape.width);
        const T* const from = input + ((image < 0 ? 0 : image) * shape.channels + first) * shape.pixels();
        for (int64_t e = team.rank; e < count; e += team.size) {
            const int64_t bin = e % shape.bins();
            largest(from + e / shape.bins() * shape.pixels(), y, x, bin, to + e);
        }
    }

    BK_HD void largest(const T* plane, const PoolAxis<C>& y, const PoolAxis<C>& x, int64_t bin, int64_t to) const {
        const int32_t left = x.begin(bin % shape.pooled_w), right = x.end(bin % shape.pooled_w);
        const int32_t bottom = y.end(bin / shape.pooled_w);
        C best = C(0);
        int64_t found = -1;
        for (int32_t row = y.begin(bin / shape.pooled_w); row < bottom; ++row) {
            for (int32_t column = left; column < right; ++column) {
                const int64_t at = int64_t{row} * shape.width + column;
                const C value = widen(plane[at]);
                if (found >= 0 && !(value > best) && !(math::isnan(value) && !math::isnan(best))) continue;
                best = value;
                found = at;
            }
        }
        output[to] = found < 0 ? narrow<T>(C(0)) : plane[found];
        argmax[to] = static_cast<int32_t>(found);
    }
};

// Sums of a tile of a plane in the compute type, where T is narrower; else the plane itself.
template <class T>
struct RoiPoolBackwardJob {
    using C = compute_t<T>;
    static constexpr bool kHasTile = !std::is_same_v<T, C>;
    static constexpr int64_t kTile = 2048, kAtOnce = 256;
    static_assert(kTile * sizeof(float) + kAtOnce * sizeof(int32_t) <= kTeamScratch, "a tile fits the scratch of a team");
    RoiShape shape;
    const T *dout, *rois;
    const int32_t* argmax;
    T* dinput;

    // The cell of the plane from `begin` on that gradient k of the channel is added to, or -1.
    BK_HD int32_t cell(int64_t k, int64_t image, int64_t channel, int64_t begin, int64_t end) const {
        const int64_t roi = k / shape.bins();
        if (image_of(rois + roi * kRoiFields, shape.batch) != image) return -1;
        const int64_t at = argmax[(roi * shape.channels + channel) * shape.bins() + k % shape.bins()];
        return at >= begin && at < end ? static_cast<int32_t>(at - begin) : -1;
    }
    BK_HD C gradient(int64_t k, int64_t channel) const {
        return widen(dout[(k / shape.bins() * shape.channels + channel) * shape.bins() + k % shape.bins()]);
    }

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t image = item / shape.channels, channel = item % shape.channels;
        T* const plane = dinput + item * shape.pixels();
        const int64_t step = kHasTile ? kTile : shape.pixels();
        for (int64_t begin = 0; begin < shape.pixels(); begin += step) {
            const int64_t end = begin + step < shape.pixels() ? begin + step : shape.pixels();
            add(team, image, channel, plane, begin, end);
        }
    }

    BK_HD void add(const Team& team, int64_t image, int64_t channel, T* plane, int64_t begin, int64_t end) const {
        auto* const sums = static_cast<C*>(team.scratch);
        auto* const cells = reinterpret_cast<int32_t*>(static_cast<char*>(team.scratch) + kTile * sizeof(float));
        if (kHasTile)
            for (int64_t k = team.rank; k < end - begin; k += team.size) sums[k] = C(0);
        const int64_t count = int64_t{shape.rois} * shape.bins();
        const int64_t at_once = team.size > kAtOnce ? kAtOnce : team.size;
        for (int64_t base = 0; base < count; base += at_once) {
            const int64_t here = count - base < at_once ? count - base : at_once, rank = team.rank;
            team.sync();
            if (rank < here) cells[rank] = cell(base + rank, image, channel, begin, end);
            team.sync();
            if (rank >= here || cells[rank] < 0) continue;
            const int32_t own = cells[rank];
            bool is_first = true;
            for (int64_t k = 0; k < rank; ++k) is_first = is_first && cells[k] != own;
            if (!is_first) continue;
            C sum = kHasTile ? sums[own] : widen(plane[begin + own]);
            for (int64_t k = rank; k < here; ++k)
                if (cells[k] == own) sum += gradient(base + k, channel);
            if (kHasTile)
                sums[own] = sum;
            else
                plane[begin + own] = narrow<T>(sum);
        }
        team.sync();
        if (kHasTile)
            for (int64_t k = team.rank; k < end - begin; k += team.size)
                plane[begin + k] = narrow<T>(widen(plane[begin + k]) + sums[k]);
        team.sync();
    }
};

template <class T>
struct RoiPool {
    int32_t batch, channels, height, width, num_rois, pooled_h, pooled_w;
    float spatial_scale;

    RoiShape shape() const { return {batch, channels, height, width, num_rois, pooled_h, pooled_w}; }
    Work work() const { return all_or_none(shape().results()); }
    Status check() const {
        BK_TRY(shape().check());
        const bool is_too_large = shape().pixels() > kMaxOperandBytes / static_cast<int64_t>(sizeof(T));  // refused as such
        if (shape().pixels() <= INT32_MAX || is_too_large) return Status::kOk;
        return fail(Status::kUnsupported, "height * width is %lld, at most %d cells of a plane are supported",
                    static_cast<long long>(shape().pixels()), INT32_MAX);
    }
    Status run(const T* input, const T* rois, T* output, int32_t* argmax, const Launch& launch) const {
        const RoiChannels chunks = RoiChannels::of(channels);
        const RoiPoolJob<T> job{shape(), chunks, static_cast<compute_t<T>>(spatial_scale), input, rois, output, argmax};
        return run_teams(launch, num_rois * chunks.count, int64_t{1} << 12, job);
    }
};

template <class T>
struct RoiPoolBackward {
    int32_t batch, channels, height, width, num_rois, pooled_h, pooled_w;

    RoiShape shape() const { return {batch, channels, height, width, num_rois, pooled_h, pooled_w}; }
    Work work() const { return shape().results() == 0 ? Work::kNone : all_or_none(shape().cells()); }
    Status check() const { return RoiPool<T>{batch, channels, height, width, num_rois, pooled_h, pooled_w, 1.0f}.check(); }
    Status run(const T* dout, const T* rois, const int32_t* argmax, T* dinput, const Launch& launch) const {
        const RoiPoolBackwardJob<T> job{shape(), dout, rois, argmax, dinput};
        return run_teams(launch, int64_t{batch} * channels, int64_t{1} << 12, job, true);
    }
};

}  // namespace bk::boxes
