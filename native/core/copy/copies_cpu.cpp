// SPDX-License-Identifier: Apache-2.0
#include "core/copy/copies.h"

#include <algorithm>
#include <type_traits>

#include "core/copy/copy_row_cpu.h"
#include "core/copy/transpose_cpu.h"
#include "core/pointwise/pointwise.h"

namespace bk {

namespace {

// --- strided ----------------------------------------------------------------------------------------------------------

constexpr int64_t kBlockSide = 128;  // side of the blocks in which transposed operands are copied

// The fastest axis of x if it is not the last one and both are long enough to transpose by blocks; else -1.
int axis_across(const CopyLayout& layout) {
    const int last = layout.rank - 1;
    int fastest = last;
    for (int d = 0; d < last; ++d) {
        const int64_t step = magnitude(layout.stride[1][d]);
        if (step != 0 && layout.stride[1][last] != 0 && step < magnitude(layout.stride[1][fastest])) fastest = d;
    }
    return fastest == last || layout.extent[fastest] < 8 || layout.extent[last] < 8 ? -1 : fastest;
}

struct Rectangle {
    int64_t rows, columns, y_row, y_column, x_row, x_column;
};

template <class Bits>
void copy_rectangle(const Rectangle& s, const Bits* BK_RESTRICT x, Bits* BK_RESTRICT y) {
    if (s.y_column == 1 && s.x_row == 1) return transpose(sizeof(Bits), y, s.y_row, x, s.x_column, s.rows, s.columns);
    for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t c = 0; c < s.columns; ++c) y[r * s.y_row + c * s.y_column] = x[r * s.x_row + c * s.x_column];
}

// Copies by blocks of kSide rows (axis `across`) and columns (the last axis).
template <class Bits>
void copy_squares(const CopyLayout& layout, int across, const Bits* x, Bits* y) {
    const int last = layout.rank - 1;
    CopyLayout outer;
    for (int d = 0; d < last; ++d)
        if (d != across) outer.append(layout.extent[d], {layout.stride[0][d], layout.stride[1][d]});
    const Walk<2, uint64_t, 2 * kMaxRank> walk(outer);
    const int64_t rows = layout.extent[across], columns = layout.extent[last];
    const int64_t by_row = ceil_div(rows, kBlockSide), by_column = ceil_div(columns, kBlockSide);
    parallel_ranges(outer.numel() * by_row * by_column,
                    grain_for(2 * kBlockSide * kBlockSide * static_cast<int64_t>(sizeof(Bits))),
                    [&](int64_t begin, int64_t end) {
                        for (int64_t k = begin; k < end; ++k) {
                            const int64_t c = k % by_column * kBlockSide, r = k / by_column % by_row * kBlockSide;
                            const auto at = walk(static_cast<uint64_t>(k / by_column / by_row));
                            const Rectangle square{std::min(kBlockSide, rows - r), std::min(kBlockSide, columns - c),
                                                   layout.stride[0][across],       layout.stride[0][last],
                                                   layout.stride[1][across],       layout.stride[1][last]};
                            copy_rectangle(square, x + signed_offset(at.of[1]) + r * square.x_row + c * square.x_column,
                                           y + signed_offset(at.of[0]) + r * square.y_row + c * square.y_column);
                        }
                    });
}

// Copies rows along the last axis that are contiguous in both operands.
void copy_dense_rows(const CopyLayout& layout, size_t size, const char* x, char* y) {
    const int last = layout.rank - 1, next = last - 1;
    CopyLayout outer = layout;
    outer.rank = next;
    const Walk<2, uint64_t, 2 * kMaxRank> walk(outer);
    const size_t bytes = static_cast<size_t>(layout.extent[last]) * size;
    const int64_t rows = layout.extent[next], width = static_cast<int64_t>(size);
    const int64_t step_y = layout.stride[0][next] * width, step_x = layout.stride[1][next] * width;
    split_ranges(outer.numel() * rows, grain_for(2 * static_cast<int64_t>(bytes)), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end;) {
            const int64_t row = k % rows, count = std::min(rows - row, end - k);
            const auto at = walk(static_cast<uint64_t>(k / rows));
            char* to = y + signed_offset(at.of[0]) * width + row * step_y;
            const char* from = x + signed_offset(at.of[1]) * width + row * step_x;
            for (int64_t r = 0; r < count; ++r) copy_row(to + r * step_y, from + r * step_x, bytes);
            k += count;
        }
    });
}

// Whether the copy is a repeat_interleave: last axis of stride 0 in x, both inner axes contiguous in y.
bool repeats_elements(const CopyLayout& layout) {
    const int last = layout.rank - 1, next = last - 1;
    return next >= 0 && layout.stride[0][last] == 1 && layout.stride[1][last] == 0 && layout.stride[1][next] == 1 &&
           layout.stride[0][next] == layout.extent[last];
}

template <int64_t kTimes, class Bits>
BK_HD void repeat_elements(Bits* BK_RESTRICT y, const Bits* BK_RESTRICT x, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
        for (int64_t r = 0; r < kTimes; ++r) y[i * kTimes + r] = x[i];
}

template <class Bits>
void copy_repeated(const CopyLayout& layout, const Bits* x, Bits* y) {
    const int last = layout.rank - 1, next = last - 1;
    CopyLayout outer = layout;
    outer.rank = next;
    const Walk<2, uint64_t, 2 * kMaxRank> walk(outer);
    const int64_t times = layout.extent[last], length = layout.extent[next];
    parallel_ranges(outer.numel() * length, grain_for(2 * times * static_cast<int64_t>(sizeof(Bits))),
                    [&](int64_t begin, int64_t end) {
                        for (int64_t k = begin; k < end;) {
                            const int64_t first = k % length, count = std::min(length - first, end - k);
                            const auto at = walk(static_cast<uint64_t>(k / length));
                            Bits* const to = y + signed_offset(at.of[0]) + first * times;
                            const Bits* const from = x + signed_offset(at.of[1]) + first;
                            k += count;
                            switch (times) {
                                case 2: repeat_elements<2>(to, from, count); break;
                                case 3: repeat_elements<3>(to, from, count); break;
                                case 4: repeat_elements<4>(to, from, count); break;
                                case 8: repeat_elements<8>(to, from, count); break;
                                default:
                                    for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * times, times, from[i]);
                            }
                        }
                    });
}

template <class Bits>
Status copy_bits(const Launch& launch, const CopyLayout& given, const void* x, void* y) {
    const CopyLayout layout = collapse(given);
    const int across = layout.rank > 1 ? axis_across(layout) : -1;
    const int last = layout.rank - 1;
    if (across < 0 && last > 0 && layout.stride[0][last] == 1 && layout.stride[1][last] == 1) {
        copy_dense_rows(layout, sizeof(Bits), static_cast<const char*>(x), static_cast<char*>(y));
        return Status::kOk;
    }
    if (across < 0 && repeats_elements(layout)) {
        copy_repeated(layout, static_cast<const Bits*>(x), static_cast<Bits*>(y));
        return Status::kOk;
    }
    if (across < 0)
        return pointwise_strided(launch, layout, CopyFunctor{}, outputs(static_cast<Bits*>(y)),
                                 inputs(static_cast<const Bits*>(x)));
    copy_squares(layout, across, static_cast<const Bits*>(x), static_cast<Bits*>(y));
    return Status::kOk;
}

// --- mapped -----------------------------------------------------------------------------------------------------------

// Adjacent elements of a row of y whose sources are `step` apart in x, or that all have the pad value.
struct MappedSegment {
    int64_t count, from, step;
    bool is_constant;
};

// The longest segment that begins at index c of an axis.
MappedSegment segment_at_index(const MappedAxis& axis, PadMode pad_mode, int64_t period, int64_t phase, int64_t c) {
    const int64_t remaining = axis.extent - c, at = c - axis.low, last = axis.source - 1;
    if (axis.is_plain()) return {remaining, c, 1, false};
    if (pad_mode == PadMode::kReflect || pad_mode == PadMode::kCircular) {
        const int64_t t = (c + phase) % period;
        if (t < axis.source) return {std::min(remaining, axis.source - t), t, 1, false};
        return {std::min(remaining, period - t), period - t, -1, false};
    }
    if (at < 0) return {std::min(remaining, -at), 0, 0, pad_mode == PadMode::kConstant};
    if (at > last) return {remaining, last, 0, pad_mode == PadMode::kConstant};
    return {std::min(remaining, axis.source - at), at, 1, false};
}

template <class Bits>
void copy_segment(Bits* y, int64_t step_y, const Bits* x, int64_t step_x, int64_t count) {
    if (step_y == 1 && step_x == 1) {
        if (count > 16)
            copy_row(y, x, static_cast<size_t>(count) * sizeof(Bits));  // y may be x
        else
            for (int64_t k = 0; k < count; ++k) y[k] = x[k];
    } else if (step_y == 1 && step_x == -1) {
        for (int64_t k = 0; k < count; ++k) y[k] = x[-k];
    } else if (step_y == 1 && step_x == 0) {
        std::fill_n(y, count, *x);
    } else {
        for (int64_t k = 0; k < count; ++k) y[k * step_y] = x[k * step_x];
    }
}

// A 16-byte element.
struct Pair {
    uint64_t half[2];
};

template <class Bits>
Bits value_of(const MappedCopy& copy) {
    if constexpr (std::is_same_v<Bits, Pair>)
        return {{copy.value, copy.value_high}};
    else
        return static_cast<Bits>(copy.value);
}

// `divisor` is positive.
int64_t floor_div(int64_t number, int64_t divisor) { return number / divisor - (number % divisor < 0); }

// A mapped copy of one element width. Rows are along the last axis.
template <class Bits>
struct MappedRows {
    const MappedPlan& plan;
    const Bits* x;
    Bits* y;
    int64_t start = 0;  // offset along start_axis

    const MappedCopy& copy() const { return plan.copy; }

    void row(int64_t number, int64_t first, int64_t end) const {
        const int last = copy().rank - 1;
        int64_t to = 0, from = 0, band[kMaxBands] = {};
        bool exists = true;
        for (int d = last - 1; d >= 0; --d) {
            const MappedAxis& axis = copy().axis[d];
            const int64_t c = number % axis.extent;
            number /= axis.extent;
            const int64_t target = c + (d == copy().start_axis ? start : 0), at = map(axis, c);
            if (d == copy().start_axis && (target < 0 || target >= copy().limit)) return;
            exists = exists && at >= 0;
            to += target * axis.stride_y, from += at * axis.stride_x, band[axis.band] += c * axis.slope;
        }
        if (last == copy().start_axis) {
            to += start * copy().axis[last].stride_y;
            first = std::max(first, -start), end = std::min(end, copy().limit - start);
        }
        const int row_band = copy().axis[last].band;  // other bands constrain the row as a whole
        for (int b = 0; b < kMaxBands; ++b) exists = exists && (b == row_band || copy().band[b].has(band[b]));
        copy_segments(y + to, exists ? x + from : nullptr,
                      {copy().band[row_band].least - band[row_band], copy().band[row_band].most - band[row_band]}, first, end);
    }

private:
    int64_t map(const MappedAxis& axis, int64_t c) const {
        return AxisMap<uint64_t>(axis, copy().pad_mode)(static_cast<uint64_t>(c));
    }

    void fill(Bits* to, int64_t first, int64_t end) const {
        const Bits value = value_of<Bits>(copy());
        if (first < end)
            copy_segment(to + first * copy().axis[copy().rank - 1].stride_y, copy().axis[copy().rank - 1].stride_y, &value, 0,
                         end - first);
    }

    // Copies indices [first, end) of a row within `band`, which the outer axes have reduced; `from` is null if the row
    // has no source.
    void copy_segments(Bits* to, const Bits* from, const DiagonalBand& band, int64_t first, int64_t end) const {
        const MappedAxis& axis = copy().axis[copy().rank - 1];
        const AxisMap<uint64_t> map(axis, copy().pad_mode);
        const int64_t period = static_cast<int64_t>(map.period.divisor()), phase = static_cast<int64_t>(map.phase);
        int64_t low = first, high = end;  // range within the band
        const int64_t slope = axis.slope;
        if (slope > 0)
            low = std::max(low, -floor_div(-band.least, slope)), high = std::min(high, floor_div(band.most, slope) + 1);
        if (slope < 0)
            low = std::max(low, -floor_div(band.most, -slope)), high = std::min(high, floor_div(-band.least, -slope) + 1);
        if (slope == 0 && !band.has(0)) high = low;
        if (from == nullptr || high <= low) return fill(to, first, end);
        fill(to, first, low);
        for (int64_t c = low; c < high;) {
            MappedSegment segment = segment_at_index(axis, copy().pad_mode, period, phase, c);
            segment.count = std::min(segment.count, high - c);
            if (segment.is_constant)
                fill(to, c, c + segment.count);
            else
                copy_segment(to + c * axis.stride_y, axis.stride_y, from + segment.from * axis.stride_x,
                             segment.step * axis.stride_x, segment.count);
            c += segment.count;
        }
        fill(to, high, end);
    }
};

template <class Bits>
Status copy_rows(const MappedPlan& plan, const void* x, void* y) {
    MappedRows<Bits> rows{plan, static_cast<const Bits*>(x), static_cast<Bits*>(y)};
    const MappedCopy& copy = plan.copy;
    if (copy.start != nullptr) {
        const int64_t start = *copy.start;
        if (start >= copy.limit / plan.start_unit || start <= -(int64_t{1} << 32)) return Status::kOk;
        rows.start = start * plan.start_unit;
    }
    const int64_t length = copy.axis[copy.rank - 1].extent, count = plan.numel / std::max<int64_t>(length, 1);
    const int64_t chunk = std::min<int64_t>(length, 65536), chunks = ceil_div(length, chunk);
    parallel_ranges(count * chunks, grain_for(2 * chunk * static_cast<int64_t>(sizeof(Bits))), [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
            rows.row(k / chunks, k % chunks * chunk, std::min((k % chunks + 1) * chunk, length));
    });
    return Status::kOk;
}

}  // namespace

Status copy_strided(const Launch& launch, const CopyLayout& layout, int bytes, const void* x, void* y) {
    switch (bytes) {
        case 1: return copy_bits<uint8_t>(launch, layout, x, y);
        case 2: return copy_bits<uint16_t>(launch, layout, x, y);
        case 4: return copy_bits<uint32_t>(launch, layout, x, y);
        case 8: return copy_bits<uint64_t>(launch, layout, x, y);
        default:
            return copy_in_halves(layout, x, y, [&](const CopyLayout& halves, const void* from, void* to) {
                return copy_bits<uint64_t>(launch, halves, from, to);
            });
    }
}

Status copy_mapped(const Launch&, const MappedCopy& copy, int bytes, const void* x, void* y) {
    const MappedPlan plan = plan_mapped(copy);
    switch (bytes) {
        case 1: return copy_rows<uint8_t>(plan, x, y);
        case 2: return copy_rows<uint16_t>(plan, x, y);
        case 4: return copy_rows<uint32_t>(plan, x, y);
        case 8: return copy_rows<uint64_t>(plan, x, y);
        default: return copy_rows<Pair>(plan, x, y);
    }
}

}  // namespace bk
