// SPDX-License-Identifier: Apache-2.0
// GEMM on the CPU: panels for the driver of gemm/cpu/matmul_driver_cpu.h, and its epilogue.
//
// 8-bit integers are multiplied in f32, where a block's sum is exact (256 * 255^2 < 2^24), and accumulated in f64, or
// in i32 on processors with integer dot products. Activations run over spans, compiled once (gemm/cpu/matmul_cpu.cpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/abi/vector_width_cpu.h"
#include "gemm/cpu/matmul_driver_cpu.h"
#include "gemm/cpu/matmul_pack_cpu.h"
#include "gemm/cpu/matmul_skinny_cpu.h"
#include "gemm/matmul.h"

namespace bk {

template <class T>
constexpr Packing kFmaPacking = std::is_same_v<T, double>                 ? Packing::kF64
                                : std::is_integral_v<matmul_element_t<T>> ? Packing::kF32Integer
                                                                          : Packing::kF32;

// Packing for dot-product instructions, or kFmaPacking<T> if there are none for T.
template <class T>
constexpr Packing kDotPacking = !BK_ISA_DISPATCH                               ? kFmaPacking<T>
                                : std::is_same_v<matmul_element_t<T>, bf16>    ? Packing::kBf16Pairs
                                : std::is_same_v<matmul_element_t<T>, int8_t>  ? Packing::kS8Quads
                                : std::is_same_v<matmul_element_t<T>, uint8_t> ? Packing::kU8Quads
                                                                               : kFmaPacking<T>;

// Bound on k for which 8-bit products sum exactly in i32.
constexpr int64_t kMaxDotK = 32768;

// Padded columns of both B of a gated GEMM: each panel is half of one and half of the other.
inline int64_t gated_columns(const Microkernel& kernel, int64_t n) { return ceil_div<int64_t>(n, kernel.nr / 2) * kernel.nr; }

template <class T, Packing kPacking, int kBytes>
struct MatmulBlocks {
    using Unit = typename PackedUnit<kPacking>::Unit;
    using Sum = typename PackedUnit<kPacking>::Sum;
    using Shape = MicrotileShape<kBytes, Unit>;

    static void rows(const void* problem, int64_t g, int64_t i, int64_t rows, int64_t k, int64_t depth, void* to) {
        const auto& p = *static_cast<const Matmul<T>*>(problem);
        const auto* const from = p.a_at.matrix(p.a, g) + i * p.a_at.row + k * p.a_at.column;
        run_unfused<kBytes>([&] { pack_rows<T, kPacking, kBytes>(from, p.a_at, rows, depth, static_cast<Unit*>(to)); });
    }
    static void columns(const void* problem, int64_t g, int64_t j, int64_t columns, int64_t k, int64_t depth, void* to) {
        const auto& p = *static_cast<const Matmul<T>*>(problem);
        const bool is_gated = p.gate != nullptr;
        const int64_t own = is_gated ? j / 2 : j, count = is_gated ? std::min<int64_t>(p.n - own, Shape::kNr / 2) : columns;
        const int64_t skipped = own * p.b_at.column + k * p.b_at.row;
        const auto* const from = p.b_at.matrix(p.b, g) + skipped;
        const auto* const gate = is_gated ? p.gate + skipped : nullptr;
        run_unfused<kBytes>(
            [&] { pack_columns<T, kPacking, kBytes>(from, gate, p.b_at, count, depth, static_cast<Unit*>(to)); });
    }
    static void store(const void* problem, int64_t g, int64_t i, int64_t j, int64_t rows, int64_t columns, const void* sums) {
        const auto& p = *static_cast<const Matmul<T>*>(problem);
        const Sum* const from = static_cast<const Sum*>(sums);
        constexpr int64_t kColumns = Shape::kNr;
        run_unfused<kBytes>([&] {
            if constexpr (kMayBeGated<T>)
                if (p.gate != nullptr) {
                    constexpr int64_t kHalf = kColumns / 2;
                    const int64_t own = j / 2, count = std::min(p.n - own, kHalf);
                    for (int64_t r = 0; r < rows; ++r)
                        store_gated_row(p.epilogue, i + r, own, count, from + r * kColumns, from + r * kColumns + kHalf);
                    return;
                }
            if (store_plain_rows<kColumns>(p.epilogue, g, i, j, rows, columns, from)) return;
            for (int64_t r = 0; r < rows; ++r) store_row(p.epilogue, g, i + r, j, columns, from + r * kColumns);
        });
    }

    static ScratchRows scratch_rows(const Matmul<T>& p) {
        const Epilogue<T>& e = p.epilogue;
        if (e.d_at.list != nullptr || e.c_at.list != nullptr || e.c == e.d || e.residual == e.d) return {};
        if (e.is_wide) return ScratchRows::of(reinterpret_cast<float*>(e.d), e.d_at.row, p.n, e.d_at.step);
        return ScratchRows::of(e.d, e.d_at.row, p.n, e.d_at.step);
    }

    static Status multiply(const Launch& launch, const Matmul<T>& p) {
        constexpr int64_t kSize = sizeof(matmul_element_t<T>);
        const auto bytes = [](const auto* base, int64_t stride, int64_t k, int64_t step) {
            return OperandStrides{reinterpret_cast<const char*>(base), kSize, stride * kSize, k * kSize, step * kSize};
        };
        const Microkernel& kernel = microkernel<kPacking>();
        const bool is_gated = p.gate != nullptr;
        const OperandStrides no_prefetch{};
        constexpr bool kIsInPlace = Units<T, kPacking>::kIsUnits && !PackedUnit<kPacking>::kIsQuads;
        return multiply_blocked(
            launch, {&kernel, p.m, is_gated ? gated_columns(kernel, p.n) : p.n, p.k, p.batch, p.a_at.column != 1,
                     kIsInPlace && p.a_at.column == 1,
                     p.a_at.list != nullptr ? no_prefetch : bytes(p.a, p.a_at.row, p.a_at.column, p.a_at.step),
                     p.b_at.list != nullptr || is_gated ? no_prefetch : bytes(p.b, p.b_at.column, p.b_at.row, p.b_at.step),
                     scratch_rows(p), &p, rows, columns, store, p.backend == Backend::kInvariant});
    }
};

// Ops on narrow elements promise to need no workspace.
template <class T>
constexpr bool kTakesWorkspace = !std::is_integral_v<matmul_element_t<T>> && !kHasFp8Factors<matmul_element_t<T>>;

template <class T>
MatmulShape shape_of(const Matmul<T>& p) {
    MatmulShape s{p.m, p.n, p.k, p.batch, {}, p.epilogue.has_steps(), p.gate != nullptr, p.backend};
    if constexpr (kHasSkinnyLoops<T>) s.suits_skinny = suits_skinny(p);
    return s;
}

// Skinny GEMMs have loops that read the large operand once; panels of bf16 and 8-bit integers are multiplied by dot-product
// instructions if the processor has them. The order of a skinny loop's sums depends on which operand is skinny, and dot
// products give way to FMA where a panel has subnormals: a batch-invariant GEMM has neither.
template <class T>
MatmulChoice choose_matmul(const MatmulShape& s) {
    const bool is_invariant = s.backend == Backend::kInvariant, is_bf16 = std::is_same_v<matmul_element_t<T>, bf16>;
    const bool uses_dot = kDotPacking<T> != kFmaPacking<T> && has_dot_products() && (is_bf16 ? !is_invariant : s.k <= kMaxDotK);
    MatmulChoice choice;
    const auto choose_blocked = [&](MatmulKernel which, const Microkernel& kernel) {
        choice.kernel = which;
        choice.tile_m = kernel.mr;
        choice.tile_n = kernel.nr;
        const int64_t columns = s.is_gated ? gated_columns(kernel, s.n) : s.n;
        if (kTakesWorkspace<T>) choice.workspace = blocked_workspace(kernel, s.m, columns, s.k, is_invariant);
    };
#if BK_ISA_DISPATCH
    if (uses_dot) choose_blocked(MatmulKernel::kBlockedDot, microkernel<kDotPacking<T>>());
#endif
    if (!uses_dot) choose_blocked(MatmulKernel::kBlocked, microkernel<kFmaPacking<T>>());
    if (kHasSkinnyLoops<T> && std::min(s.m, s.n) <= kSkinny && s.suits_skinny && !is_invariant)
        choice.kernel = MatmulKernel::kSkinny;
    return choice;
}

template <class T>
Status multiply(const Launch& launch, const Matmul<T>& p) {
    const MatmulChoice choice = choose_matmul<T>(shape_of(p));
    if constexpr (kHasSkinnyLoops<T>)
        if (choice.kernel == MatmulKernel::kSkinny) {
            SkinnyMatmul<T>(p, p.b).run();
            return Status::kOk;
        }
#if BK_ISA_DISPATCH
    if constexpr (kDotPacking<T> != kFmaPacking<T>)
        if (choice.kernel == MatmulKernel::kBlockedDot) return MatmulBlocks<T, kDotPacking<T>, 64>::multiply(launch, p);
    if (vector_bytes() == 64) return MatmulBlocks<T, kFmaPacking<T>, 64>::multiply(launch, p);
    if (vector_bytes() == 32) return MatmulBlocks<T, kFmaPacking<T>, 32>::multiply(launch, p);
#endif
    return MatmulBlocks<T, kFmaPacking<T>, 16>::multiply(launch, p);
}

constexpr double kThreadedWork = 65536;  // multiplications from which starting threads pays

inline double products(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

// Runs do_product(k) for each k < count. Those whose work exceeds two threads' shares run one after another on all
// threads; the others are distributed whole, since a small GEMM does not pay for starting threads.
template <class Work, class Product>
Status multiply_each(int64_t count, const Work& work, const Product& do_product) {
    double total = 0;
    for (int64_t k = 0; k < count; ++k) total += work(k);
    const double most = thread_count() == 1 ? total : 2 * total / static_cast<double>(thread_count());
    for (int64_t k = 0; k < count; ++k)
        if (work(k) > most) BK_TRY(do_product(k));
    std::atomic<Status> failure{Status::kOk};
    split_chunks(count, total < kThreadedWork ? count : 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k)
            if (work(k) > 0 && work(k) <= most)
                if (const Status status = do_product(k); status != Status::kOk) failure.store(status);
    });
    return failure;
}

// Rows before the first group and behind the last become groups with k = 0.
template <class T>
Status multiply_groups(const Matmul<T>& p) {
    const bool groups_rows = p.grouped == Grouped::kRows;
    const int64_t size = groups_rows ? p.m : p.k, shift = groups_rows ? 1 : 0;
    const auto begin_of = [&](int64_t g) { return g < 0 ? 0 : group_offset(p.offsets, g, size); };
    const auto count_of = [&](int64_t g) {
        return std::max<int64_t>((g == p.batch ? size : group_offset(p.offsets, g + 1, size)) - begin_of(g), 0);
    };
    const auto work = [&](int64_t k) {
        const double count = static_cast<double>(count_of(k - shift));
        return groups_rows ? count * products(p.n, p.k + 1) : (count + 1) * products(p.m, p.n);
    };
    return multiply_each(p.batch + 2 * shift, work, [&](int64_t k) {
        const int64_t g = k - shift, begin = begin_of(g);
        const bool has_k = g >= 0 && g < p.batch;
        Matmul<T> subproblem = p;
        subproblem.grouped = Grouped::kNot;
        subproblem.batch = 1;
        subproblem.a += begin * (groups_rows ? p.a_at.row : p.a_at.column);
        if (groups_rows) {
            subproblem.m = count_of(g);
            subproblem.k = has_k ? p.k : 0;
            if (has_k) subproblem.b = p.b_at.matrix(p.b, g);
            subproblem.b_at.list = nullptr;
            subproblem.epilogue.d += begin * p.epilogue.d_at.row;
            if (subproblem.epilogue.c != nullptr) subproblem.epilogue.c += begin * p.epilogue.c_at.row;
        } else {
            subproblem.k = count_of(g);
            subproblem.b += begin * p.b_at.row;
            subproblem.epilogue.d += g * p.epilogue.d_at.step;
            if (subproblem.epilogue.c != nullptr) subproblem.epilogue.c += g * p.epilogue.c_at.step;
        }
        return multiply(Launch{}, subproblem);
    });
}

// GEMMs of different sizes.
template <class T>
Status multiply_sizes(const Matmul<T>& p) {
    const auto work = [&](int64_t g) {
        const MatmulExtents own = p.extents_of(g);
        return products(own.m, own.n) * static_cast<double>(own.k + 1);
    };
    return multiply_each(p.batch, work, [&](int64_t g) {
        const MatmulExtents own = p.extents_of(g);
        Matmul<T> subproblem = p;
        subproblem.m = own.m;
        subproblem.n = own.n;
        subproblem.k = own.k;
        subproblem.batch = 1;
        subproblem.sizes = nullptr;
        subproblem.a_at.list += g;
        subproblem.b_at.list += g;
        subproblem.epilogue.d_at.list += g;
        if (subproblem.epilogue.has_c()) subproblem.epilogue.c_at.list += g;
        return multiply(Launch{}, subproblem);
    });
}

template <class T>
Status matmul(const Launch& launch, const Matmul<T>& p) {
    if (p.sizes != nullptr) return multiply_sizes(p);
    return p.grouped == Grouped::kNot ? multiply(kTakesWorkspace<T> ? launch : Launch{}, p) : multiply_groups(p);
}

template <class T>
size_t matmul_workspace(const MatmulShape& shape) {
    return choose_matmul<T>(shape).workspace;
}

template <class T>
Status require_backend(const MatmulShape& s) {
    if (s.backend != Backend::kWgmma && !must_be_library(s.backend)) return Status::kOk;
    return fail(Status::kUnsupported, "backend is %d, but %s the CUDA library alone", static_cast<int>(s.backend),
                s.backend == Backend::kWgmma ? "warp groups serve" : "cuBLASLt serves");
}

}  // namespace bk
