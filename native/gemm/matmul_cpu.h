// Products of matrices on the CPU: tiles of D, for each of which B is packed and converted as the sum goes on.
//
// A thread owns tiles of kRows x kColumns results. Along k it takes kDepth terms at a time: a panel of B, packed so that the
// innermost loop reads it one vector after another, and for every few rows of A, converted where they are not of the type of
// the arithmetic, a block of sums in vector registers. Sums of the block are added to those of the tile in `sums`. All of it
// lies on the stack, and the order of additions depends on k alone.
//
// Activations are applied by spans, compiled once (gemm/matmul_cpu.cpp). 8-bit integers are multiplied in f32, where a block's
// sum is exact (kDepth * 255^2 < 2^24), and added up in f64.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/vector_width_cpu.h"
#include "gemm/matmul.h"

namespace bk {

// z = act(z), the epilogue's.
void activate_span(Activation activation, float* z, int64_t count);
void activate_span(Activation activation, double* z, int64_t count);

// The arithmetic: Term of products and a block's sums, Sum of the tile's.
template <class T>
struct MatmulArithmetic {
    static constexpr bool kIsInteger = std::is_integral_v<matmul_element_t<T>>;
    using Term = std::conditional_t<kIsInteger, float, matmul_scalar_t<T>>;
    using Sum = std::conditional_t<kIsInteger, double, Term>;

    static BK_HD Term term(matmul_element_t<T> x) {
        if constexpr (std::is_same_v<T, tf32>) {
            const uint32_t u = bit_cast<uint32_t>(x), rounded = (u + 0x1000u) & 0xffffe000u;
            return bit_cast<float>((u & 0x7f800000u) == 0x7f800000u ? u : rounded);
        } else if constexpr (kIsInteger) {
            return static_cast<float>(static_cast<int32_t>(x));
        } else {
            return Epilogue<T>::element_of(x);
        }
    }
};

// Extents of tile and block for vectors of kBytes: a block's sums, a row of the panel and one factor fill the registers.
template <class T, int kBytes>
struct MatmulTile {
    using Term = typename MatmulArithmetic<T>::Term;
    using Sum = typename MatmulArithmetic<T>::Sum;
    typedef Term Vector __attribute__((vector_size(kBytes), aligned(16), may_alias));
    static constexpr int kLanes = kBytes / static_cast<int>(sizeof(Term));
    static constexpr int kBlockRows = kBytes == 64 ? 8 : 4;
    static constexpr int kVectors = kBytes == 16 ? 2 : 3;
    static constexpr int kColumns = kLanes * kVectors;
    static constexpr int kDepth = std::min(128, 6144 / (kColumns * static_cast<int>(sizeof(Term))) / 8 * 8);
    static constexpr int kRows = 6144 / (kColumns * static_cast<int>(sizeof(Sum))) / kBlockRows * kBlockRows;
    static_assert(!MatmulArithmetic<T>::kIsInteger || kDepth <= 256, "a block's sum is exact");

    alignas(64) Term panel[kDepth][kColumns];
    alignas(64) Term rows[kBlockRows][kDepth];
    alignas(64) Term block[kBlockRows][kColumns];
    alignas(64) Sum sums[kRows][kColumns];
};

// block[i][j] = sum over k of a[i][k] * panel[k][j], `a_row` and `a_k` apart.
template <class Tile, int kStep>
BK_HD void multiply_block(Tile& tile, int64_t depth, const typename Tile::Term* const (&a)[Tile::kBlockRows], int64_t step) {
    const int64_t a_k = kStep == 0 ? step : kStep;  // a constant where neighbours are multiplied
    using Vector = typename Tile::Vector;
    BK_FUSE_PRODUCTS
    Vector sum[Tile::kBlockRows][Tile::kVectors] = {};
    for (int64_t k = 0; k < depth; ++k) {
        Vector b[Tile::kVectors];
        for (int v = 0; v < Tile::kVectors; ++v) b[v] = *reinterpret_cast<const Vector*>(&tile.panel[k][v * Tile::kLanes]);
        for (int i = 0; i < Tile::kBlockRows; ++i)
            for (int v = 0; v < Tile::kVectors; ++v) sum[i][v] += a[i][k * a_k] * b[v];
    }
    for (int i = 0; i < Tile::kBlockRows; ++i)
        for (int v = 0; v < Tile::kVectors; ++v) *reinterpret_cast<Vector*>(&tile.block[i][v * Tile::kLanes]) = sum[i][v];
}

template <class T, class Tile>
BK_HD void pack_panel(Tile& tile, const matmul_element_t<T>* b, const MatrixStrides& at, int64_t depth, int64_t columns) {
    using Arithmetic = MatmulArithmetic<T>;
    using Term = typename Tile::Term;
    if (at.column == 1) {
        for (int64_t k = 0; k < depth; ++k) {
            const matmul_element_t<T>* const from = b + k * at.row;
            if (columns == Tile::kColumns)
                for (int64_t j = 0; j < Tile::kColumns; ++j) tile.panel[k][j] = Arithmetic::term(from[j]);
            else
                for (int64_t j = 0; j < Tile::kColumns; ++j)
                    tile.panel[k][j] = j < columns ? Arithmetic::term(from[j]) : Term(0);
        }
        return;
    }
    for (int64_t j = 0; j < Tile::kColumns; ++j) {
        if (j >= columns) {
            for (int64_t k = 0; k < depth; ++k) tile.panel[k][j] = Term(0);
            continue;
        }
        Term(&line)[Tile::kDepth] = tile.rows[0];
        const matmul_element_t<T>* const from = b + j * at.column;
        for (int64_t k = 0; k < depth; ++k) line[k] = Arithmetic::term(from[k]);
#pragma GCC unroll 4
        for (int64_t k = 0; k < depth; ++k) tile.panel[k][j] = line[k];
    }
}

// The sums of `rows` x `columns` results from [i0, j0] of matrix g.
template <class T, class Tile>
BK_HD void sum_tile(Tile& tile, const Matmul<T>& p, int64_t g, int64_t i0, int64_t j0, int64_t rows, int64_t columns) {
    using E = matmul_element_t<T>;
    using Term = typename Tile::Term;
    const E* const a = p.a + g * p.a_at.step + i0 * p.a_at.row;
    const E* const b = p.b + g * p.b_at.step + j0 * p.b_at.column;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < Tile::kColumns; ++j) tile.sums[i][j] = 0;
    for (int64_t k0 = 0; k0 < p.k; k0 += Tile::kDepth) {
        const int64_t depth = std::min<int64_t>(p.k - k0, Tile::kDepth);
        pack_panel<T>(tile, b + k0 * p.b_at.row, p.b_at, depth, columns);
        for (int64_t i = 0; i < rows; i += Tile::kBlockRows) {
            const int64_t count = std::min<int64_t>(rows - i, Tile::kBlockRows);
            const Term* row[Tile::kBlockRows];
            int64_t a_k = 1;
            for (int64_t r = 0; r < Tile::kBlockRows; ++r) {  // rows behind the last repeat it, and nobody looks at them
                const E* const from = a + (i + std::min(r, count - 1)) * p.a_at.row + k0 * p.a_at.column;
                if constexpr (std::is_same_v<T, Term>) {
                    row[r] = from;
                    a_k = p.a_at.column;
                } else {
                    if (p.a_at.column == 1)
                        for (int64_t k = 0; k < depth; ++k) tile.rows[r][k] = MatmulArithmetic<T>::term(from[k]);
                    else
                        for (int64_t k = 0; k < depth; ++k)
                            tile.rows[r][k] = MatmulArithmetic<T>::term(from[k * p.a_at.column]);
                    row[r] = tile.rows[r];
                }
            }
            if (a_k == 1)
                multiply_block<Tile, 1>(tile, depth, row, 1);
            else
                multiply_block<Tile, 0>(tile, depth, row, a_k);
            for (int64_t r = 0; r < count; ++r)
                for (int64_t j = 0; j < Tile::kColumns; ++j) tile.sums[i + r][j] += tile.block[r][j];
        }
    }
}

// z += factor * c over a row's part of `count`.
template <class T>
BK_HD void add_span(const Epilogue<T>& e, matmul_scalar_t<T>* z, int64_t count, matmul_scalar_t<T> factor,
                    const matmul_result_t<T>* from, int64_t at) {
    if constexpr (kMayBeWide<matmul_result_t<T>>)
        if (e.is_wide) {
            const float* const wide = reinterpret_cast<const float*>(from) + at;
            for (int64_t c = 0; c < count; ++c) z[c] += factor * wide[c];
            return;
        }
    for (int64_t c = 0; c < count; ++c) z[c] += factor * Epilogue<T>::element_of(from[at + c]);
}

template <class T>
BK_HD void keep_span(const Epilogue<T>& e, const matmul_scalar_t<T>* z, int64_t count, matmul_result_t<T>* to, int64_t at) {
    if constexpr (kMayBeWide<matmul_result_t<T>>)
        if (e.is_wide) {
            float* const wide = reinterpret_cast<float*>(to) + at;
            for (int64_t c = 0; c < count; ++c) wide[c] = z[c];
            return;
        }
    for (int64_t c = 0; c < count; ++c) to[at + c] = Epilogue<T>::stored(z[c]);
}

// The last steps of `columns` results from [i, j] of matrix g.
template <class T, class Sum>
BK_HD void store_row(const Epilogue<T>& e, int64_t g, int64_t i, int64_t j, int64_t columns, const Sum* sums) {
    using S = matmul_scalar_t<T>;
    constexpr int64_t kMost = 64;
    alignas(64) S z[kMost];
    for (int64_t first = 0; first < columns; first += kMost) {
        const int64_t count = std::min(columns - first, kMost), at = j + first;
        for (int64_t c = 0; c < count; ++c) {
            if constexpr (std::is_integral_v<S>)
                z[c] = bounded_sum(static_cast<int64_t>(sums[first + c]));
            else
                z[c] = e.alpha * static_cast<S>(sums[first + c]);
        }
        if constexpr (std::is_floating_point_v<S>) {
            if (e.row_scale != nullptr)
                for (int64_t c = 0; c < count; ++c) z[c] *= e.row_scale[i];
            if (e.column_scale != nullptr)
                for (int64_t c = 0; c < count; ++c) z[c] *= e.column_scale[at + c];
        }
        if (e.c != nullptr) add_span(e, z, count, e.beta, e.c, g * e.c_at.step + i * e.c_at.row + at);
        if (e.bias != nullptr)
            for (int64_t c = 0; c < count; ++c) z[c] += e.bias_of(at + c);
        if constexpr (std::is_floating_point_v<S>) {
            if (e.row_bias != nullptr)
                for (int64_t c = 0; c < count; ++c) z[c] += Epilogue<T>::element_of(e.row_bias[i]);
            if (e.z != nullptr) keep_span(e, z, count, e.z, g * e.z_at.step + i * e.z_at.row + at);
            if (e.activation != Activation::kNone) activate_span(e.activation, z, count);
            if (e.residual != nullptr)
                add_span(e, z, count, S(1), e.residual, g * e.residual_at.step + i * e.residual_at.row + at);
        }
        keep_span(e, z, count, e.d, g * e.d_at.step + i * e.d_at.row + at);
    }
}

// Tiles [begin, end) of the problem, those of one strip of rows after one another.
template <class T, int kBytes>
__attribute__((noinline)) void compute_tiles(const Matmul<T>& p, int64_t tile_rows, int64_t begin, int64_t end) {
    using Tile = MatmulTile<T, kBytes>;
    Tile tile;
    const int64_t across = ceil_div<int64_t>(p.n, Tile::kColumns), down = ceil_div(p.m, tile_rows);
    for (int64_t t = begin; t < end; ++t) {
        const int64_t j0 = t % across * Tile::kColumns, i0 = t / across % down * tile_rows, g = t / across / down;
        const int64_t rows = std::min(p.m - i0, tile_rows), columns = std::min<int64_t>(p.n - j0, Tile::kColumns);
        run_fused<kBytes>([&] { sum_tile(tile, p, g, i0, j0, rows, columns); });
        run_unfused<kBytes>([&] {
            for (int64_t i = 0; i < rows; ++i) store_row(p.epilogue, g, i0 + i, j0, columns, tile.sums[i]);
        });
    }
}

template <class T, int kBytes>
void multiply_with(const Matmul<T>& p) {
    using Tile = MatmulTile<T, kBytes>;
    // Lower tiles where there would not be a few for every thread; the order of additions stays.
    const int64_t strips = ceil_div<int64_t>(p.n, Tile::kColumns) * p.batch,
                  wanted = ceil_div<int64_t>(4 * thread_count(), strips);
    const int64_t blocks = ceil_div<int64_t>(ceil_div(p.m, wanted), Tile::kBlockRows);
    const int64_t tile_rows = std::min<int64_t>(Tile::kRows, blocks * Tile::kBlockRows);
    const int64_t products = tile_rows * Tile::kColumns * (p.k + 1);
    parallel_chunks(strips * ceil_div(p.m, tile_rows), grain_for(products),
                    [&](int64_t begin, int64_t end) { compute_tiles<T, kBytes>(p, tile_rows, begin, end); });
}

// --- few rows ---

// Reading B once bounds products of so few rows: it is not packed. Integers, whose sums in f32 have to be short, are.
constexpr int64_t kThinRows = 8;

template <class T>
constexpr bool kHasThinLoops = !std::is_integral_v<matmul_element_t<T>>;

// Results of a strip while the rows of B go by, four at a time.
template <class T, int64_t kStrip>
BK_HD void sum_across(const Matmul<T>& p, int64_t g, int64_t j0, int64_t columns, matmul_scalar_t<T> (*sums)[kStrip]) {
    BK_FUSE_PRODUCTS
    using Arithmetic = MatmulArithmetic<T>;
    using S = matmul_scalar_t<T>;
    const auto* const a = p.a + g * p.a_at.step;
    for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < columns; ++j) sums[i][j] = 0;
    for (int64_t k = 0; k < p.k; k += 4) {
        const auto* const b = p.b + g * p.b_at.step + k * p.b_at.row + j0;
        const int64_t rows = std::min<int64_t>(p.k - k, 4);
        for (int64_t i = 0; i < p.m; ++i) {
            S* BK_RESTRICT const sum = sums[i];
            S factor[4] = {};
            for (int64_t r = 0; r < rows; ++r) factor[r] = Arithmetic::term(a[i * p.a_at.row + (k + r) * p.a_at.column]);
            if (rows == 4) {
                const auto *const b1 = b + p.b_at.row, *const b2 = b1 + p.b_at.row, *const b3 = b2 + p.b_at.row;
                for (int64_t j = 0; j < columns; ++j)
                    sum[j] += (factor[0] * Arithmetic::term(b[j]) + factor[1] * Arithmetic::term(b1[j])) +
                              (factor[2] * Arithmetic::term(b2[j]) + factor[3] * Arithmetic::term(b3[j]));
            } else {
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t j = 0; j < columns; ++j) sum[j] += factor[r] * Arithmetic::term(b[r * p.b_at.row + j]);
            }
        }
    }
}

// Each result a sum along k, in 32 parts.
template <class T, int64_t kStrip>
BK_HD void sum_along(const Matmul<T>& p, int64_t g, int64_t j0, int64_t columns, matmul_scalar_t<T> (*sums)[kStrip]) {
    BK_FUSE_PRODUCTS
    using Arithmetic = MatmulArithmetic<T>;
    using S = matmul_scalar_t<T>;
    constexpr int64_t kParts = 32;
    const auto* const a = p.a + g * p.a_at.step;
    for (int64_t j = 0; j < columns; ++j) {
        const auto* const b = p.b + g * p.b_at.step + (j0 + j) * p.b_at.column;
        alignas(64) S part[kThinRows][kParts] = {}, term[kParts];
        int64_t k = 0;
        for (; k + kParts <= p.k; k += kParts) {
            for (int64_t l = 0; l < kParts; ++l) term[l] = Arithmetic::term(b[k + l]);
            for (int64_t i = 0; i < p.m; ++i) {
                const auto* const row = a + i * p.a_at.row + k;
                for (int64_t l = 0; l < kParts; ++l) part[i][l] += Arithmetic::term(row[l]) * term[l];
            }
        }
        for (int64_t i = 0; i < p.m; ++i) {
            const auto* const row = a + i * p.a_at.row;
            for (int64_t rest = k; rest < p.k; ++rest)
                part[i][rest - k] += Arithmetic::term(row[rest]) * Arithmetic::term(b[rest]);
            for (int64_t half = kParts / 2; half > 0; half /= 2)
                for (int64_t l = 0; l < half; ++l) part[i][l] += part[i][l + half];
            sums[i][j] = part[i][0];
        }
    }
}

// Strips [begin, end) of the batch.
template <class T, int kBytes>
__attribute__((noinline)) void compute_strips(const Matmul<T>& p, int64_t begin, int64_t end) {
    using S = matmul_scalar_t<T>;
    constexpr int64_t kStrip = 128;
    alignas(64) S sums[kThinRows][kStrip];
    const int64_t strips = ceil_div(p.n, kStrip);
    for (int64_t t = begin; t < end; ++t) {
        const int64_t g = t / strips, j0 = t % strips * kStrip, columns = std::min(p.n - j0, kStrip);
        run_fused<kBytes>([&] {
            if (p.b_at.column == 1)
                sum_across(p, g, j0, columns, sums);
            else
                sum_along(p, g, j0, columns, sums);
        });
        run_unfused<kBytes>([&] {
            for (int64_t i = 0; i < p.m; ++i) store_row(p.epilogue, g, i, j0, columns, sums[i]);
        });
    }
}

template <class T, int kBytes>
void multiply_by_width(const Matmul<T>& p) {
    if constexpr (kHasThinLoops<T>) {
        const bool is_along = p.b_at.row == 1 && p.a_at.column == 1;
        if (p.m <= kThinRows && (is_along || p.b_at.column == 1)) {
            const int64_t bytes = 128 * (p.k + 1) * static_cast<int64_t>(sizeof(matmul_element_t<T>));
            return parallel_chunks(ceil_div<int64_t>(p.n, 128) * p.batch, grain_for(bytes),
                                   [&](int64_t begin, int64_t end) { compute_strips<T, kBytes>(p, begin, end); });
        }
    }
    multiply_with<T, kBytes>(p);
}

template <class T>
void multiply(const Matmul<T>& p) {
    switch (vector_bytes()) {
        case 64: return multiply_by_width<T, 64>(p);
        case 32: return multiply_by_width<T, 32>(p);
        default: return multiply_by_width<T, 16>(p);
    }
}

// Groups one after another. Rows before the first, and behind the last, are groups without terms.
template <class T>
void multiply_groups(const Matmul<T>& p) {
    const bool of_rows = p.grouped == Grouped::kRows;
    const int64_t size = of_rows ? p.m : p.k, first = of_rows ? -1 : 0, last = of_rows ? p.batch : p.batch - 1;
    for (int64_t g = first; g <= last; ++g) {
        const bool has_terms = g >= 0 && g < p.batch;
        const int64_t begin = g < 0 ? 0 : group_offset(p.offsets, g, size);
        const int64_t end = g == p.batch ? size : group_offset(p.offsets, g + 1, size),
                      count = std::max<int64_t>(end - begin, 0);
        if (of_rows && count == 0) continue;
        Matmul<T> part = p;
        part.grouped = Grouped::kNot;
        part.batch = 1;
        part.a += begin * (of_rows ? p.a_at.row : p.a_at.column);
        if (of_rows) {
            part.m = count;
            part.k = has_terms ? p.k : 0;
            if (has_terms) part.b += g * p.b_at.step;
            part.epilogue.d += begin * p.epilogue.d_at.row;
            if (part.epilogue.c != nullptr) part.epilogue.c += begin * p.epilogue.c_at.row;
        } else {
            part.k = count;
            part.b += begin * p.b_at.row;
            part.epilogue.d += g * p.epilogue.d_at.step;
            if (part.epilogue.c != nullptr) part.epilogue.c += g * p.epilogue.c_at.step;
        }
        multiply(part);
    }
}

template <class T>
Status matmul(const Launch&, const Matmul<T>& p) {
    if (p.grouped == Grouped::kNot)
        multiply(p);
    else
        multiply_groups(p);
    return Status::kOk;
}

template <class T>
size_t matmul_workspace(int64_t, int64_t, int64_t, int64_t, bool, bool, Backend) {
    return 0;
}

template <class T>
Status require_backend(Backend backend, int64_t, int64_t, int64_t, int64_t, bool, bool) {
    if (backend == Backend::kAny || backend == Backend::kOwn) return Status::kOk;
    return fail(Status::kUnsupported, "backend is %d, but cuBLASLt serves the CUDA library alone", static_cast<int>(backend));
}

}  // namespace bk
