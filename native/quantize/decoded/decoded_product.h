// SPDX-License-Identifier: Apache-2.0
// y = x w^T + bias of many rows of x: coded weights are decoded into the workspace, rounded to T, and multiplied by GEMM.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/workspace.h"
#include "core/types/vec.h"
#include "quantize/products/block_product.h"

namespace bk {

// Kernels that multiply by codes take these picoseconds a weight for a pass on an H200, for its first row of x
// and for each further one.
struct CodedPasses {
    int64_t rows;  // of x in a pass
    double first, further;
};

// The problem, and the bytes of codes and scales.
struct DecodedProduct {
    int64_t m, n, k, code_bytes;
    int32_t backend;
    CodedPasses passes;

    // Whether GEMM may multiply at all: backend 0 chooses, and a backend with a name is chosen.
    bool may_decode() const {
        return (backend == 0 || backend == kDecodedBackend) && std::min({m, n, k}) > 0 && std::max({m, n, k}) <= INT32_MAX;
    }
};

// Whether decoding is faster than multiplying by codes, or asked for.
template <class T>
bool prefers_decoding(const DecodedProduct& p);

// Bytes of workspace that the GEMM of decoded weights can use.
template <class T>
size_t decoded_gemm_workspace(const DecodedProduct& p);

// The GEMM with decoded weights; *is_done tells whether there is one for these operands.
template <class T>
Status multiply_decoded(const Launch& launch, const DecodedProduct& p, const T* x, const T* weights, const T* bias, T* y,
                        bool* is_done);

// Members in the order in which they are carved.
template <class T>
struct DecodedWorkspace {
    T* weights = nullptr;
    char* gemm = nullptr;
    size_t bytes = 0;

    DecodedWorkspace(const DecodedProduct& p, void* base) {
        if (!p.may_decode() || !prefers_decoding<T>(p)) return;
        Carver carver(base);
        weights = carver.take<T>(p.n * p.k);
        gemm = carver.take<char>(static_cast<int64_t>(decoded_gemm_workspace<T>(p)));
        bytes = carver.bytes();
    }
};

// Decodes by decode(weights) and multiplies, if that is preferred, the workspace suffices and the operands suit.
template <class T, class Decode>
Status multiply_by_decoding(const Launch& launch, const DecodedProduct& p, const T* x, const T* bias, T* y,
                            const Decode& decode, bool* is_done) {
    *is_done = false;
    if (launch.workspace == nullptr || (BK_CUDA && !is_aligned(x, kVectorBytes))) return Status::kOk;
    const DecodedWorkspace<T> workspace(p, launch.workspace);
    if (!workspace_holds(launch, workspace.bytes)) return Status::kOk;
    BK_TRY(decode(workspace.weights));
    const Launch remaining = launch_with_workspace_from(launch, workspace.gemm);
    return multiply_decoded(remaining, p, x, static_cast<const T*>(workspace.weights), bias, y, is_done);
}

}  // namespace bk
