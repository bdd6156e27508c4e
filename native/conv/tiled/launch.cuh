// SPDX-License-Identifier: Apache-2.0
// Host side of the implicit GEMM: operands with adjacent channels in the workspace, split-K, tiles and load modes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "conv/epilogue.h"
#include "conv/sm90/conv_wgmma.h"
#include "conv/tiled/conv_gemm.h"
#include "conv/tiled/conv_kernel.cuh"
#include "conv/tiled/pack.h"
#include "core/abi/workspace.h"
#include "gemm/tiled/matmul_finish.cuh"
#include "gemm/tiled/matmul_split_k.cuh"

namespace bk {

template <class T>
constexpr bool kIsConvSums = std::is_same_v<T, s8_sums> || std::is_same_v<T, u8_sums>;

// --- one GEMM --------------------------------------------------------------------------------------------------------

enum class ConvModes { kAlongK, kAlongKAndRows, kAlongRows, kElements };

template <class T>
ConvModes conv_modes(const ConvGemm<T>& p) {
    if (p.a.has_vectors_along_k()) {
        if (p.b.has_vectors_along_k()) return ConvModes::kAlongK;
        if (p.b.has_vectors_along_rows()) return ConvModes::kAlongKAndRows;
    }
    if (p.a.has_vectors_along_rows() && p.b.has_vectors_along_rows()) return ConvModes::kAlongRows;
    return ConvModes::kElements;
}

template <class T, int kSide, LoadMode kModeA, LoadMode kModeB>
Status launch_conv_tiles(const Launch& launch, const ConvGemm<T>& p, const ConvStore<T>& to, const SplitKOf<T>& split) {
    const int64_t tiles_m = ceil_div<int64_t>(p.m, kSide), tiles_n = ceil_div<int64_t>(p.n, kSide);
    int64_t matrices = 0, blocks = 0;
    if (__builtin_mul_overflow(p.groups * split.count, p.phases.count, &matrices)) matrices = kMaxGridX + 1;
    BK_TRY(count_tiles(tiles_m, tiles_n, matrices, &blocks));
    Grid grid{dim3(static_cast<unsigned>(blocks)), dim3(kMatmulThreads)};
    grid.shared = kConvBytes<matmul_element_t<T>, kSide, kModeA, kModeB>;
    return launch_kernel(launch, grid, conv_kernel<T, kSide, kModeA, kModeB>, p, to, split, tiles_m, tiles_n);
}

template <class T, int kSide>
Status launch_conv_vectors(const Launch& launch, const ConvGemm<T>& p, const ConvStore<T>& to, const SplitKOf<T>& split,
                           ConvModes modes) {
    if (modes == ConvModes::kAlongK)
        return launch_conv_tiles<T, kSide, LoadMode::kKMajor, LoadMode::kKMajor>(launch, p, to, split);
    if constexpr (!kIsConvSums<T>) {
        if (modes == ConvModes::kAlongKAndRows)
            return launch_conv_tiles<T, kSide, LoadMode::kKMajor, LoadMode::kMnMajor>(launch, p, to, split);
        return launch_conv_tiles<T, kSide, LoadMode::kMnMajor, LoadMode::kMnMajor>(launch, p, to, split);
    }
    return Status::kInternal;
}

// Whether a GEMM may have 128-wide tiles: other types fill the registers with small ones.
template <class T>
constexpr bool kHasLargeConvTiles = sizeof(matmul_element_t<T>) == 2;

template <class T>
Status launch_conv(const Launch& launch, ConvGemm<T> p, const ConvStore<T>& to, const SplitKOf<T>& split) {
    const ConvModes modes = conv_modes(p);
    if (modes == ConvModes::kElements || (kIsConvSums<T> && modes != ConvModes::kAlongK)) {
        p.a.choose_order();
        p.b.choose_order();
        return launch_conv_tiles<T, 64, LoadMode::kElements, LoadMode::kElements>(launch, p, to, split);
    }
    if constexpr (kHasLargeConvTiles<T>) {
        const int64_t tiles = ceil_div<int64_t>(p.m, 128) * ceil_div<int64_t>(p.n, 128) * p.groups * p.phases.count;
        if (split.count == 1 && p.m > 64 && p.n > 64 && p.k <= MmaTraits<T>::kMaxK && tiles >= kReferenceSms)
            return launch_conv_vectors<T, 128>(launch, p, to, split, modes);
    }
    return launch_conv_vectors<T, 64>(launch, p, to, split, modes);
}

// --- results ---------------------------------------------------------------------------------------------------------

template <class T>
ConvStore<T> conv_store(const ConvGemm<T>& p, const ConvEpilogue<T>& epilogue, matmul_element_t<T>* result) {
    using E = matmul_element_t<T>;
    ConvStore<T> to;
    to.along_rows = p.column_stride != 1;
    Epilogue<T>& e = to.e;
    e = conv_epilogue<T>(epilogue, result, to.along_rows ? p.column_stride : 1);
    if (to.along_rows)
        e.row_bias = epilogue.bias;
    else
        e.bias = epilogue.bias;
    const auto in_pairs = [](const E* data) { return data == nullptr || is_aligned(data, 2 * sizeof(E)); };
    to.in_pairs = in_pairs(e.c) && in_pairs(e.d) && in_pairs(e.z) && p.result.steps_by(2) && p.result.stride[4] % 2 == 0 &&
                  p.result_group % 2 == 0 && p.channels % 2 == 0;
    for (const ConvPhaseAxis& axis : p.phases.axis) to.in_pairs = to.in_pairs && axis.x_stride % 2 == 0;
    return to;
}

// The pitch of a result's rows if it is one, and channels are adjacent; else 0.
template <class T>
int64_t result_pitch(const ConvGemm<T>& p) {
    if (p.phases.is_phased || p.column_stride != 1) return 0;
    const int64_t inner = static_cast<int64_t>(p.result.extent[3].divisor());
    for (int d = 0; d < kConvAxes; ++d)
        if (p.result.extent[d].divisor() != 1) return 0;
    if (inner == 1) return p.result.stride[0];
    return p.m == inner || p.result.stride[0] == inner * p.result.stride[4] ? p.result.stride[4] : 0;
}

// Slices of K, if their sums can be stored: those of the gradient of w, and of a convolution without groups.
template <class T>
SplitKOf<T> conv_split(const ConvGemm<T>& p) {
    if (kIsConvSums<T> || result_pitch(p) == 0 || (p.channels != 0 && p.groups > 1)) return {};
    SplitKOf<T> split = split_k_of<T>({p.m, p.n, p.k, p.groups});
    if constexpr (std::is_same_v<T, float>) {  // FMA needs all blocks that an SM holds
        constexpr int64_t kBlocks = conv_blocks<T, 64, LoadMode::kMnMajor>();
        const int64_t tiles = ceil_div<int64_t>(p.m, 64) * ceil_div<int64_t>(p.n, 64) * p.groups,
                      wanted = std::min(kBlocks * kReferenceSms / tiles, p.k / kMinSliceK);
        if (split.count > 1 && wanted > split.count) {
            split.slice_k = ceil_div(ceil_div(p.k, wanted), kSliceUnit) * kSliceUnit;
            split.count = ceil_div(p.k, split.slice_k);
        }
    }
    return split;
}

// Computes partials and adds them.
template <class T>
Status launch_split_conv(const Launch& launch, const ConvGemm<T>& p, const ConvStore<T>& to, const SplitKOf<T>& split) {
    BK_TRY(launch_conv(launch, p, to, split));
    Epilogue<T> e = to.e;
    e.c_at = e.d_at = e.z_at = {result_pitch(p), 1, p.result_group};
    return finish(launch, e, split, p.n, p.m, p.n, p.groups);
}

// --- a direction -----------------------------------------------------------------------------------------------------

// Whether operands are copied where theirs have no vectors: kernels by elements reach a fraction of the tensor cores' rate,
// and take more instructions for a gradient of a filter's loads than for its FMA, if padding does not multiply these.
template <class T>
bool packs_conv(const ConvShape& s, ConvDirection direction) {
    if (std::is_same_v<T, float> && direction == ConvDirection::kBackwardFilter)
        return std::min(s.group_in(), s.group_out()) > 3;
    return sizeof(matmul_element_t<T>) == 2 || std::is_same_v<T, tf32>;
}
constexpr int64_t kMinPackedWork = int64_t{1} << 22;  // products from which the copies pay

// The GEMM of a direction; the direction's result is no operand.
template <class T>
ConvGemm<T> conv_gemm(const ConvShape& s, ConvDirection direction, const matmul_element_t<T>* x, const matmul_element_t<T>* w,
                      const matmul_element_t<T>* y) {
    switch (direction) {
        case ConvDirection::kForward: return forward_gemm<T>(s, x, w);
        case ConvDirection::kBackwardData: return backward_data_gemm<T>(s, y, w);
        default: return backward_filter_gemm<T>(s, x, y);
    }
}

// Workspace of a direction: copies of its operands, or slices of K, or both.
template <class T>
struct ConvWorkspace {
    using E = matmul_element_t<T>;
    bool packs = false;
    PackedConv packed;
    E *x = nullptr, *y = nullptr, *w = nullptr;
    SplitKOf<T> split;
    size_t bytes = 0;
    // Hopper's kernels compute the copies' result, which is copied too, if nothing in the caller's layout is added to it.
    bool by_wgmma = false;
    E* result = nullptr;
    void* rest = nullptr;  // the workspace behind it

    // Workspace for operands that are aligned; a null base measures.
    static ConvWorkspace of(const ConvShape& s, ConvDirection direction, bool may_pack, void* base) {
        ConvWorkspace own;
        ConvGemm<T> p = conv_gemm<T>(s, direction, nullptr, nullptr, nullptr);
        int64_t work = 0;
        const bool is_large =
            __builtin_mul_overflow(s.batch * s.outputs(), s.c_out * s.group_in() * s.taps(), &work) || work >= kMinPackedWork;
        own.packs = packs_conv<T>(s, direction) && may_pack && is_large && conv_modes(p) == ConvModes::kElements;
        Carver carver(base);
        if (own.packs) {
            own.packed = PackedConv::of(s, kVectorLanes<E>);
            own.x = carver.take<E>(direction != ConvDirection::kBackwardData ? own.packed.x : 0);
            own.y = carver.take<E>(direction != ConvDirection::kForward ? own.packed.y : 0);
            own.w = carver.take<E>(own.packed.w);
            p = own.packed_gemm(s, direction);
            if constexpr (kHasConvWgmma<T>) own.plan_wgmma(s, direction, &carver, base);
        }
        own.split = conv_split(p);
        own.split.partials = carve_partials<T>(&carver, p.m, p.n, p.groups, own.split.count);
        own.bytes = std::max(own.bytes, carver.bytes());
        return own;
    }

    // Plans Hopper's kernels, whose memory is that of other slices of K.
    void plan_wgmma(const ConvShape& s, ConvDirection direction, const Carver* taken, void* base) {
        const ConvShape& shape = packed.shape;
        if (shape.c_in != s.c_in || shape.c_out != s.c_out || conv_wgmma_on<T>(device_arch()) == nullptr) return;
        const ConvWgmma<T> conv = conv_wgmma_of<T>(shape, direction, true);
        const bool is_filter = direction == ConvDirection::kBackwardFilter;
        by_wgmma = conv.is_valid() || (direction == ConvDirection::kBackwardData && has_wgmma_phases<T>(shape));
        if (!by_wgmma) return;
        Carver carver = *taken;
        result = is_filter ? w : carver.template take<E>(direction == ConvDirection::kForward ? packed.y : packed.x);
        rest = base == nullptr ? nullptr : static_cast<char*>(base) + carver.bytes();
        bytes = carver.bytes() + conv_wgmma_bytes(conv);
    }

    // The GEMM of the copies. Padded channels are no results, but for those of the filter's copy.
    ConvGemm<T> packed_gemm(const ConvShape& s, ConvDirection direction) const {
        ConvShape shape = packed.shape;
        if (direction == ConvDirection::kForward) shape.y = s.y;
        if (direction == ConvDirection::kBackwardData) shape.x = s.x;
        ConvGemm<T> p = conv_gemm<T>(shape, direction, x, w, y);
        if (direction == ConvDirection::kForward) p.n = p.channels = s.group_out();
        if (direction == ConvDirection::kBackwardData) p.n = p.channels = s.group_in();
        return p;
    }

    // Copies the operands.
    Status pack(const Launch& launch, const ConvShape& s, ConvDirection direction, const E* from_x, const E* from_w,
                const E* from_y) const {
        if (direction != ConvDirection::kBackwardData) BK_TRY(pack_x(launch, s, packed, sizeof(E), from_x, x));
        if (direction != ConvDirection::kForward) BK_TRY(pack_y(launch, s, packed, sizeof(E), from_y, y));
        if (direction != ConvDirection::kBackwardFilter) BK_TRY(pack_w(launch, s, packed, sizeof(E), from_w, w));
        return Status::kOk;
    }
};

// Computes `result` from the two other operands.
template <class T>
Status conv_by_gemm(const Launch& launch, const ConvShape& s, ConvDirection direction, const matmul_element_t<T>* x,
                    const matmul_element_t<T>* w, const matmul_element_t<T>* y, matmul_element_t<T>* result,
                    const ConvEpilogue<T>& epilogue) {
    using E = matmul_element_t<T>;
    const bool is_filter = direction == ConvDirection::kBackwardFilter;
    // A packed gradient of w is rounded before it is copied, and nothing can be added to it any more.
    ConvWorkspace<T> own = ConvWorkspace<T>::of(s, direction, !is_filter || epilogue.beta == 0, launch.workspace);
    if (!workspace_holds(launch, own.bytes)) own = {};
    if (own.packs) BK_TRY(own.pack(launch, s, direction, x, w, y));
    if constexpr (kHasConvWgmma<T>)
        if (own.by_wgmma && epilogue.z == nullptr && (epilogue.beta == 0 || epilogue.c == nullptr)) {
            const bool is_data = direction == ConvDirection::kBackwardData;
            bool is_done = false;
            BK_TRY(conv_by_wgmma<T>(launch_with_workspace_from(launch, own.rest), own.packed.shape, direction,
                                    is_data ? own.y : own.x, is_filter ? own.y : own.w, own.result, epilogue, &is_done));
            const CopyLayout layout = is_filter ? packed_filter(s, own.packed)
                                      : is_data ? packed_x(s, own.packed)
                                                : packed_y(s, own.packed);
            if (is_done) return unpack(launch, layout, sizeof(E), own.result, result);
        }
    const ConvGemm<T> p = own.packs ? own.packed_gemm(s, direction) : conv_gemm<T>(s, direction, x, w, y);
    const bool unpacks = own.packs && is_filter;
    const ConvStore<T> to = conv_store(p, epilogue, unpacks ? own.w : result);
    BK_TRY(own.split.count > 1 ? launch_split_conv(launch, p, to, own.split) : launch_conv(launch, p, to, own.split));
    return unpacks ? unpack(launch, packed_filter(s, own.packed), sizeof(E), own.w, result) : Status::kOk;
}

}  // namespace bk
