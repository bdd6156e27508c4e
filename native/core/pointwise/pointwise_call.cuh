// SPDX-License-Identifier: Apache-2.0
// Type-erased pointwise launches: the host side is compiled once per number of operands, not per functor.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/layout/layout.h"
#include "core/pointwise/pointwise.h"

namespace bk {

constexpr int kPointwiseThreads = 128;

// Below this count each thread gets one vector, to fill the chip.
constexpr int64_t kManyVectors = int64_t{1} << 17;

struct PointwiseCall;

// Launch parameters and type-erased launchers of a functor's kernels. Operands are the outputs, then the inputs.
struct PointwiseKernels {
    static constexpr int kMaxOperands = 8;
    int outputs, operands;
    int size[kMaxOperands];  // bytes of an element
    int vector, unroll;      // elements of a vector; vectors per thread of the dense kernel
    int group, side;         // strided kernel: elements of a group; squares along a tile's side
    int tile_bytes;          // shared memory, if the plan has tiles
    bool positional, pairs;  // pairs: tiles of 16-bit operands can be accessed two elements at a time
    // A launcher is null if the functor never has such operands.
    using Strided = Status(const PointwiseCall& call, const Grid& grid, const void* plan, char* const* pointers);
    Status (*dense)(const PointwiseCall& call, const Grid& grid, int64_t numel, int per_thread);
    Strided* vectors;
    Strided* strided;
};

struct PointwiseCall {
    const Launch& launch;
    const PointwiseKernels& kernels;
    const void* fn;
    char* pointer[PointwiseKernels::kMaxOperands];

    // Whether every pointer is aligned to vectors of `lanes` elements.
    bool is_aligned_to(int lanes) const {
        for (int k = 0; k < kernels.operands; ++k)
            if (!is_aligned(pointer[k], static_cast<size_t>(kernels.size[k] * lanes))) return false;
        return true;
    }
};

// Runs any collapsed layout (core/pointwise/strided_plan.cuh).
template <int Operands, int MaxRank>
Status run_strided(const PointwiseCall& call, const Layout<Operands, MaxRank>& layout);

template <int Operands>
BK_COLD Status run_dense(const PointwiseCall& call, int64_t numel) {
    const PointwiseKernels& kernels = call.kernels;
    if (!call.is_aligned_to(kernels.vector)) {
        Layout<Operands> flat;
        flat.rank = 1;
        flat.extent[0] = numel;
        for (auto& stride : flat.stride) stride[0] = 1;
        return run_strided(call, flat);
    }
    const int64_t vectors = numel / kernels.vector;
    const int per_thread = vectors < kManyVectors ? 1 : kernels.unroll;
    const int64_t blocks = ceil_div<int64_t>(vectors > 0 ? vectors : 1, kPointwiseThreads * per_thread);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    return kernels.dense(call, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)}, numel, per_thread);
}

template <int Operands, int MaxRank>
BK_COLD Status run_layout(const PointwiseCall& call, const Layout<Operands, MaxRank>& given) {
    const Layout<Operands, MaxRank> layout = collapse(given);
    bool dense = call.kernels.dense != nullptr;
    for (int k = 0; k < Operands; ++k) dense = dense && layout.is_contiguous(k);
    return dense ? run_dense<Operands>(call, layout.numel()) : run_strided(call, layout);
}

// --- type erasure -----------------------------------------------------------------------------------------------

template <class... T, size_t... I>
void erase_types([[maybe_unused]] char** pointers, const Pack<T*...>& operands, std::index_sequence<I...>) {
    ((pointers[I] = reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(get<I>(operands)))), ...);
}

template <class Operands>
struct TypedOperands;
template <class... T>
struct TypedOperands<Outputs<T...>> {
    template <size_t... I>
    static Outputs<T...> from([[maybe_unused]] char* const* pointers, std::index_sequence<I...>) {
        return outputs(reinterpret_cast<T*>(pointers[I])...);
    }
};
template <class... T>
struct TypedOperands<Inputs<T...>> {
    template <size_t... I>
    static Inputs<T...> from([[maybe_unused]] char* const* pointers, std::index_sequence<I...>) {
        return inputs(reinterpret_cast<const T*>(pointers[I])...);
    }
};

template <class Out, class In>
Out typed_outputs(char* const* pointers) {
    return TypedOperands<Out>::from(pointers, typename Out::Indices{});
}
template <class Out, class In>
In typed_inputs(char* const* pointers) {
    return TypedOperands<In>::from(pointers + Out::count, typename In::Indices{});
}

}  // namespace bk
