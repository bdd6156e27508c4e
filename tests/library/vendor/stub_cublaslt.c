/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libcublasLt: computes products of f32 and f64 by the descriptors of its C interface, column-major as it is.
 * Calls are printed to standard output. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct layout {
    int64_t type, rows, columns, pitch, count, offset;
};
struct matmul {
    int64_t compute, scale, trans_a, trans_b, epilogue;
    const void* bias;
};
struct preference {
    int64_t workspace, reductions, alignment;
};

int stub_refusing = 0; /* what find_algo answers */
int stub_failing = 0;  /* what matmul answers */

size_t cublasLtGetVersion(void) { return 130000; }
int cublasLtCreate(void** out) {
    *out = malloc(1);
    return 0;
}
int cublasLtDestroy(void* handle) {
    free(handle);
    return 0;
}

int cublasLtMatrixLayoutInit_internal(struct layout* at, size_t size, int type, uint64_t rows, uint64_t columns,
                                      int64_t pitch) {
    if (size < 14 * sizeof(uint64_t)) return 3;
    *at = (struct layout){type, (int64_t)rows, (int64_t)columns, pitch, 1, 0};
    return pitch < (int64_t)rows ? 7 : 0;
}

int cublasLtMatrixLayoutSetAttribute(struct layout* at, int attribute, const void* value, size_t size) {
    if (attribute == 5 && size == 4)
        at->count = *(const int32_t*)value;
    else if (attribute == 6 && size == 8)
        at->offset = *(const int64_t*)value;
    else
        return 7;
    return 0;
}

int cublasLtMatmulDescInit_internal(struct matmul* of, size_t size, int compute, int scale) {
    if (size < 32 * sizeof(uint64_t)) return 3;
    *of = (struct matmul){compute, scale, 0, 0, 1, NULL};
    return 0;
}

int cublasLtMatmulDescSetAttribute(struct matmul* of, int attribute, const void* value, size_t size) {
    if (attribute == 3 && size == 4)
        of->trans_a = *(const int32_t*)value;
    else if (attribute == 4 && size == 4)
        of->trans_b = *(const int32_t*)value;
    else if (attribute == 7 && size == 4)
        of->epilogue = *(const uint32_t*)value;
    else if (attribute == 8 && size == sizeof(void*))
        of->bias = *(const void* const*)value;
    else
        return 7;
    return 0;
}

int cublasLtMatmulPreferenceInit_internal(struct preference* of, size_t size) {
    if (size < 12 * sizeof(uint64_t)) return 3;
    *of = (struct preference){0, 7, 256};
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(struct preference* of, int attribute, const void* value, size_t size) {
    if (attribute == 1 && size == 8)
        of->workspace = *(const int64_t*)value;
    else if (attribute == 3 && size == 4)
        of->reductions = *(const uint32_t*)value;
    else if (attribute >= 5 && attribute <= 8 && size == 4)
        of->alignment = *(const uint32_t*)value;
    else
        return 7;
    return 0;
}

struct heuristic {
    uint64_t algo[8];
    size_t workspace;
    int32_t state;
    float waves;
    int32_t reserved[4];
};

int cublasLtMatmulAlgoGetHeuristic(void* handle, struct matmul* of, struct layout* a, struct layout* b, struct layout* c,
                                   struct layout* d, struct preference* preference, int most, struct heuristic* found,
                                   int* count) {
    (void)handle, (void)of, (void)a, (void)b, (void)c, (void)d;
    printf("heuristic workspace %lld reductions %lld alignment %lld\n", (long long)preference->workspace,
           (long long)preference->reductions, (long long)preference->alignment);
    *count = most < 1 || stub_refusing ? 0 : 1;
    if (*count == 1) *found = (struct heuristic){{42}, (size_t)preference->workspace, 0, 1, {0}};
    return stub_refusing;
}

static double element(const void* data, int64_t type, int64_t i) {
    return type == 1 ? ((const double*)data)[i] : ((const float*)data)[i];
}

/* [i, j] of op(matrix g) */
static double of_matrix(const void* data, const struct layout* at, int64_t is_transposed, int64_t g, int64_t i, int64_t j) {
    return element(data, at->type, g * at->offset + (is_transposed ? i * at->pitch + j : j * at->pitch + i));
}

int cublasLtMatmul(void* handle, struct matmul* of, const void* alpha, const void* a, struct layout* a_at, const void* b,
                   struct layout* b_at, const void* beta, const void* c, struct layout* c_at, void* d, struct layout* d_at,
                   const uint64_t* algo, void* workspace, size_t workspace_bytes, void* stream) {
    (void)handle, (void)stream;
    printf("matmul type %lld compute %lld epilogue %lld workspace %zu%s\n", (long long)d_at->type, (long long)of->compute,
           (long long)of->epilogue, workspace_bytes, (uintptr_t)workspace % 256 ? " misaligned" : "");
    if (stub_failing) return stub_failing;
    const int64_t m = d_at->rows, n = d_at->columns, k = of->trans_a ? a_at->rows : a_at->columns, type = d_at->type;
    if (algo[0] != 42 || of->scale != type || (of->trans_a ? a_at->columns : a_at->rows) != m ||
        (of->trans_b ? b_at->rows : b_at->columns) != n || (of->trans_b ? b_at->columns : b_at->rows) != k || c_at->rows != m ||
        c_at->columns != n || a_at->count != d_at->count || b_at->count != d_at->count || c_at->count != d_at->count)
        return 7;
    const double scale = element(alpha, type, 0), share = element(beta, type, 0);
    for (int64_t g = 0; g < d_at->count; ++g)
        for (int64_t j = 0; j < n; ++j)
            for (int64_t i = 0; i < m; ++i) {
                double z = 0;
                for (int64_t l = 0; l < k; ++l)
                    z += of_matrix(a, a_at, of->trans_a, g, i, l) * of_matrix(b, b_at, of->trans_b, g, l, j);
                z *= scale;
                if (share != 0) z += share * of_matrix(c, c_at, 0, g, i, j);
                if (of->epilogue & 4) z += element(of->bias, type, i);
                if (of->epilogue & 2 && z < 0) z = 0;
                const int64_t index = g * d_at->offset + j * d_at->pitch + i;
                if (type == 1)
                    ((double*)d)[index] = z;
                else
                    ((float*)d)[index] = (float)z;
            }
    return 0;
}
