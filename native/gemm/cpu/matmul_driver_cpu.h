// SPDX-License-Identifier: Apache-2.0
// Blocked GEMM on the CPU, after BLIS: operands are packed into panels and multiplied by the microkernel of
// gemm/cpu/microkernel_cpu.h.
//
// With a workspace all threads share cache-sized packed blocks of A (MC x KC) and B (KC x NC), and partial sums stay in
// it until k is complete. Without one, and for small problems, each thread packs onto its stack; if D is contiguous,
// its last rows serve as the workspace while those before them are computed. The order of additions depends on k and KC,
// which is that of the stack without a workspace, and always if `fixes_order` says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "gemm/cpu/microkernel_cpu.h"

namespace bk {

// Strides of an operand in bytes, for prefetching; `stride` lies between rows of A or columns of B. A null base means
// no simple layout.
struct OperandStrides {
    const char* base;
    int64_t element, stride, k, step;
};

// Contiguous rows of D that the op does not read: until a row is stored its bytes may hold scratch. Null if not
// allowed.
struct ScratchRows {
    char* first = nullptr;
    int64_t bytes = 0, step = 0;

    template <class E>
    static ScratchRows of(E* d, int64_t pitch, int64_t length, int64_t step = 0) {
        constexpr int64_t kSize = sizeof(E);
        if (pitch != length) return {};
        return {reinterpret_cast<char*>(d), length * kSize, step * kSize};
    }
};

// A GEMM whose elements `problem` packs and whose sums it stores. `depth` K elements from k are packed, k a multiple of
// 8; rows and columns behind the last are zero-padded.
struct BlockedMatmul {
    const Microkernel* kernel;
    int64_t m, n, k, batch;
    bool a_is_m_major;        // panels of A have MR units for each k
    bool a_needs_no_packing;  // rows of A along k need no packing
    OperandStrides a, b;      // for prefetching
    ScratchRows scratch_rows;
    const void* problem;
    void (*pack_rows)(const void* problem, int64_t g, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to);
    void (*pack_columns)(const void* problem, int64_t g, int64_t j, int64_t columns, int64_t k, int64_t depth, void* to);
    void (*store)(const void* problem, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns, const void* sums);
    bool fixes_order = false;  // additions have the order of the stack's KC wherever operands are packed
};

// Returns 0 for a GEMM that does not use a workspace.
size_t blocked_workspace(const Microkernel& kernel, int64_t m, int64_t n, int64_t k, bool fixes_order = false);

Status multiply_blocked(const Launch& launch, const BlockedMatmul& p);

}  // namespace bk
