// Gated products on the CPU: the sums of a tile with both matrices of B, one after the other, in the order of a product of
// each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "gemm/epilogue.h"
#include "gemm/matmul_cpu.h"

namespace bk {

// d = act(z) gate of `columns` results from [i, j].
template <class T, class Sum>
BK_HD void store_gated_row(const Epilogue<T>& e, int64_t i, int64_t j, int64_t columns, const Sum* sums, const Sum* gates) {
    using S = matmul_scalar_t<T>;
    constexpr int64_t kMost = 64;
    alignas(64) S z[kMost], gate[kMost];
    for (int64_t first = 0; first < columns; first += kMost) {
        const int64_t count = std::min(columns - first, kMost), at = j + first;
        for (int64_t c = 0; c < count; ++c) {
            z[c] = e.alpha * static_cast<S>(sums[first + c]);
            gate[c] = e.alpha * static_cast<S>(gates[first + c]);
        }
        if (e.bias != nullptr)
            for (int64_t c = 0; c < count; ++c) z[c] += e.bias_of(at + c);
        if (e.gate_bias != nullptr)
            for (int64_t c = 0; c < count; ++c) gate[c] += Epilogue<T>::element_of(e.gate_bias[at + c]);
        if (e.z != nullptr) keep_span(e, z, count, e.z, i * e.z_at.row + at);
        if (e.gate_z != nullptr) keep_span(e, gate, count, e.gate_z, i * e.gate_z_at.row + at);
        if (e.activation != Activation::kNone) activate_span(e.activation, z, count);
        for (int64_t c = 0; c < count; ++c) z[c] *= gate[c];
        keep_span(e, z, count, e.d, i * e.d_at.row + at);
    }
}

template <class T, int kBytes>
__attribute__((noinline)) void compute_gated_tiles(const Matmul<T>& p, int64_t tile_rows, int64_t begin, int64_t end) {
    using Tile = MatmulTile<T, kBytes>;
    Tile tile;
    alignas(64) typename Tile::Sum sums[Tile::kRows][Tile::kColumns];
    Matmul<T> gate = p;
    gate.b = p.gate;
    const int64_t across = ceil_div<int64_t>(p.n, Tile::kColumns);
    for (int64_t t = begin; t < end; ++t) {
        const int64_t j0 = t % across * Tile::kColumns, i0 = t / across * tile_rows;
        const int64_t rows = std::min(p.m - i0, tile_rows), columns = std::min<int64_t>(p.n - j0, Tile::kColumns);
        run_fused<kBytes>([&] {
            sum_tile(tile, p, 0, i0, j0, rows, columns);
            memcpy(sums, tile.sums, sizeof(sums));
            sum_tile(tile, gate, 0, i0, j0, rows, columns);
        });
        run_unfused<kBytes>([&] {
            for (int64_t i = 0; i < rows; ++i) store_gated_row(p.epilogue, i0 + i, j0, columns, sums[i], tile.sums[i]);
        });
    }
}

template <class T, int kBytes>
void multiply_gated(const Matmul<T>& p) {
    using Tile = MatmulTile<T, kBytes>;
    const int64_t strips = ceil_div<int64_t>(p.n, Tile::kColumns), wanted = ceil_div<int64_t>(4 * thread_count(), strips);
    const int64_t blocks = ceil_div<int64_t>(ceil_div(p.m, wanted), Tile::kBlockRows);
    const int64_t tile_rows = std::min<int64_t>(Tile::kRows, blocks * Tile::kBlockRows);
    parallel_chunks(strips * ceil_div(p.m, tile_rows), grain_for(2 * tile_rows * Tile::kColumns * (p.k + 1)),
                    [&](int64_t begin, int64_t end) { compute_gated_tiles<T, kBytes>(p, tile_rows, begin, end); });
}

template <class T>
Status gated_matmul(const Launch&, const Matmul<T>& p) {
    switch (vector_bytes()) {
        case 64: multiply_gated<T, 64>(p); break;
        case 32: multiply_gated<T, 32>(p); break;
        default: multiply_gated<T, 16>(p);
    }
    return Status::kOk;
}

}  // namespace bk
