// SPDX-License-Identifier: Apache-2.0
// Matrices as 8-bit floats with f32 scales of the tensor, of rows, of 1 x 128 groups or of 128 x 128 blocks (arXiv
// 2412.19437, 3.3.2), by rows and transposed: the operands of gemm_scaled.
//
// A team has a tile of 128 x 128 elements. Scales of groups and blocks follow from the tile; those of rows and of the
// tensor from the largest magnitudes of all tiles, which a first launch leaves in the workspace. A scale is the largest
// finite magnitude over that of the format, at least 2^-126, or the least power of two that is not below; it is 1 where all
// is 0. NaN and infinities become NaN and do not enter scales.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/abi/checks.h"
#include "core/abi/workspace.h"
#include "core/collectives/team.h"
#include "core/math/math.h"
#include "core/types/fp8.h"
#include "quantize/floats/four_bit.h"
#include "quantize/floats/values.h"

namespace bk::floats {

enum class Fp8Scaling : int32_t { kTensor, kRows, kGroups, kBlocks };

constexpr int kFp8Tile = 128;

// The scales of a matrix and of its transpose.
struct Fp8Scales {
    Fp8Scaling scaling;
    int64_t rows, columns;

    BK_HD int64_t row_tiles() const { return (rows + kFp8Tile - 1) / kFp8Tile; }
    BK_HD int64_t column_tiles() const { return (columns + kFp8Tile - 1) / kFp8Tile; }
    BK_HD Fp8Scales transposed() const { return {scaling, columns, rows}; }
    BK_HD int64_t count() const {
        switch (scaling) {
            case Fp8Scaling::kTensor: return 1;
            case Fp8Scaling::kRows: return rows;
            case Fp8Scaling::kGroups: return rows * column_tiles();
            default: return row_tiles() * column_tiles();
        }
    }
    BK_HD int64_t at(int64_t row, int64_t column) const {
        switch (scaling) {
            case Fp8Scaling::kTensor: return 0;
            case Fp8Scaling::kRows: return row;
            case Fp8Scaling::kGroups: return row * column_tiles() + column / kFp8Tile;
            default: return row / kFp8Tile * column_tiles() + column / kFp8Tile;
        }
    }
    // Whether scales need the largest magnitudes of other tiles.
    BK_HD bool is_global() const { return scaling == Fp8Scaling::kTensor || scaling == Fp8Scaling::kRows; }
};

BK_HD float finite_magnitude(float x) {
    const uint32_t u = bit_cast<uint32_t>(x) & 0x7fffffffu;
    return u < 0x7f800000u ? bit_cast<float>(u) : 0.0f;
}

// Adjacent elements of a row that a thread takes, and those of a row of a tile.
constexpr int kFp8Segment = 8, kFp8Segments = kFp8Tile / kFp8Segment;

// Memory of a tile: maxima of segments of rows, or codes on their way to the transpose; then maxima of rows and columns.
struct Fp8Scratch {
    static constexpr int kStageRows = 64, kPitch = kStageRows + 4;  // padding against bank conflicts
    union {
        float segments[kFp8Tile][kFp8Segments + 1];
        uint8_t stage[kFp8Tile][kPitch];
    };
    float rows[kFp8Tile], columns[kFp8Tile];  // maxima, then scales
};
static_assert(sizeof(Fp8Scratch) <= kTeamScratch, "the tile fits the scratch of a team");

template <class T>
struct Fp8Tile {
    Fp8Scales scales;
    bool is_e5m2, powers_of_two, is_aligned;
    const T* x;
    // Maxima of all tiles, of scaling of rows for each row or column of a tile; null if scales are not global.
    float *row_maxima, *column_maxima;

    BK_HD int64_t first_row(int64_t item) const { return item / scales.column_tiles() * kFp8Tile; }
    BK_HD int64_t first_column(int64_t item) const { return item % scales.column_tiles() * kFp8Tile; }

    // Segment `index` of a tile: its row, its first column and the elements there are.
    struct Segment {
        int64_t row, column, count;
    };
    BK_HD Segment segment(int64_t item, int index) const {
        const int64_t row = first_row(item) + index / kFp8Segments,
                      column = first_column(item) + index % kFp8Segments * kFp8Segment;
        const int64_t count = row < scales.rows && column < scales.columns ? scales.columns - column : 0;
        return {row, column, count < kFp8Segment ? count : kFp8Segment};
    }
    BK_HD void load_segment(float (&values)[kFp8Segment], const Segment& p) const {
        load_widened(values, x + p.row * scales.columns + p.column, p.count, is_aligned);
    }

    // Largest magnitudes of the rows of a tile, if wanted of its columns, and of the whole, which all threads get.
    BK_HD float find_maxima(const Team& team, int64_t item, bool of_columns) const {
        Fp8Scratch& memory = *static_cast<Fp8Scratch*>(team.scratch);
        float whole = 0.0f;
        for (int index = team.rank; index < kFp8Tile * kFp8Segments; index += team.size) {
            float values[kFp8Segment], largest = 0.0f;
            const Segment p = segment(item, index);
            if (p.count > 0) load_segment(values, p);
            for (int i = 0; i < kFp8Segment; ++i)
                if (i < p.count) largest = larger_magnitude(largest, finite_magnitude(values[i]));
            memory.segments[index / kFp8Segments][index % kFp8Segments] = largest;
            whole = larger_magnitude(whole, largest);
        }
        whole = team.largest(whole);
        team.sync();
        for (int r = team.rank; r < kFp8Tile; r += team.size) {
            float largest = 0.0f;
            for (int i = 0; i < kFp8Segments; ++i) largest = larger_magnitude(largest, memory.segments[r][i]);
            memory.rows[r] = largest;
        }
        if (of_columns)
            for (int c = team.rank; c < kFp8Tile; c += team.size) memory.columns[c] = column_maximum(item, c);
        team.sync();
        return whole;
    }

    BK_HD float scale_of(float largest) const {
        if (largest == 0.0f) return 1.0f;
        uint32_t bits = bit_cast<uint32_t>(quotient(largest, is_e5m2 ? 57344.0f : 448.0f));
        bits = bits < 0x00800000u ? 0x00800000u : bits;
        if (powers_of_two) bits = (bits + 0x7fffffu) & 0xff800000u;
        return bit_cast<float>(bits);
    }

    BK_HD uint8_t code_of(float x, float factor) const {
        const float y = bit_cast<uint32_t>(x) << 1 >= 0xff000000u ? bit_cast<float>(0x7fc00000u) : math::product(x, factor);
        return is_e5m2 ? float_to_fp8<e5m2>(y).bits : float_to_fp8<e4m3>(y).bits;
    }

private:
    BK_HD float column_maximum(int64_t item, int c) const {
        const int64_t column = first_column(item) + c, begin = first_row(item);
        const int64_t end = begin + kFp8Tile < scales.rows ? begin + kFp8Tile : scales.rows;
        float largest = 0.0f;
        if (column < scales.columns)
            for (int64_t r = begin; r < end; ++r)
                largest = larger_magnitude(largest, finite_magnitude(widen(x[r * scales.columns + column])));
        return largest;
    }
};

// First launch of global scales: maxima of each tile, of each row or column of it.
template <class T>
struct Fp8MaximaJob : Fp8Tile<T> {
    BK_HD void operator()(const Team& team, int64_t item) const {
        Fp8Scratch& memory = *static_cast<Fp8Scratch*>(team.scratch);
        const bool by_rows = this->scales.scaling == Fp8Scaling::kRows;
        const float whole = this->find_maxima(team, item, by_rows && this->column_maxima != nullptr);
        if (!by_rows) {
            if (team.rank == 0) this->row_maxima[item] = whole;
            return;
        }
        const int64_t row = this->first_row(item), column = this->first_column(item);
        for (int i = team.rank; i < kFp8Tile; i += team.size) {
            if (this->row_maxima != nullptr && row + i < this->scales.rows)
                this->row_maxima[(row + i) * this->scales.column_tiles() + column / kFp8Tile] = memory.rows[i];
            if (this->column_maxima != nullptr && column + i < this->scales.columns)
                this->column_maxima[(column + i) * this->scales.row_tiles() + row / kFp8Tile] = memory.columns[i];
        }
    }
};

// Codes of a tile; of global scales, after its maxima.
template <class T>
struct Fp8QuantizeJob : Fp8Tile<T> {
    static constexpr int kTransposeBytes = BK_CUDA ? 16 : 4;  // stored at once
    bool is_aligned_code, is_aligned_transpose;
    uint8_t *y, *y_t;  // either may be null
    float *scale, *scale_t;
    int64_t maxima;  // of the tensor's parts

    int64_t tiles() const { return this->scales.row_tiles() * this->scales.column_tiles(); }
    BK_HD void operator()(const Team& team, int64_t item) const {
        Fp8Scratch& memory = *static_cast<Fp8Scratch*>(team.scratch);
        set_scales(team, item, memory);
        if (y != nullptr) write_rows(team, item, memory);
        if (y_t != nullptr) write_transpose(team, item, memory);
    }

    // Whether the tile's row i has the first element of its scale.
    BK_HD static bool writes(const Fp8Scales& s, int64_t row, int64_t column, int i) {
        switch (s.scaling) {
            case Fp8Scaling::kTensor: return i == 0 && row == 0 && column == 0;
            case Fp8Scaling::kRows: return column == 0;
            case Fp8Scaling::kGroups: return true;
            default: return i == 0;
        }
    }

private:
    BK_HD static float largest_of(const float* maxima, int64_t count) {
        float largest = 0.0f;
        for (int64_t i = 0; i < count; ++i) largest = larger_magnitude(largest, maxima[i]);
        return largest;
    }

    // Replaces maxima in the scratch by scales, and writes those that this tile has to write.
    BK_HD void set_scales(const Team& team, int64_t item, Fp8Scratch& memory) const {
        const Fp8Scales& s = this->scales;
        const Fp8Scales across = s.transposed();
        const int64_t row = this->first_row(item), column = this->first_column(item);
        float whole = 0.0f;
        if (s.scaling == Fp8Scaling::kTensor) {
            for (int64_t i = team.rank; i < maxima; i += team.size) whole = larger_magnitude(whole, this->row_maxima[i]);
            whole = team.largest(whole);
        } else if (!s.is_global()) {
            whole = this->find_maxima(team, item, y_t != nullptr && s.scaling == Fp8Scaling::kGroups);
        }
        for (int i = team.rank; i < kFp8Tile; i += team.size) {
            float own = whole, own_t = whole;
            if (s.scaling == Fp8Scaling::kRows) {
                const bool has_row = y != nullptr && row + i < s.rows, has_column = y_t != nullptr && column + i < s.columns;
                own = has_row ? largest_of(this->row_maxima + (row + i) * s.column_tiles(), s.column_tiles()) : 0.0f;
                own_t = has_column ? largest_of(this->column_maxima + (column + i) * s.row_tiles(), s.row_tiles()) : 0.0f;
            } else if (s.scaling == Fp8Scaling::kGroups) {
                own = memory.rows[i];
                own_t = memory.columns[i];
            }
            const float row_scale = this->scale_of(own), column_scale = y_t == nullptr ? 1.0f : this->scale_of(own_t);
            memory.rows[i] = row_scale;
            memory.columns[i] = column_scale;
            if (y != nullptr && row + i < s.rows && writes(s, row, column, i)) scale[s.at(row + i, column)] = row_scale;
            if (y_t != nullptr && column + i < s.columns && writes(across, column, row, i))
                scale_t[across.at(column + i, row)] = column_scale;
        }
        team.sync();
    }

    BK_HD void write_rows(const Team& team, int64_t item, const Fp8Scratch& memory) const {
        for (int index = team.rank; index < kFp8Tile * kFp8Segments; index += team.size) {
            const typename Fp8Tile<T>::Segment p = this->segment(item, index);
            if (p.count <= 0) continue;
            float values[kFp8Segment];
            this->load_segment(values, p);
            const float factor = reciprocal(memory.rows[index / kFp8Segments]);
            uint8_t* const to = y + p.row * this->scales.columns + p.column;
            Vec<uint8_t, kFp8Segment> codes;
            for (int i = 0; i < kFp8Segment; ++i) codes.lane[i] = this->code_of(values[i], factor);
            if (is_aligned_code && p.count == kFp8Segment) {
                store(to, codes);
            } else {
                for (int i = 0; i < kFp8Segment; ++i)
                    if (i < p.count) to[i] = codes.lane[i];
            }
        }
    }

    // Transposes halves of the tile's rows through the scratch.
    BK_HD void write_transpose(const Team& team, int64_t item, Fp8Scratch& memory) const {
        constexpr int kRows = Fp8Scratch::kStageRows, kBytes = kTransposeBytes;
        const Fp8Scales& s = this->scales;
        const int64_t column = this->first_column(item);
        for (int64_t row = this->first_row(item); row < this->first_row(item) + kFp8Tile; row += kRows) {
            if (row >= s.rows) break;
            team.sync();  // the stage has been read
            for (int i = team.rank; i < kRows * kFp8Tile; i += team.size) {
                const int r = i / kFp8Tile, c = i % kFp8Tile;
                if (row + r < s.rows && column + c < s.columns)
                    memory.stage[c][r] =
                        this->code_of(widen(this->x[(row + r) * s.columns + column + c]), reciprocal(memory.columns[c]));
            }
            team.sync();
            for (int i = team.rank; i < kFp8Tile * kRows / kBytes; i += team.size) {
                const int c = i / (kRows / kBytes), r = i % (kRows / kBytes) * kBytes;
                if (column + c >= s.columns || row + r >= s.rows) continue;
                uint8_t* const to = y_t + (column + c) * s.rows + row + r;
                if (is_aligned_transpose && row + r + kBytes <= s.rows) {
                    store(to, load<kBytes>(&memory.stage[c][r]));
                } else {
                    for (int b = 0; b < kBytes && row + r + b < s.rows; ++b) to[b] = memory.stage[c][r + b];
                }
            }
        }
    }
};

constexpr int64_t kFp8TileBytes = int64_t{kFp8Tile} * kFp8Tile * 4;

template <class T>
Status run_fp8_maxima(const Launch& launch, const Fp8QuantizeJob<T>& job) {
    return run_teams(launch, job.tiles(), kFp8TileBytes, Fp8MaximaJob<T>{job}, true);
}

// Finds maxima where scales are global, and runs the job, or on a GPU its like.
template <class T>
Status run_fp8_quantize(const Launch& launch, const Fp8QuantizeJob<T>& job);

inline Status check_fp8(int32_t rows, int32_t columns, int32_t scaling) {
    BK_TRY(require_non_negative({{"rows", rows}, {"columns", columns}}));
    return require_member("fp8_scaling", scaling, 4);
}

template <class T, class U>
struct QuantizeFp8 {
    int32_t rows, columns, fp8_scaling, powers_of_two;

    Fp8Scales scales() const { return {static_cast<Fp8Scaling>(fp8_scaling), rows, columns}; }
    int64_t scale_count() const { return scales().count(); }
    int64_t scale_count_t() const { return scales().transposed().count(); }

    Work work() const { return all_or_none(std::min(rows, columns)); }
    size_t workspace_size() const {
        Carver carver;
        take_maxima(&carver);
        return carver.bytes();
    }
    Status check() const {
        BK_TRY(check_fp8(rows, columns, fp8_scaling));
        return require_member("powers_of_two", powers_of_two, 2);
    }
    Status run(const T* x, U* y, float* scale, U* y_t, float* scale_t, const Launch& launch) const {
        if (y == nullptr && y_t == nullptr) return fail(Status::kInvalidProblem, "y and y_t are NULL");
        if (y != nullptr && scale == nullptr) return fail(Status::kInvalidProblem, "scale is NULL, but y is not");
        if (y_t != nullptr && scale_t == nullptr) return fail(Status::kInvalidProblem, "scale_t is NULL, but y_t is not");
        const bool aligned = columns % kVectorBytes == 0 && is_aligned(x, kVectorBytes);
        Fp8Tile<T> tile{scales(), std::is_same_v<U, e5m2>, powers_of_two != 0, aligned, x, nullptr, nullptr};
        if (scales().is_global()) {
            if (!workspace_holds(launch, workspace_size()))
                return fail(Status::kWorkspaceTooSmall, "workspace has %zu bytes, must have %zu",
                            launch.workspace == nullptr ? size_t{0} : launch.workspace_bytes, workspace_size());
            Carver carver(launch.workspace);
            const Maxima maxima = take_maxima(&carver);
            tile.row_maxima = maxima.rows;
            if (scales().scaling == Fp8Scaling::kRows && y_t != nullptr) tile.column_maxima = maxima.columns;
        }
        constexpr int kTransposed = Fp8QuantizeJob<T>::kTransposeBytes;
        const Fp8QuantizeJob<T> job{tile,
                                    columns % kFp8Segment == 0 && is_aligned(y, kFp8Segment),
                                    rows % kTransposed == 0 && is_aligned(y_t, kTransposed),
                                    reinterpret_cast<uint8_t*>(y),
                                    reinterpret_cast<uint8_t*>(y_t),
                                    scale,
                                    scale_t,
                                    scales().row_tiles() * scales().column_tiles()};
        return run_fp8_quantize(launch, job);
    }

private:
    // Largest magnitudes of tiles, or of each row and column of them.
    struct Maxima {
        float *rows, *columns;
    };
    Maxima take_maxima(Carver* carver) const {
        const Fp8Scales s = scales();
        if (!s.is_global() || std::min(rows, columns) <= 0) return {nullptr, nullptr};
        if (s.scaling == Fp8Scaling::kTensor) return {carver->take<float>(s.row_tiles() * s.column_tiles()), nullptr};
        float* const of_rows = carver->take<float>(s.rows * s.column_tiles());
        return {of_rows, carver->take<float>(s.columns * s.row_tiles())};
    }
};

template <class T>
struct Fp8DequantizeJob {
    static constexpr int64_t kSegments = 1024;  // of a team
    Fp8Scales scales;
    bool is_e5m2, has_aligned_codes, is_aligned;
    const uint8_t* codes;
    const float* scale;
    T* y;

    BK_HD void operator()(const Team& team, int64_t item) const {
        const int64_t segments = (scales.columns + kFp8Segment - 1) / kFp8Segment, count = scales.rows * segments;
        const int64_t end = (item + 1) * kSegments < count ? (item + 1) * kSegments : count;
        for (int64_t i = item * kSegments + team.rank; i < end; i += team.size) {
            const int64_t row = i / segments, column = i % segments * kFp8Segment, at = row * scales.columns + column;
            const float own = scale[scales.at(row, column)];
            uint8_t bytes[kFp8Segment];
            load_bytes(bytes, codes + at, scales.columns - column, has_aligned_codes);
            float values[kFp8Segment];
            for (int e = 0; e < kFp8Segment; ++e)
                values[e] = math::product(is_e5m2 ? fp8_to_float(e5m2{bytes[e]}) : fp8_to_float(e4m3{bytes[e]}), own);
            store_rounded(y + at, values, scales.columns - column, is_aligned);
        }
    }
};

template <class T, class U>
struct DequantizeFp8 {
    int32_t rows, columns, fp8_scaling;

    Fp8Scales scales() const { return {static_cast<Fp8Scaling>(fp8_scaling), rows, columns}; }
    int64_t scale_count() const { return scales().count(); }

    Work work() const { return all_or_none(std::min(rows, columns)); }
    Status check() const { return check_fp8(rows, columns, fp8_scaling); }
    Status run(const U* x, const float* scale, T* y, const Launch& launch) const {
        using Job = Fp8DequantizeJob<T>;
        const bool whole = columns % kFp8Segment == 0;
        const Job job{scales(),
                      std::is_same_v<U, e5m2>,
                      whole && is_aligned(x, kFp8Segment),
                      whole && is_aligned(y, kVectorBytes),
                      reinterpret_cast<const uint8_t*>(x),
                      scale,
                      y};
        const int64_t segments = int64_t{rows} * ceil_div<int64_t>(columns, kFp8Segment);
        return run_teams(launch, ceil_div(segments, Job::kSegments), Job::kSegments * 16, job);
    }
};

}  // namespace bk::floats

#if BK_CUDA
#include "quantize/floats/fp8_blocks_cuda.cuh"
#else
#include "quantize/floats/fp8_blocks_cpu.h"
#endif
