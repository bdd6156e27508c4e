// Transposes 8-bit A and B to K-major in the workspace: 8-bit wgmma takes nothing else, and older tensor cores would
// gather bytes one by one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/pointwise/copies.h"
#include "gemm/matmul_group.h"

namespace bk {

template <class T>
constexpr bool kMayTurn = kHasGroupKernels<T> && sizeof(matmul_element_t<T>) == 1;

// Whether an operand of such a GEMM is transposed, given enough workspace.
template <class T>
bool is_turned(int64_t m, int64_t n, int64_t k, int64_t batch, const AlongTerms& along) {
    return kMayTurn<T> && !(along.a && along.b) && batch > 0 && is_for_groups<T>(m, n, k, batch, false);
}

// K-major copies of the operands in a workspace at `base`; their pitch is a multiple of 16 bytes.
template <class T>
struct TurnedFactors {
    using E = matmul_element_t<T>;
    E *a = nullptr, *b = nullptr;
    int64_t pitch = 0;
    size_t bytes = 0;

    TurnedFactors(int64_t m, int64_t n, int64_t k, int64_t batch, const AlongTerms& along, void* base) {
        if (!is_turned<T>(m, n, k, batch, along)) return;
        Carver carver(base);
        pitch = ceil_div<int64_t>(k, 16) * 16;
        if (!along.a) a = carver.take<E>(batch * m * pitch);
        if (!along.b) b = carver.take<E>(batch * n * pitch);
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
    Status copy(const Launch& launch, const Matmul<T>& p, int64_t lines, const E* from, int64_t line, int64_t term,
                int64_t step, E* to) const {
        CopyLayout layout;
        layout.append(step == 0 ? 1 : p.batch, {lines * pitch, step});
        layout.append(lines, {pitch, line});
        layout.append(p.k, {1, term});
        return copy_strided(launch, layout, sizeof(E), from, to);
    }
};

}  // namespace bk
