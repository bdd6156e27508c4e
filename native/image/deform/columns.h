// SPDX-License-Identifier: Apache-2.0
// Columns of a deformable convolution (Dai et al. 2017, arXiv 1703.06211; with a mask Zhu et al. 2018, arXiv 1811.11168), whose
// product with the filters is the convolution, and the gradients of image, offsets and mask.
//
//   columns[n, c K + k, l] = mask[n, g, k, l] * image[n, c] at the position of tap k of window l, moved by offset[n, g, k, l]
//
// bilinearly, with 0 outside of the image; g is the offset group of channel c. A position at -1 or below, or at the extent or
// above, has the value 0 and no gradient, and so has NaN.
//
// Gradient of the image: samples are sorted by the cell above and left of them, once for all channels of a group, by a stable
// sort. Each cell then gathers the samples of its four adjacent cells in this order: no atomics, the same bits every time.
// Gradients of offsets and mask are sums over the channels of a group, in order.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/sort/sort_rows.h"
#include "core/types/dtype.h"

namespace bk::deform {

// Product of extents that stops short of an overflow.
inline int64_t product_of(std::initializer_list<int64_t> extents) {
    int64_t all = 1;
    for (const int64_t extent : extents)
        if (extent == 0) return 0;
    for (const int64_t extent : extents)
        if (__builtin_mul_overflow(all, extent, &all)) return INT64_MAX / 8;
    return all;
}

struct DeformShape {
    int32_t batch, channels, height, width, kernel_h, kernel_w, out_h, out_w;
    int32_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;

    BK_HD int64_t taps() const { return int64_t{kernel_h} * kernel_w; }
    BK_HD int64_t windows() const { return int64_t{out_h} * out_w; }
    BK_HD int64_t pixels() const { return int64_t{height} * width; }
    BK_HD int64_t group_channels() const { return channels / groups; }
    int64_t samples() const { return product_of({kernel_h, kernel_w, out_h, out_w, batch, groups}); }
    // Cells above and left of samples: one more along each axis than the image has.
    BK_HD int64_t corners() const { return (int64_t{height} + 1) * (int64_t{width} + 1); }
};

// A sample: the cell above and left of it, which may lie outside, and its distances from there.
template <class C>
struct Sample {
    int32_t top, left;
    C down, right;
    bool exists;

    BK_HD C weight(int64_t below, int64_t beside) const {
        return (below != 0 ? down : C(1) - down) * (beside != 0 ? right : C(1) - right);
    }
};

// Operands that tell positions.
template <class T>
struct Positions {
    using C = compute_t<T>;
    DeformShape s;
    const T *offset, *mask;  // mask may be null

    // Sample of offset group `plane` = n * groups + g, tap k, window l.
    BK_HD Sample<C> sample(int64_t plane, int64_t k, int64_t l) const {
        const T* const moved = offset + (plane * 2 * s.taps() + 2 * k) * s.windows() + l;
        const C y = at(l / s.out_w, s.stride_h, s.pad_h, k / s.kernel_w, s.dilation_h) + widen(moved[0]);
        const C x = at(l % s.out_w, s.stride_w, s.pad_w, k % s.kernel_w, s.dilation_w) + widen(moved[s.windows()]);
        if (!(y > C(-1) && y < static_cast<C>(s.height) && x > C(-1) && x < static_cast<C>(s.width)))
            return {0, 0, C(0), C(0), false};
        const C top = math::floor<C>(y), left = math::floor<C>(x);
        return {static_cast<int32_t>(top), static_cast<int32_t>(left), y - top, x - left, true};
    }
    BK_HD C scale(int64_t plane, int64_t k, int64_t l) const {
        return mask == nullptr ? C(1) : widen(mask[(plane * s.taps() + k) * s.windows() + l]);
    }
    static BK_HD C at(int64_t window, int32_t stride, int32_t pad, int64_t tap, int32_t dilation) {
        return static_cast<C>(window * stride - pad + tap * dilation);
    }
    // The cells around a sample: above left, above right, below left, below right; 0 outside.
    BK_HD void cells(const T* image, const Sample<C>& p, C* found) const {
        BK_UNROLL
        for (int k = 0; k < 4; ++k) {
            const int32_t y = p.top + k / 2, x = p.left + k % 2;
            const bool is_inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            found[k] = is_inside ? widen(image[int64_t{y} * s.width + x]) : C(0);
        }
    }
    static BK_HD C value(const Sample<C>& p, const C* v) {
        const C above = (C(1) - p.right) * v[0] + p.right * v[1], below = (C(1) - p.right) * v[2] + p.right * v[3];
        return (C(1) - p.down) * above + p.down * below;
    }
};

// Windows of a tap that a team has, and the chunk of channels.
struct DeformTiles {
    static constexpr int64_t kWindows = 256, kChannels = 16;
    int64_t windows, tiles, chunks;

    BK_HD int64_t begin(int64_t item) const { return item % tiles * kWindows; }
    BK_HD int64_t end(int64_t item) const {
        const int64_t most = begin(item) + kWindows;
        return most < windows ? most : windows;
    }
};

template <class T>
struct ColumnsJob {
    using C = compute_t<T>;
    Positions<T> at;
    DeformTiles tile;
    const T* input;
    T* columns;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const DeformShape& s = at.s;
        const int64_t rest = item / tile.tiles, chunk = rest % tile.chunks, tap = rest / tile.chunks;
        const int64_t k = tap % s.taps(), plane = tap / s.taps();
        const int64_t first = plane * s.group_channels() + chunk * DeformTiles::kChannels;  // of all images
        const int64_t left = (plane + 1) * s.group_channels() - first;
        const int64_t count = left < DeformTiles::kChannels ? left : DeformTiles::kChannels;
        for (int64_t l = tile.begin(item) + team.rank; l < tile.end(item); l += team.size) {
            const Sample<C> p = at.sample(plane, k, l);
            const C scale = at.scale(plane, k, l);
            for (int64_t c = first; c < first + count; ++c) {
                C v[4], made = C(0);
                if (p.exists) {
                    at.cells(input + c * s.pixels(), p, v);
                    made = scale * at.value(p, v);
                }
                columns[(c * s.taps() + k) * s.windows() + l] = narrow<T>(made);
            }
        }
    }
};

template <class T>
struct OffsetGradientJob {
    using C = compute_t<T>;
    Positions<T> at;
    DeformTiles tile;
    const T *dcolumns, *input;
    T *doffset, *dmask;  // either may be null

    BK_HD void operator()(const Team& team, int64_t item) const {
        const DeformShape& s = at.s;
        const int64_t tap = item / tile.tiles, k = tap % s.taps(), plane = tap / s.taps();
        for (int64_t l = tile.begin(item) + team.rank; l < tile.end(item); l += team.size) {
            const Sample<C> p = at.sample(plane, k, l);
            C of_y = C(0), of_x = C(0), of_mask = C(0);
            for (int64_t c = plane * s.group_channels(); p.exists && c < (plane + 1) * s.group_channels(); ++c) {
                const C g = widen(dcolumns[(c * s.taps() + k) * s.windows() + l]);
                C v[4];
                at.cells(input + c * s.pixels(), p, v);
                of_y += g * ((C(1) - p.right) * (v[2] - v[0]) + p.right * (v[3] - v[1]));
                of_x += g * ((C(1) - p.down) * (v[1] - v[0]) + p.down * (v[3] - v[2]));
                of_mask += g * at.value(p, v);
            }
            const C scale = at.scale(plane, k, l);
            if (doffset != nullptr) {
                T* const to = doffset + (plane * 2 * s.taps() + 2 * k) * s.windows() + l;
                to[0] = narrow<T>(scale * of_y);
                to[s.windows()] = narrow<T>(scale * of_x);
            }
            if (dmask != nullptr) dmask[(plane * s.taps() + k) * s.windows() + l] = narrow<T>(of_mask);
        }
    }
};

// Samples by the cell above and left of them.
struct SampleOrder {
    uint32_t *keys, *sorted, *order, *starts;
    char* sort;

    static SortProblem problem(int64_t samples) { return sort_problem<uint32_t>(1, samples, false, 4); }
    static SampleOrder carve(Carver* carver, const DeformShape& s) {
        SampleOrder made{};
        made.keys = carver->take<uint32_t>(s.samples());
        made.sorted = carver->take<uint32_t>(s.samples());
        made.order = carver->take<uint32_t>(s.samples());
        made.starts = carver->take<uint32_t>(cells(s) + 1);
        made.sort = carver->take<char>(static_cast<int64_t>(sort_rows_workspace(problem(s.samples()))));
        return made;
    }
    static int64_t cells(const DeformShape& s) { return product_of({s.corners(), s.batch, s.groups}); }
};

template <class T>
struct KeysJob {
    static constexpr int64_t kSamples = 1024;
    Positions<T> at;
    int64_t count;
    uint32_t none;
    uint32_t* keys;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const DeformShape& s = at.s;
        const int64_t end = (item + 1) * kSamples < count ? (item + 1) * kSamples : count;
        for (int64_t e = item * kSamples + team.rank; e < end; e += team.size) {
            const int64_t tap = e / s.windows(), plane = tap / s.taps();
            const auto p = at.sample(plane, tap % s.taps(), e % s.windows());
            const int64_t corner = (int64_t{p.top} + 1) * (int64_t{s.width} + 1) + p.left + 1;
            keys[e] = p.exists ? static_cast<uint32_t>(plane * s.corners() + corner) : none;
        }
    }
};

// starts[cell]: the first sorted sample whose key is not below it.
struct StartsJob {
    static constexpr int64_t kCells = 1024;
    int64_t cells, count;
    const uint32_t* sorted;
    uint32_t* starts;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t end = (item + 1) * kCells < cells + 1 ? (item + 1) * kCells : cells + 1;
        for (int64_t cell = item * kCells + team.rank; cell < end; cell += team.size) {
            int64_t low = 0, high = count;
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (sorted[middle] < static_cast<uint32_t>(cell))
                    low = middle + 1;
                else
                    high = middle;
            }
            starts[cell] = static_cast<uint32_t>(low);
        }
    }
};

// Has an order of samples, or searches all of them.
template <class T, bool kSorted>
struct ImageGradientJob {
    using C = compute_t<T>;
    static constexpr int kChannels = 8;
    Positions<T> at;
    int64_t chunks;                           // of a group's channels
    const uint32_t *sorted, *order, *starts;  // or null
    const T* dcolumns;
    T* dinput;

    // A team has a row of cells of some channels.
    BK_HD void operator()(const Team& team, int64_t item) const {
        const DeformShape& s = at.s;
        const int64_t y = item % s.height, rest = item / s.height, plane = rest / chunks;
        const int64_t first = plane * s.group_channels() + rest % chunks * kChannels;
        const int64_t left = (plane + 1) * s.group_channels() - first;
        const int count = left < kChannels ? static_cast<int>(left) : kChannels;
        for (int64_t x = team.rank; x < s.width; x += team.size) {
            C sums[kChannels] = {};
            if constexpr (kSorted)
                add_sorted(plane, y, x, first, count, sums);
            else
                add_found(plane, y, x, first, count, sums);
            BK_UNROLL
            for (int c = 0; c < kChannels; ++c)
                if (c < count) dinput[(first + c) * s.pixels() + y * s.width + x] = narrow<T>(sums[c]);
        }
    }

    // Samples whose cell is above, then those of this row.
    BK_HD void add_sorted(int64_t plane, int64_t y, int64_t x, int64_t first, int count, C* sums) const {
        const DeformShape& s = at.s;
        for (int64_t below = 1; below >= 0; --below) {
            const int64_t corner = plane * s.corners() + (y + 1 - below) * (int64_t{s.width} + 1) + x;
            for (int64_t i = starts[corner]; i < starts[corner + 2]; ++i) {
                const int64_t e = order[i], l = e % s.windows(), k = e / s.windows() % s.taps();
                const int64_t beside = sorted[i] == static_cast<uint32_t>(corner) ? 1 : 0;
                add(plane, k, l, at.sample(plane, k, l).weight(below, beside), first, count, sums);
            }
        }
    }

    // Adds the samples that touch the cell, searching all: there is no order.
    BK_HD void add_found(int64_t plane, int64_t y, int64_t x, int64_t first, int count, C* sums) const {
        const DeformShape& s = at.s;
        for (int64_t k = 0; k < s.taps(); ++k) {
            for (int64_t l = 0; l < s.windows(); ++l) {
                const Sample<C> p = at.sample(plane, k, l);
                const int64_t below = y - p.top, beside = x - p.left;
                if (!p.exists || below < 0 || below > 1 || beside < 0 || beside > 1) continue;
                add(plane, k, l, p.weight(below, beside), first, count, sums);
            }
        }
    }

    BK_HD void add(int64_t plane, int64_t k, int64_t l, C share, int64_t first, int count, C* sums) const {
        const DeformShape& s = at.s;
        const C weight = share * at.scale(plane, k, l);
        const int64_t step = s.taps() * s.windows();  // from one channel to the next
        const T* from = dcolumns + (first * s.taps() + k) * s.windows() + l;
        BK_UNROLL
        for (int c = 0; c < kChannels; ++c, from += step)
            if (c < count) sums[c] += weight * widen(*from);
    }
};

// Fields of both directions, in C's order.
struct DeformFields {
    int32_t batch, channels, height, width, kernel_h, kernel_w, out_h, out_w;
    int32_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, offset_groups;

    DeformShape shape() const {
        return {batch,    channels, height, width, kernel_h,   kernel_w,   out_h,        out_w,
                stride_h, stride_w, pad_h,  pad_w, dilation_h, dilation_w, offset_groups};
    }
    int64_t offset_channels() const { return product_of({2, offset_groups, kernel_h, kernel_w}); }
    int64_t mask_channels() const { return product_of({offset_groups, kernel_h, kernel_w}); }
    int64_t column_rows() const { return product_of({channels, kernel_h, kernel_w}); }
    DeformTiles tiles() const {
        const DeformShape s = shape();
        return {s.windows(), ceil_div(s.windows(), DeformTiles::kWindows),
                ceil_div(s.group_channels(), DeformTiles::kChannels)};
    }
    Status check() const {
        BK_TRY(require_non_negative({{"batch", batch},
                                     {"channels", channels},
                                     {"height", height},
                                     {"width", width},
                                     {"kernel_h", kernel_h},
                                     {"kernel_w", kernel_w},
                                     {"out_h", out_h},
                                     {"out_w", out_w},
                                     {"pad_h", pad_h},
                                     {"pad_w", pad_w}}));
        const NamedExtent positive[] = {{"stride_h", stride_h},
                                        {"stride_w", stride_w},
                                        {"dilation_h", dilation_h},
                                        {"dilation_w", dilation_w},
                                        {"offset_groups", offset_groups}};
        for (const NamedExtent& e : positive)
            if (e.value <= 0)
                return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", e.name, static_cast<long long>(e.value));
        if (channels % offset_groups != 0)
            return fail(Status::kInvalidProblem, "offset_groups is %d, must divide channels, %d", offset_groups, channels);
        return Status::kOk;
    }
};

template <class T>
struct DeformColumns : DeformFields {
    Work work() const { return all_or_none(product_of({kernel_h, kernel_w, out_h, out_w, batch, channels})); }
    Status run(const T* input, const T* offset, const T* mask, T* columns, const Launch& launch) const {
        const DeformTiles tile = tiles();
        const ColumnsJob<T> job{{shape(), offset, mask}, tile, input, columns};
        const int64_t items = int64_t{batch} * offset_groups * shape().taps() * tile.chunks * tile.tiles;
        return run_teams(launch, items, int64_t{1} << 13, job);
    }
};

template <class T>
struct DeformColumnsBackward : DeformFields {
    Work work() const {
        const bool has_cells = product_of({batch, channels, height, width}) > 0;
        return all_or_none(has_cells || shape().samples() > 0 ? 1 : 0);
    }
    Status check() const {
        BK_TRY(DeformFields::check());
        const DeformShape s = shape();
        const int64_t most = kMaxOperandBytes / static_cast<int64_t>(sizeof(T));
        if (s.samples() <= INT32_MAX || s.samples() > most) return require_cells(SampleOrder::cells(s), most);
        return fail(Status::kUnsupported, "batch * offset_groups * kernel * windows is %lld, at most %d samples are supported",
                    static_cast<long long>(s.samples()), INT32_MAX);
    }
    static Status require_cells(int64_t cells, int64_t most) {
        if (cells < int64_t{UINT32_MAX} || cells > most) return Status::kOk;
        return fail(Status::kUnsupported,
                    "batch * offset_groups * height * width is about %lld, at most %u cells are supported",
                    static_cast<long long>(cells), UINT32_MAX);
    }
    size_t workspace_size() const {
        Carver carver;
        SampleOrder::carve(&carver, shape());
        return carver.bytes();
    }
    Status run(const T* dcolumns, const T* input, const T* offset, const T* mask, T* dinput, T* doffset, T* dmask,
               const Launch& launch) const {
        const DeformShape s = shape();
        const Positions<T> at{s, offset, mask};
        if (dinput != nullptr && s.pixels() * batch * channels > 0) BK_TRY(run_image(at, dcolumns, dinput, launch));
        if ((doffset == nullptr && dmask == nullptr) || s.samples() == 0) return Status::kOk;
        const DeformTiles tile = tiles();
        const OffsetGradientJob<T> job{at, tile, dcolumns, input, doffset, dmask};
        return run_teams(launch, int64_t{batch} * offset_groups * s.taps() * tile.tiles, int64_t{1} << 13, job);
    }

private:
    Status run_image(const Positions<T>& at, const T* dcolumns, T* dinput, const Launch& launch) const {
        const DeformShape s = shape();
        if (s.samples() == 0)
            return fill_bytes(launch, dinput, 0, static_cast<size_t>(s.pixels() * batch * channels) * sizeof(T));
        if (!workspace_holds(launch, workspace_size())) return gather<false>(at, SampleOrder{}, dcolumns, dinput, launch);
        Carver carver(launch.workspace);
        const SampleOrder own = SampleOrder::carve(&carver, s);
        BK_TRY(sort_samples(at, own, launch));
        return gather<true>(at, own, dcolumns, dinput, launch);
    }

    template <bool kSorted>
    Status gather(const Positions<T>& at, const SampleOrder& own, const T* dcolumns, T* dinput, const Launch& launch) const {
        using Job = ImageGradientJob<T, kSorted>;
        const int64_t chunks = ceil_div<int64_t>(at.s.group_channels(), Job::kChannels);
        return run_teams(launch, int64_t{batch} * offset_groups * chunks * height, int64_t{width} * 64,
                         Job{at, chunks, own.sorted, own.order, own.starts, dcolumns, dinput});
    }

    Status sort_samples(const Positions<T>& at, const SampleOrder& own, const Launch& launch) const {
        const int64_t cells = SampleOrder::cells(at.s), samples = at.s.samples(), bytes = int64_t{1} << 12;
        BK_TRY(run_teams(launch, ceil_div<int64_t>(samples, KeysJob<T>::kSamples), bytes,
                         KeysJob<T>{at, samples, static_cast<uint32_t>(cells), own.keys}));
        BK_TRY(sort_rows(launch_with_workspace_from(launch, own.sort), SampleOrder::problem(samples),
                         {own.keys, own.sorted, nullptr, own.order}));
        return run_teams(launch, ceil_div<int64_t>(cells + 1, StartsJob::kCells), bytes,
                         StartsJob{cells, samples, own.sorted, own.starts});
    }
};

}  // namespace bk::deform
