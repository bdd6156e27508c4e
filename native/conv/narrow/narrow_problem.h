// SPDX-License-Identifier: Apache-2.0
// Sums over taps with few columns: a convolution, or the gradient of its data, whose groups have few results a position.
//
// The gradient of data with steps computes all phases of a position at once, as columns: every phase reads the same window,
// and taps that do not reach one have weights of 0. So 3 channels with steps of 2 by 2 fill 12 columns of 16. What is not
// finite in a window makes NaN of the phases that no tap of it reaches, too: results less than a step further off.
#pragma once

#include <algorithm>
#include <cstdint>

#include "conv/problem.h"
#include "core/types/vec.h"

namespace bk {

constexpr int kNarrowColumns = 16;         // of a tile, those of one group
constexpr int kNarrowRows = 256;           // positions of a tile, at most
constexpr int kNarrowVectors = 8;          // 16-byte vectors of channels of a tile, at most
constexpr int kNarrowThreads = 256;        // a warp has 32 rows
constexpr int64_t kLeastNarrowTiles = 32;  // from which it pays

// An axis. Position q reads coordinates first + q * step + j * tap_step of the source for window positions j; result
// q * phases + phase has the filter's tap first_tap + phase * phase_tap + j * window_tap there, if there is such a tap.
struct NarrowAxis {
    int positions = 1, extent = 1, first = 0, step = 1, taps = 1, tap_step = 1;
    int phases = 1, results = 1;
    int filter_taps = 1, first_tap = 0, phase_tap = 0, window_tap = 1;
    int64_t source_stride = 0, weight_stride = 0, result_stride = 0;
};

// A column of the tile: a channel of the group, and a phase along each axis.
struct NarrowColumn {
    int64_t offset;  // of its results
    int channel;
    int phase[kConvAxes];
};

struct NarrowShape {
    NarrowAxis axis[kConvAxes];
    NarrowColumn column[kNarrowColumns];
    int columns = 0, run = 1;  // adjacent in memory; `run` columns differ along the last axis and channels alone
    int vectors = 1;           // of channels of a group in a tile
    int chunks = 1;            // tiles that a group's channels take
    int passes = 1;            // groups of a tile
    int rows[2] = {1, 1};      // positions of a tile along the last two axes
    int reach[2] = {1, 1};     // pixels that they read
    int tiles[2] = {1, 1};
    int64_t batch = 1, groups = 1, inputs = 0, outputs = 0;
    int64_t source_n = 0, result_n = 0, result_c = 0, weight_g = 0, weight_in = 0, weight_out = 0;
    unsigned tile_bytes = 0, weight_bytes = 0;

    bool is_valid() const { return columns > 0; }
    BK_HD int tile_vectors() const { return passes * vectors; }
    // Pixels are an odd number of vectors apart, so that eight adjacent ones are in all banks.
    BK_HD int pitch() const { return (tile_vectors() | 1) * kVectorBytes; }
    // Vectors of K elements of a pass, in pairs.
    BK_HD int depth() const { return (axis[1].taps * axis[2].taps * vectors + 1) / 2 * 2; }
    // Blocks of channels that have weights of their own.
    BK_HD int64_t units() const { return (groups + passes - 1) / passes; }
};

// Bytes of shared memory that do not depend on the tile: staged results and zeros.
constexpr unsigned kNarrowStaged = kNarrowThreads / 32 * 16 * (kNarrowColumns + 1) * sizeof(float);
constexpr unsigned kNarrowFixed =
    kNarrowStaged + kVectorBytes + kNarrowColumns * static_cast<unsigned>(sizeof(NarrowColumn)) + kVectorBytes;

inline NarrowAxis narrow_axis(const ConvShape& s, bool is_data, int d, bool* fits) {
    const ConvAxis& a = s.axis[d];
    NarrowAxis n;
    const int64_t reach = a.dilation * (a.taps - 1) + a.in + a.out + a.pad;
    constexpr int64_t kMost = 1 << 24;
    if (reach > kMost || a.step > kMost || a.taps > kMost) {
        *fits = false;
        return n;
    }
    const int step = static_cast<int>(a.step), taps = static_cast<int>(a.taps), pad = static_cast<int>(a.pad);
    n.step = is_data ? 1 : step;
    n.taps = n.filter_taps = taps;
    n.tap_step = static_cast<int>(a.dilation);
    n.extent = static_cast<int>(is_data ? a.out : a.in);
    n.results = n.positions = static_cast<int>(is_data ? a.in : a.out);
    n.source_stride = is_data ? s.y.axis[d] : s.x.axis[d];
    n.result_stride = is_data ? s.x.axis[d] : s.y.axis[d];
    n.weight_stride = s.w.axis[d];
    n.first = -pad;
    if (!is_data) return n;
    n.window_tap = -1;
    n.first_tap = taps - 1;
    n.first = pad - (taps - 1) * n.tap_step;
    if (step == 1) return n;
    *fits = *fits && a.dilation == 1 && step <= kNarrowColumns;
    const auto floor_div = [step](int x) { return x >= 0 ? x / step : -((step - 1 - x) / step); };
    n.first = floor_div(pad - (taps - 1) + step - 1);
    n.taps = floor_div(pad + step - 1) - n.first + 1;
    n.phases = step;
    n.positions = (n.results + step - 1) / step;
    n.first_tap = pad - step * n.first;
    n.phase_tap = 1;
    n.window_tap = -step;
    return n;
}

template <class Shape>
void set_tile(Shape* p, int y, int x, int64_t reach_y, int64_t reach_x, int tiles_y, int tiles_x) {
    p->rows[0] = y;
    p->rows[1] = x;
    p->reach[0] = static_cast<int>(reach_y);
    p->reach[1] = static_cast<int>(reach_x);
    p->tiles[0] = tiles_y;
    p->tiles[1] = tiles_x;
}

// Tiles that take the least time of shared memory and L2, within `most` bytes of shared memory; false if none fit.
inline bool choose_narrow_tiles(NarrowShape* p, int64_t most) {
    const NarrowAxis &down = p->axis[1], &across = p->axis[2];
    const int64_t depth = p->depth() * p->passes;
    double best = 0;
    for (int x = 1; x <= std::min(across.positions, kNarrowRows); ++x) {
        const int tiles_x = (across.positions + x - 1) / x;
        if (x != (across.positions + tiles_x - 1) / tiles_x) continue;
        const int most_y = std::min(down.positions, kNarrowRows / x), tiles_y = (down.positions + most_y - 1) / most_y,
                  y = (down.positions + tiles_y - 1) / tiles_y;
        const int64_t reach_y = int64_t{y - 1} * down.step + int64_t{down.taps - 1} * down.tap_step + 1,
                      reach_x = int64_t{x - 1} * across.step + int64_t{across.taps - 1} * across.tap_step + 1,
                      bytes = reach_y * reach_x * p->pitch();
        if (bytes + p->weight_bytes + kNarrowFixed > most) continue;
        constexpr double kVectorTime = 0.4, kStepTime = 6;  // cycles of a loaded vector, and of 32 rows by 8 K elements
        const double time = static_cast<double>(tiles_x) * tiles_y *
                            (static_cast<double>(reach_y * reach_x) * p->tile_vectors() * kVectorTime +
                             (x * y + 31) / 32 * static_cast<double>(depth) * kStepTime);
        if (best != 0 && time >= best) continue;
        best = time;
        set_tile(p, y, x, reach_y, reach_x, tiles_y, tiles_x);
        p->tile_bytes = static_cast<unsigned>(bytes);
    }
    return best != 0;
}

// Sets the columns in the order of memory.
inline void set_narrow_columns(NarrowShape* p, int columns) {
    const NarrowAxis(&axis)[kConvAxes] = p->axis;
    const int channels = static_cast<int>(p->outputs), last = axis[2].phases;
    const bool has_inner_channels = p->result_c <= axis[2].result_stride;
    p->columns = columns;
    p->run = has_inner_channels ? last * channels : last;
    for (int j = 0; j < columns; ++j) {
        NarrowColumn& column = p->column[j];
        int rest = j;
        const auto next = [&rest](int count) {
            const int index = rest % count;
            rest /= count;
            return index;
        };
        if (has_inner_channels) column.channel = next(channels);
        for (int d = kConvAxes; d-- > 0;) column.phase[d] = next(axis[d].phases);
        if (!has_inner_channels) column.channel = rest;
        column.offset = 0;
        for (int d = 0; d < kConvAxes; ++d) column.offset += column.phase[d] * axis[d].result_stride;
    }
}

// Whether pairs of columns are adjacent in memory and begin at even elements.
inline bool has_narrow_pairs(const NarrowShape& p) {
    bool in_pairs =
        p.run % 2 == 0 && p.columns % 2 == 0 && p.result_n % 2 == 0 && (p.groups == 1 || p.outputs * p.result_c % 2 == 0);
    for (const NarrowAxis& a : p.axis) in_pairs = in_pairs && (a.positions == 1 || a.phases * a.result_stride % 2 == 0);
    for (int j = 0; in_pairs && j < p.columns; j += 2) {
        const auto at = [&p](int column) { return p.column[column].offset + p.column[column].channel * p.result_c; };
        in_pairs = at(j) % 2 == 0 && at(j + 1) == at(j) + 1;
    }
    return in_pairs;
}

// Whether columns are adjacent channels, and 32 bits count the results of an image.
inline bool has_narrow_rows(const NarrowShape& p) {
    int64_t reach = 0;
    for (const NarrowAxis& a : p.axis) {
        if (a.phases > 1 || a.result_stride > INT32_MAX) return false;
        reach += (a.results - 1) * a.result_stride;
    }
    return p.result_c == 1 && reach <= INT32_MAX && has_narrow_pairs(p);
}

// The forward convolution or the gradient of data as such sums of 16-bit elements, whose source has adjacent channels; not
// valid where the kernel does not serve or suit it. `shared` is the shared memory that a block may have.
inline NarrowShape narrow_shape(const ConvShape& s, bool is_data, int64_t shared) {
    constexpr int kLanes = kVectorBytes / 2, kChannels = kNarrowVectors * kLanes;
    NarrowShape p;
    p.batch = s.batch;
    p.groups = s.groups;
    p.inputs = is_data ? s.group_out() : s.group_in();
    p.outputs = is_data ? s.group_in() : s.group_out();
    if (p.inputs < kLanes || p.inputs % kLanes != 0 || p.outputs < 1 || p.outputs > kNarrowColumns) return {};
    if (s.groups > 1 && kChannels % p.inputs != 0) return {};
    bool fits = true;
    int64_t columns = p.outputs;
    for (int d = 0; d < kConvAxes; ++d) {
        p.axis[d] = narrow_axis(s, is_data, d, &fits);
        if (!fits) return {};
        columns *= p.axis[d].phases;
        if (columns > kNarrowColumns || p.axis[d].positions < 1 || p.axis[d].extent < 1) return {};
    }
    if (s.groups > 1 && p.axis[0].taps > 1) return {};
    if (int64_t{p.axis[1].taps} * p.axis[2].taps > kNarrowRows) return {};
    p.source_n = is_data ? s.y.outer : s.x.outer;
    p.result_n = is_data ? s.x.outer : s.y.outer;
    p.result_c = is_data ? s.x.channel : s.y.channel;
    p.weight_g = s.group_out() * s.w.outer;
    p.weight_in = is_data ? s.w.outer : s.w.channel;
    p.weight_out = is_data ? s.w.channel : s.w.outer;

    const int64_t vectors = p.inputs / kLanes;
    if (s.groups > 1) {
        p.passes = static_cast<int>(std::min<int64_t>(kNarrowVectors / vectors, s.groups));
        p.vectors = static_cast<int>(vectors);
    } else {
        const int64_t chunks = (vectors + kNarrowVectors - 1) / kNarrowVectors;
        p.chunks = static_cast<int>(std::min<int64_t>(chunks, INT32_MAX));
        p.vectors = static_cast<int>((vectors + chunks - 1) / chunks);
    }
    const int64_t weight_bytes = int64_t{p.passes} * p.axis[0].taps * p.chunks * p.depth() * kNarrowColumns * kVectorBytes;
    if (weight_bytes > shared) return {};
    p.weight_bytes = static_cast<unsigned>(weight_bytes);
    // Two blocks on an SM hide each other's loads.
    constexpr int64_t kReserved = 1 << 10;
    if (!choose_narrow_tiles(&p, shared / 2 - kReserved) && !choose_narrow_tiles(&p, shared)) return {};
    const int64_t tiles = p.batch * p.axis[0].positions * p.tiles[0] * p.tiles[1];
    if (tiles < kLeastNarrowTiles || tiles > INT32_MAX) return {};
    set_narrow_columns(&p, static_cast<int>(columns));
    return p;
}

}  // namespace bk
