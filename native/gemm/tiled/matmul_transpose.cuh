// SPDX-License-Identifier: Apache-2.0
// Transposes 8-bit A and B to K-major in the workspace: 8-bit wgmma takes nothing else, and older tensor cores would
// gather bytes one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/copy/copies.h"
#include "gemm/sm90/matmul_wgmma.h"

namespace bk {

template <class T>
constexpr bool kMayTranspose = kHasWgmma<T> && sizeof(matmul_element_t<T>) == 1;

// Whether an operand of such a GEMM is transposed, given enough workspace.
template <class T>
bool needs_transpose(const MatmulShape& s, int arch) {
    return kMayTranspose<T> && !(s.k_major.a && s.k_major.b) && !s.is_gated && s.batch > 0 && suits_wgmma<T>(s, arch);
}

// K-major copies of the operands in a workspace at `base`; their pitch is a multiple of 16 bytes.
template <class T>
struct TransposedOperands {
    using E = matmul_element_t<T>;
    E *a = nullptr, *b = nullptr;
    int64_t pitch = 0;
    size_t bytes = 0;

    TransposedOperands(int64_t m, int64_t n, int64_t k, int64_t batch, const KMajor& k_major, void* base) {
        Carver carver(base);
        pitch = ceil_div<int64_t>(k, 16) * 16;
        if (!k_major.a) a = carver.take<E>(batch * m * pitch);
        if (!k_major.b) b = carver.take<E>(batch * n * pitch);
        bytes = carver.bytes();
    }

    // Copies the operands and points the GEMM to the copies.
    Status run(const Launch& launch, Matmul<T>* p) const {
        if (a != nullptr) {
            BK_TRY(copy(launch, *p, p->m, p->a, p->a_at.row, p->a_at.column, p->a_at.step, a));
            p->a = a;
            p->a_at = {pitch, 1, p->a_at.step == 0 ? 0 : p->m * pitch};
        }
        if (b != nullptr) {
            BK_TRY(copy(launch, *p, p->n, p->b, p->b_at.column, p->b_at.row, p->b_at.step, b));
            p->b = b;
            p->b_at = {1, pitch, p->b_at.step == 0 ? 0 : p->n * pitch};
        }
        return Status::kOk;
    }

private:
    Status copy(const Launch& launch, const Matmul<T>& p, int64_t rows, const E* from, int64_t row_stride, int64_t k_stride,
                int64_t step, E* to) const {
        CopyLayout layout;
        layout.append(step == 0 ? 1 : p.batch, {rows * pitch, step});
        layout.append(rows, {pitch, row_stride});
        layout.append(p.k, {1, k_stride});
        return copy_strided(launch, layout, sizeof(E), from, to);
    }
};

}  // namespace bk
