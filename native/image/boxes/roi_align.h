// SPDX-License-Identifier: Apache-2.0
// RoIAlign (He et al. 2017, arXiv 1703.06870) and the gradient of its images.
//
// A region has pooled_h x pooled_w bins; a bin's value is the mean of bilinear samples at the centres of a grid of
// samples_y x samples_x cells. A sample outside of [-1, extent] is 0, one between an edge's centre and the limit is the edge's.
//
// The position of a sample, its taps and their weights along y do not depend on x, and the other way round: forward, taps of
// both axes are computed once for all channels. Backward, a tile of cells gathers the bins whose samples touch it, regions in
// order: no atomics, and sums are in the compute type.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/team.h"
#include "image/boxes/rois.h"

namespace bk::boxes {

// The lower tap of a sample and the weight of the upper one; no tap if `low` is negative.
template <class C>
struct Tap {
    int32_t low;
    C upper;

    BK_HD int32_t high(int32_t extent) const { return low + 1 < extent ? low + 1 : low; }
};

template <class C>
BK_HD Tap<C> tap_at(C position, int32_t extent) {
    if (extent <= 0 || !(position >= C(-1) && position <= static_cast<C>(extent))) return {-1, C(0)};
    const C inside = position > C(0) ? position : C(0);
    const auto low = static_cast<int32_t>(inside);
    if (low >= extent - 1) return {extent - 1, C(0)};
    return {low, inside - static_cast<C>(low)};
}

// First and last index of a run; empty if `end` is not larger.
struct IndexRange {
    int64_t begin, end;
};

// Samples of a region along one axis.
template <class C>
struct AlignAxis {
    C start, bin;
    int32_t samples, extent;  // samples of a bin; cells of the image, 0 for a region without samples

    static constexpr C kMostSamples = C(1 << 30);

    BK_HD AlignAxis(C low, C high, C scale, bool is_aligned, int32_t pooled, int32_t ratio, int32_t cells) : extent(cells) {
        const C shift = is_aligned ? C(0.5) : C(0);
        start = math::product(low, scale) - shift;
        C size = (math::product(high, scale) - shift) - start;
        if (!is_aligned && size < C(1)) size = C(1);
        bin = size / static_cast<C>(pooled);
        if (!is_finite(start) || !is_finite(size)) {
            start = bin = C(0);
            extent = 0;
        }
        const C grid = math::ceil<C>(bin);
        samples = ratio > 0 ? ratio : grid < C(1) ? 1 : static_cast<int32_t>(grid < kMostSamples ? grid : kMostSamples);
    }

    BK_HD C position(int64_t p, int64_t i) const {
        const C within = math::product(static_cast<C>(i) + C(0.5), bin) / static_cast<C>(samples);
        return (start + math::product(static_cast<C>(p), bin)) + within;
    }
    BK_HD Tap<C> tap(int64_t p, int64_t i) const { return tap_at(position(p, i), extent); }

    // Indices k = p * samples + i, of `count`, of a superset of the samples in [low, high].
    BK_HD IndexRange between(C low, C high, int64_t count) const {
        const C step = bin / static_cast<C>(samples);
        if (!(step > C(0))) return {0, count};
        const C first = (low - start) / step - C(2), last = (high - start) / step + C(2);
        const C all = static_cast<C>(count);
        return {first > C(0) ? (first < all ? static_cast<int64_t>(first) : count) : 0,
                last < all ? (last > C(0) ? static_cast<int64_t>(last) : 0) : count};
    }

    // Samples of bin p that can be inside of the image; all of the usual few.
    BK_HD IndexRange inside(int64_t p) const {
        if (samples <= 64) return {0, samples};
        const IndexRange near = between(C(-1), static_cast<C>(extent), INT64_C(1) << 62);
        const int64_t before = p * samples, begin = near.begin - before, end = near.end - before;
        return {begin > 0 ? (begin < samples ? begin : samples) : 0, end < samples ? (end > 0 ? end : 0) : samples};
    }

    // Sum of the weights of a cell in the samples of bin p that are in `near`.
    BK_HD C weight(int64_t p, int32_t cell, IndexRange near) const {
        const int64_t before = p * samples, begin = near.begin - before, end = near.end - before;
        C sum = C(0);
        for (int64_t i = begin > 0 ? begin : 0; i < (end < samples ? end : samples); ++i) {
            const Tap<C> t = tap(p, i);
            if (t.low == cell) sum += C(1) - t.upper;
            if (t.low >= 0 && t.low + 1 == cell) sum += t.upper;
        }
        return sum;
    }

    // Samples that can touch a cell.
    BK_HD IndexRange touching(int32_t cell, int64_t count) const {
        const C at = static_cast<C>(cell);
        return between(at - C(1), cell == extent - 1 ? at + C(2) : at + C(1), count);
    }

    // Whether a sample of the region may touch the cells [first, last].
    BK_HD bool touches(int32_t first, int32_t last, int32_t pooled) const {
        const C end = start + bin * static_cast<C>(pooled);
        const C low = start < end ? start : end, high = start < end ? end : start;
        return extent > 0 && high >= static_cast<C>(first) - C(2) && low <= static_cast<C>(last) + C(2);
    }
};

template <class C>
struct AlignRule {
    C scale;
    int32_t ratio;
    bool is_aligned;
};

// Samples of both axes of a region.
template <class C>
struct AlignFrame {
    AlignAxis<C> y, x;

    template <class T>
    BK_HD AlignFrame(const T* roi, const RoiShape& s, const AlignRule<C>& rule)
        : y(widen(roi[2]), widen(roi[4]), rule.scale, rule.is_aligned, s.pooled_h, rule.ratio, s.height),
          x(widen(roi[1]), widen(roi[3]), rule.scale, rule.is_aligned, s.pooled_w, rule.ratio, s.width) {}

    BK_HD C count() const { return static_cast<C>(y.samples) * static_cast<C>(x.samples); }
};

template <class T>
struct RoiAlignJob {
    using C = compute_t<T>;
    RoiShape shape;
    RoiChannels chunks;
    AlignRule<C> rule;
    const T *input, *rois;
    T* output;

    // Taps of an axis: of the team's table, or computed.
    struct Taps {
        const AlignAxis<C>& axis;
        const Tap<C>* table;
        BK_HD Tap<C> at(int32_t p, int32_t i) const { return table != nullptr ? table[p * axis.samples + i] : axis.tap(p, i); }
    };

    static BK_HD void fill(const Team& team, const AlignAxis<C>& axis, int64_t pooled, Tap<C>* table) {
        for (int64_t k = team.rank; k < pooled * axis.samples; k += team.size)
            table[k] = axis.tap(k / axis.samples, k % axis.samples);
    }

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t roi = chunks.roi(item), first = chunks.first(item), count = chunks.here(item) * shape.bins();
        const int64_t image = image_of(rois + roi * kRoiFields, shape.batch);
        T* const to = output + (roi * shape.channels + first) * shape.bins();
        if (image < 0) {
            for (int64_t e = team.rank; e < count; e += team.size) to[e] = narrow<T>(C(0));
            return;
        }
        auto* const shared = static_cast<AlignFrame<C>*>(team.scratch);
        if (team.rank == 0) *shared = AlignFrame<C>(rois + roi * kRoiFields, shape, rule);
        team.sync();
        const AlignFrame<C>& frame = *shared;
        constexpr auto kRest = kTeamScratch - static_cast<int64_t>(sizeof(AlignFrame<C>));
        constexpr int64_t kTable = kRest / static_cast<int64_t>(sizeof(Tap<C>));
        const int64_t of_y = int64_t{shape.pooled_h} * frame.y.samples, of_x = int64_t{shape.pooled_w} * frame.x.samples;
        auto* const table = reinterpret_cast<Tap<C>*>(shared + 1);
        const bool is_cached = of_y + of_x <= kTable;
        if (is_cached) {
            fill(team, frame.y, shape.pooled_h, table);
            fill(team, frame.x, shape.pooled_w, table + of_y);
            team.sync();
        }
        const Taps y{frame.y, is_cached ? table : nullptr}, x{frame.x, is_cached ? table + of_y : nullptr};
        const T* const from = input + (image * shape.channels + first) * shape.pixels();
        const C samples = frame.count();
        for (int64_t e = team.rank; e < count; e += team.size) {
            const int64_t bin = e % shape.bins();
            const auto p = static_cast<int32_t>(bin / shape.pooled_w), q = static_cast<int32_t>(bin % shape.pooled_w);
            to[e] = narrow<T>(sum(from + e / shape.bins() * shape.pixels(), y, x, p, q) / samples);
        }
    }

    BK_HD C sum(const T* plane, const Taps& y, const Taps& x, int32_t p, int32_t q) const {
        const IndexRange rows = y.axis.inside(p), columns = x.axis.inside(q);
        C all = C(0);
        const auto last_row = static_cast<int32_t>(rows.end), last_column = static_cast<int32_t>(columns.end);
        for (auto i = static_cast<int32_t>(rows.begin); i < last_row; ++i) {
            const Tap<C> v = y.at(p, i);
            if (v.low < 0) continue;
            const T* const top = plane + int64_t{v.low} * shape.width;
            const T* const bottom = plane + int64_t{v.high(shape.height)} * shape.width;
            for (auto k = static_cast<int32_t>(columns.begin); k < last_column; ++k) {
                const Tap<C> h = x.at(q, k);
                if (h.low < 0) continue;
                const int32_t right = h.high(shape.width);
                const C upper = (C(1) - h.upper) * widen(top[h.low]) + h.upper * widen(top[right]);
                const C lower = (C(1) - h.upper) * widen(bottom[h.low]) + h.upper * widen(bottom[right]);
                all += (C(1) - v.upper) * upper + v.upper * lower;
            }
        }
        return all;
    }
};

// Cells and channels of which a team gathers the gradient. A thread of a GPU has one cell, the CPU's has all.
struct AlignTile {
    static constexpr int32_t kRows = 8, kColumns = 32, kCells = kRows * kColumns, kChannels = 8;
#if BK_CUDA
    static constexpr int32_t kOwn = 1;
#else
    static constexpr int32_t kOwn = kCells;
#endif
    int64_t across, down, chunks;  // tiles of a plane, chunks of channels

    static AlignTile of(const RoiShape& s) {
        return {ceil_div<int64_t>(s.width, kColumns), ceil_div<int64_t>(s.height, kRows),
                ceil_div<int64_t>(s.channels, kChannels)};
    }
    int64_t items(int64_t batch) const { return batch * chunks * down * across; }
};

// dinput[n, c, y, x] += sum over regions of n and bins (p, q) of dout[r, c, p, q] weight_y(p, y) weight_x(q, x) / samples
template <class T>
struct RoiAlignBackwardJob {
    using C = compute_t<T>;
    RoiShape shape;
    AlignTile tile;
    AlignRule<C> rule;
    const T *dout, *rois;
    T* dinput;

    // A region in the team's scratch.
    struct Entry {
        AlignFrame<C> frame;
        bool touches;
    };
    static constexpr int64_t kEntries = 96;
    static_assert(kEntries * sizeof(Entry) <= kTeamScratch, "regions fit the scratch of a team");

    struct Cell {
        int32_t y, x;
        bool exists;
    };
    BK_HD Cell cell_of(const Team& team, int32_t top, int32_t left, int k) const {
        const int32_t at = team.rank + k * team.size, y = top + at / AlignTile::kColumns, x = left + at % AlignTile::kColumns;
        return {y, x, at < AlignTile::kCells && y < shape.height && x < shape.width};
    }

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t tiles = tile.across * tile.down, at = item % tiles, plane = item / tiles;
        const int64_t image = plane / tile.chunks, first = plane % tile.chunks * AlignTile::kChannels;
        const auto top = static_cast<int32_t>(at / tile.across * AlignTile::kRows);
        const auto left = static_cast<int32_t>(at % tile.across * AlignTile::kColumns);
        const int64_t rest = shape.channels - first;
        const int channels = rest < AlignTile::kChannels ? static_cast<int>(rest) : AlignTile::kChannels;
        auto* const entries = static_cast<Entry*>(team.scratch);
        C sums[AlignTile::kOwn][AlignTile::kChannels] = {};
        for (int64_t base = 0; base < shape.rois; base += kEntries) {
            const int64_t count = shape.rois - base < kEntries ? shape.rois - base : kEntries;
            team.sync();
            for (int64_t k = team.rank; k < count; k += team.size) {
                const T* const roi = rois + (base + k) * kRoiFields;
                Entry entry{AlignFrame<C>(roi, shape, rule), false};
                entry.touches = image_of(roi, shape.batch) == image &&
                                entry.frame.y.touches(top, top + AlignTile::kRows - 1, shape.pooled_h) &&
                                entry.frame.x.touches(left, left + AlignTile::kColumns - 1, shape.pooled_w);
                entries[k] = entry;
            }
            team.sync();
            for (int64_t k = 0; k < count; ++k) {
                if (!entries[k].touches) continue;
                const T* const from = dout + ((base + k) * shape.channels + first) * shape.bins();
                for (int own = 0; own < AlignTile::kOwn; ++own) {
                    const Cell cell = cell_of(team, top, left, own);
                    if (cell.exists) add(entries[k].frame, cell, from, channels, sums[own]);
                }
            }
        }
        T* const to = dinput + (image * shape.channels + first) * shape.pixels();
        for (int own = 0; own < AlignTile::kOwn; ++own) {
            const Cell cell = cell_of(team, top, left, own);
            if (!cell.exists) continue;
            BK_UNROLL
            for (int c = 0; c < AlignTile::kChannels; ++c) {
                T* const each = to + c * shape.pixels() + int64_t{cell.y} * shape.width + cell.x;
                if (c < channels) *each = narrow<T>(widen(*each) + sums[own][c]);
            }
        }
    }

    BK_HD void add(const AlignFrame<C>& frame, Cell cell, const T* from, int channels, C* sums) const {
        const IndexRange rows = frame.y.touching(cell.y, int64_t{shape.pooled_h} * frame.y.samples);
        const IndexRange columns = frame.x.touching(cell.x, int64_t{shape.pooled_w} * frame.x.samples);
        if (rows.begin >= rows.end || columns.begin >= columns.end) return;
        const C samples = frame.count();
        for (int64_t p = rows.begin / frame.y.samples; p <= (rows.end - 1) / frame.y.samples; ++p) {
            const C of_row = frame.y.weight(p, cell.y, rows);
            if (of_row == C(0)) continue;
            for (int64_t q = columns.begin / frame.x.samples; q <= (columns.end - 1) / frame.x.samples; ++q) {
                const C of_column = frame.x.weight(q, cell.x, columns);
                if (of_column == C(0)) continue;
                const C weight = of_row * of_column / samples;
                const T* const bin = from + p * shape.pooled_w + q;
                BK_UNROLL
                for (int c = 0; c < AlignTile::kChannels; ++c)
                    if (c < channels) sums[c] += weight * widen(bin[c * shape.bins()]);
            }
        }
    }
};

// Fields that both directions have.
template <class T>
struct RoiAlignFields {
    int32_t batch, channels, height, width, num_rois, pooled_h, pooled_w;
    float spatial_scale;
    int32_t sampling_ratio, aligned;

    RoiShape shape() const { return {batch, channels, height, width, num_rois, pooled_h, pooled_w}; }
    AlignRule<compute_t<T>> rule() const { return {static_cast<compute_t<T>>(spatial_scale), sampling_ratio, aligned != 0}; }
    Status check() const { return shape().check(); }
};

template <class T>
struct RoiAlign : RoiAlignFields<T> {
    Work work() const { return all_or_none(this->shape().results()); }
    Status run(const T* input, const T* rois, T* output, const Launch& launch) const {
        const RoiChannels chunks = RoiChannels::of(this->channels);
        const RoiAlignJob<T> job{this->shape(), chunks, this->rule(), input, rois, output};
        return run_teams(launch, this->num_rois * chunks.count, int64_t{1} << 12, job, true);
    }
};

template <class T>
struct RoiAlignBackward : RoiAlignFields<T> {
    Work work() const {
        const RoiShape s = this->shape();
        return s.results() == 0 ? Work::kNone : all_or_none(s.cells());
    }
    Status run(const T* dout, const T* rois, T* dinput, const Launch& launch) const {
        const AlignTile tile = AlignTile::of(this->shape());
        const RoiAlignBackwardJob<T> job{this->shape(), tile, this->rule(), dout, rois, dinput};
        return run_teams(launch, tile.items(this->batch), int64_t{1} << 12, job, true);
    }
};

}  // namespace bk::boxes
