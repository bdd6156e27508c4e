// Gated products on the CPU: one product with the columns of both matrices of B in turn.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/epilogue.h"
#include "gemm/matmul_read_cpu.h"

namespace bk {

template <class T>
struct GatedReads {
    static constexpr Packing kPacking = kWidePacking<T>;
    using S = matmul_scalar_t<T>;
    const Matmul<T>& p;
    int64_t m, n, k;

    explicit GatedReads(const Matmul<T>& problem) : p(problem), m(p.m), n(2 * p.n), k(p.k) {}

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, S* to) const {
        read(p.a + i * p.a_at.row + first * p.a_at.column, p.a_at.column, depth, to);
    }
    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, S* to) const {
        read((j % 2 == 0 ? p.b : p.gate) + j / 2 * p.b_at.column + first * p.b_at.row, p.b_at.row, depth, to);
    }
    static BK_HD void read(const matmul_element_t<T>* from, int64_t step, int64_t depth, S* to) {
        if (step == 1)
            for (int64_t x = 0; x < depth; ++x) to[x] = MatmulArithmetic<T>::term(from[x]);
        else
            for (int64_t x = 0; x < depth; ++x) to[x] = MatmulArithmetic<T>::term(from[x * step]);
    }

    // d = act(z) gate. Blocks have an even number of columns.
    BK_HD void store(int64_t i, int64_t j, int64_t columns, const S* sums) const {
        constexpr int64_t kMost = 64;
        const Epilogue<T>& e = p.epilogue;
        alignas(64) S z[kMost], gate[kMost];
        const int64_t count = columns / 2, at = j / 2;
        for (int64_t c = 0; c < count; ++c) {
            z[c] = e.alpha * sums[2 * c];
            gate[c] = e.alpha * sums[2 * c + 1];
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
};

template <class T>
Status gated_matmul(const Launch& launch, const Matmul<T>& p) {
    return multiply_read(launch, GatedReads<T>(p));
}

}  // namespace bk
