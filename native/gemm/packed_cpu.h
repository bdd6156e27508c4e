// SPDX-License-Identifier: Apache-2.0
// GEMM of sub-byte elements on the CPU, in f32: the sums of a block are exact.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm/cpu/matmul_decode_cpu.h"
#include "gemm/packed.h"

namespace bk {

template <class T>
struct PackedProduct {
    static constexpr Packing kPacking = Packing::kF32Integer;
    static constexpr int kCount = kElementsPerByte<T>;
    const Matmul<T>& p;
    int64_t m, n, k;

    // Element i of a byte. Bits become 1 for 0 and -1 for 1, so that products of equal bits are 1, of different ones
    // -1.
    static BK_HD float element_value(T byte, int64_t i) {
        if constexpr (kIsNibbles<T>)
            return static_cast<float>(i % 2 == 0 ? low_nibble(byte) : high_nibble(byte));
        else
            return static_cast<float>(1 - (byte.bits >> (i % 8) & 1) * 2);
    }

    static BK_HD void unpack(const T* from, int64_t depth, float* to) {
        for (int64_t x = 0; x < depth / kCount; ++x)
            for (int i = 0; i < kCount; ++i) to[x * kCount + i] = element_value(from[x], i);
    }

    BK_HD void read_row(int64_t i, int64_t first, int64_t depth, float* to) const {
        unpack(p.a + i * p.a_at.row + first / kCount, depth, to);
    }

    BK_HD void read_column(int64_t j, int64_t first, int64_t depth, float* to) const {
        if (p.b_at.column != 0) return unpack(p.b + j * p.b_at.column + first / kCount, depth, to);
        const T* const from = p.b + first * p.b_at.row + j / kCount;
        for (int64_t x = 0; x < depth; ++x) to[x] = element_value(from[x * p.b_at.row], j);
    }

    BK_HD void store(int64_t i, int64_t j, int64_t columns, const double* sums) const {
        const Epilogue<T>& e = p.epilogue;
        if constexpr (kIsNibbles<T>) {
            constexpr int64_t kMost = 64;
            alignas(64) float z[kMost];
            for (int64_t first = 0; first < columns; first += kMost) {
                const int64_t count = std::min(columns - first, kMost), at = j + first;
                for (int64_t c = 0; c < count; ++c) z[c] = e.alpha * static_cast<float>(sums[first + c]);
                for (int64_t c = 0; e.c != nullptr && c < count; c += 2) {
                    float pair[2] = {z[c], z[c + 1]};
                    e.add_pair(pair, e.beta, e.c[i * e.c_at.row + (at + c) / 2]);
                    z[c] = pair[0];
                    z[c + 1] = pair[1];
                }
                if (e.bias != nullptr)
                    for (int64_t c = 0; c < count; ++c) z[c] += e.bias_of(at + c);
                if (e.activation != Activation::kNone) activate_span<float>(e.activation, z, count);
                T* const to = e.d + i * e.d_at.row + at / 2;
                for (int64_t c = 0; c < count; c += 2) to[c / 2] = e.stored_pair(z[c], z[c + 1]);
            }
        } else {
            int32_t* const to = e.d + i * e.d_at.row + j;
            for (int64_t c = 0; c < columns; ++c)
                to[c] = static_cast<int32_t>((k - static_cast<int64_t>(sums[c])) / 2);  // differing bits, out of k
        }
    }

    ScratchRows scratch_rows() const {
        const Epilogue<T>& e = p.epilogue;
        return e.c != nullptr ? ScratchRows{} : ScratchRows::of(e.d, e.d_at.row, kIsNibbles<T> ? n / 2 : n);
    }
};

template <class T>
Status packed_matmul(const Launch&, const Matmul<T>& p) {
    Matmul<T> subproblem = p;
    for (int64_t g = 0; g < p.batch; ++g) {
        subproblem.a = p.a + g * p.a_at.step;
        subproblem.b = p.b + g * p.b_at.step;
        subproblem.epilogue.d = p.epilogue.d + g * p.epilogue.d_at.step;
        if (p.epilogue.c != nullptr) subproblem.epilogue.c = p.epilogue.c + g * p.epilogue.c_at.step;
        BK_TRY(multiply_read(Launch{}, PackedProduct<T>{subproblem, p.m, p.n, p.k * kElementsPerByte<T>}));
    }
    return Status::kOk;
}

}  // namespace bk
