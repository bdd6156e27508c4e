// Products of matrices on the CPU: factors are packed, block after block, and multiplied by the loops of
// gemm/block_kernel_cpu.h.
//
// With a workspace, A and B are packed in parts of a size for the caches, which all threads share: some rows of A and columns
// of B, some hundred terms deep, and the sums of their results lie there too until all terms are in. Without one, and where a
// product is small, a thread packs what it needs onto its stack; but the last rows of D lend their place for parts as with a
// workspace while those before them are computed. The order of additions depends on k alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/abi/launch.h"
#include "gemm/block_kernel_cpu.h"

namespace bk {

// Where a factor lies: lines of A's rows or B's columns, in bytes. With a null base it lies in no simple way.
struct FactorBytes {
    const char* base;
    int64_t element, line, k, step;
};

// Rows of D, one behind another without gaps, that nothing is read of: until a row is stored its bytes may hold anything. Null
// where they may not.
struct SpareRows {
    char* first = nullptr;
    int64_t bytes = 0, step = 0;

    template <class E>
    static SpareRows of(E* d, int64_t pitch, int64_t length, int64_t step = 0) {
        constexpr int64_t kSize = sizeof(E);
        if (pitch != length) return {};
        return {reinterpret_cast<char*>(d), length * kSize, step * kSize};
    }
};

// A product, of which these functions of `problem` know elements and what becomes of sums. `depth` terms from k are packed, k a
// multiple of 8; rows and columns behind the last of the matrix are zeros.
struct BlockedMatmul {
    const BlockKernel* kernel;
    int64_t m, n, k, batch;
    bool a_is_turned;  // in panels
    bool a_is_units;   // elements of A along k are units as they lie
    FactorBytes a, b;  // to be fetched ahead
    SpareRows spare;
    const void* problem;
    void (*pack_rows)(const void* problem, int64_t g, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to);
    void (*pack_columns)(const void* problem, int64_t g, int64_t j, int64_t columns, int64_t k, int64_t depth, void* to);
    void (*store)(const void* problem, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns, const void* sums);
};

// 0 for a product that has no use for it.
size_t blocked_workspace(const BlockKernel& kernel, int64_t m, int64_t n, int64_t k);

Status multiply_blocked(const Launch& launch, const BlockedMatmul& p);

}  // namespace bk
