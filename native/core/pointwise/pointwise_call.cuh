// Pointwise launches without the types of functor and operands, so that the host's side of them is compiled once for each
// number of operands and not for each functor.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/abi/launch.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"

namespace bk {

constexpr int kPointwiseThreads = 128;

// Fewer vectors than these are spread over as many threads.
constexpr int64_t kManyVectors = int64_t{1} << 17;

struct PointwiseCall;

// What a functor's kernels want, and how they are launched. Operands are the outputs, then the inputs.
struct PointwiseKernels {
    static constexpr int kMostOperands = 8;
    int outputs, operands;
    int size[kMostOperands];  // bytes of an element
    int vector, unroll;       // elements of a vector, and vectors that a thread of the dense kernel takes
    int group, side;          // of the strided kernel: elements of a group, and squares along a tile's side
    int tile_bytes;           // of shared memory where there are tiles
    bool positional, pairs;   // pairs: tiles can be accessed by pairs of 16-bit neighbours
    // Null where a functor never has operands of the kind.
    using Strided = Status(const PointwiseCall& call, const Grid& grid, const void* plan, char* const* pointers);
    Status (*dense)(const PointwiseCall& call, const Grid& grid, int64_t numel, int each);
    Strided* vectors;
    Strided* strided;
};

struct PointwiseCall {
    const Launch& launch;
    const PointwiseKernels& kernels;
    const void* fn;
    char* pointer[PointwiseKernels::kMostOperands];

    // Whether vectors of `lanes` elements may be accessed.
    bool is_aligned_to(int lanes) const {
        for (int k = 0; k < kernels.operands; ++k)
            if (!is_aligned(pointer[k], static_cast<size_t>(kernels.size[k] * lanes))) return false;
        return true;
    }
};

// Any collapsed layout (core/pointwise/strided_plan.cuh).
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
    const int each = vectors < kManyVectors ? 1 : kernels.unroll;
    const int64_t blocks = ceil_div<int64_t>(vectors > 0 ? vectors : 1, kPointwiseThreads * each);
    if (blocks > kMaxGridX) return fail(Status::kUnsupported, "numel is %lld, too many for one launch", (long long)numel);
    return kernels.dense(call, Grid{dim3(static_cast<unsigned>(blocks)), dim3(kPointwiseThreads)}, numel, each);
}

template <int Operands, int MaxRank>
BK_COLD Status run_layout(const PointwiseCall& call, const Layout<Operands, MaxRank>& given) {
    const Layout<Operands, MaxRank> layout = collapse(given);
    bool dense = call.kernels.dense != nullptr;
    for (int k = 0; k < Operands; ++k) dense = dense && layout.is_contiguous(k);
    return dense ? run_dense<Operands>(call, layout.numel()) : run_strided(call, layout);
}

// --- between typed operands and pointers ------------------------------------------------------------------------------

template <class... T, size_t... I>
void forget([[maybe_unused]] char** pointers, const Pack<T*...>& operands, std::index_sequence<I...>) {
    ((pointers[I] = reinterpret_cast<char*>(const_cast<std::remove_const_t<T>*>(get<I>(operands)))), ...);
}

template <class Operands>
struct Remember;
template <class... T>
struct Remember<Outputs<T...>> {
    template <size_t... I>
    static Outputs<T...> from([[maybe_unused]] char* const* pointers, std::index_sequence<I...>) {
        return outputs(reinterpret_cast<T*>(pointers[I])...);
    }
};
template <class... T>
struct Remember<Inputs<T...>> {
    template <size_t... I>
    static Inputs<T...> from([[maybe_unused]] char* const* pointers, std::index_sequence<I...>) {
        return inputs(reinterpret_cast<const T*>(pointers[I])...);
    }
};

template <class Out, class In>
Out remember_outputs(char* const* pointers) {
    return Remember<Out>::from(pointers, typename Out::Indices{});
}
template <class Out, class In>
In remember_inputs(char* const* pointers) {
    return Remember<In>::from(pointers + Out::count, typename In::Indices{});
}

}  // namespace bk
