// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of contiguous arrays [batch, dims], under the reference's names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "fft/real_type.h"
#include "fft/transform.h"

namespace bk {

constexpr int kFftMaxRank = 3;

// Arrays [batch, dims] of which the last axis is whole, or holds a half.
struct FftDims {
    int32_t rank = 1;
    int64_t batch = 0, dims[kFftMaxRank] = {};

    static FftDims of(int32_t rank, const int32_t* dims, int32_t batch) {
        FftDims found;
        found.rank = rank;
        found.batch = batch;
        std::copy(dims, dims + rank, found.dims);
        return found;
    }

    int64_t last() const { return dims[rank - 1]; }
    int64_t rows() const {
        int64_t product = batch;
        for (int32_t d = 0; d + 1 < rank; ++d) product *= dims[d];
        return product;
    }
    int64_t whole() const { return rows() * last(); }
    int64_t half() const { return last() == 0 ? 0 : rows() * (last() / 2 + 1); }
    double scale(bool is_inverse) const { return is_inverse ? static_cast<double>(batch) / static_cast<double>(whole()) : 1.0; }

    // Axis 0 is the batch. `in` and `out` are the extents of the last axis on both sides.
    FftArray array(int64_t in, int64_t out) const {
        FftArray a;
        a.rank = rank + 1;
        a.extent[0] = batch;
        std::copy(dims, dims + rank, a.extent + 1);
        int64_t step_in = 1, step_out = 1;
        for (int d = rank; d >= 0; --d) {
            a.in[d] = step_in;
            a.out[d] = step_out;
            step_in *= d == rank ? in : a.extent[d];
            step_out *= d == rank ? out : a.extent[d];
        }
        return a;
    }
    // Arrays of which the last axis holds a half, for transforms along the others.
    FftArray halves() const {
        FftDims half = *this;
        half.dims[rank - 1] = last() / 2 + 1;
        return half.array(half.last(), half.last());
    }
};

// The bytes that a transform along every axis can use.
template <class R>
int64_t fft_bytes(const FftDims& of) {
    const int64_t last = of.last();
    int64_t most = fft_axis_bytes<R>(of.array(last, last), of.rank);
    for (int d = 1; d < of.rank; ++d) most = std::max(most, fft_axis_bytes<R>(of.array(last, last), d));
    return most;
}

// Transforms the axes of dims before the last, or all, from x to y and then in y; y may be x.
template <class R>
Status fft_axes(const FftArray& array, int first, int last, bool is_inverse, double scale, const void* x, void* y,
                void* scratch, const Launch& launch) {
    FftArray in_y = array;
    std::copy(array.out, array.out + kMaxRank, in_y.in);
    for (int d = last; d >= first; --d) {
        FftFiber of;
        of.axis = d;
        of.scale = d == last ? scale : 1.0;
        BK_TRY(fft_axis<R>(d == last ? array : in_y, of, is_inverse, d == last ? x : y, y, scratch, launch));
    }
    return Status::kOk;
}

// The workspace, if it is as large as a transform can use.
inline void* fft_scratch(const Launch& launch, int64_t bytes) {
    constexpr size_t kAlign = 64;
    char* base = static_cast<char*>(launch.workspace);
    const size_t skipped = base == nullptr ? 0 : (kAlign - reinterpret_cast<uintptr_t>(base) % kAlign) % kAlign;
    return base != nullptr && launch.workspace_bytes >= skipped + static_cast<size_t>(bytes) ? base + skipped : nullptr;
}
constexpr int64_t kFftAlignment = 63;  // bytes that alignment may skip

template <class R>
Status fft_complex(const FftDims& of, bool is_inverse, const void* x, void* y, const Launch& launch) {
    void* scratch = fft_scratch(launch, fft_bytes<R>(of));
    return fft_axes<R>(of.array(of.last(), of.last()), 1, of.rank, is_inverse, of.scale(is_inverse), x, y, scratch, launch);
}

template <class R>
Status fft_real(const FftDims& of, const void* x, void* y, const Launch& launch) {
    void* scratch = fft_scratch(launch, fft_bytes<R>(of));
    FftFiber fiber;
    fiber.axis = of.rank;
    fiber.in_form = FftForm::kReal;
    fiber.out_form = FftForm::kHermitian;
    BK_TRY(fft_axis<R>(of.array(of.last(), of.last() / 2 + 1), fiber, false, x, y, scratch, launch));
    return fft_axes<R>(of.halves(), 1, of.rank - 1, false, 1.0, y, y, scratch, launch);
}

// The bytes of the copy of x that is transformed along the axes before the last.
template <class R>
int64_t fft_copy_bytes(const FftDims& of) {
    return of.rank == 1 ? 0 : (of.half() * 2 * int64_t{sizeof(R)} + kFftAlignment) & ~kFftAlignment;
}

template <class R>
Status fft_inverse_real(const FftDims& of, void* x, void* y, const Launch& launch) {
    const int64_t copied = fft_copy_bytes<R>(of);
    char* scratch = static_cast<char*>(fft_scratch(launch, copied + fft_bytes<R>(of)));
    void* middle = scratch == nullptr || of.rank == 1 ? x : scratch;
    void* rest = scratch == nullptr ? nullptr : scratch + copied;
    BK_TRY(fft_axes<R>(of.halves(), 1, of.rank - 1, true, 1.0, x, middle, rest, launch));
    FftFiber fiber;
    fiber.axis = of.rank;
    fiber.in_form = FftForm::kHermitian;
    fiber.out_form = FftForm::kReal;
    fiber.scale = of.scale(true);
    return fft_axis<R>(of.array(of.last() / 2 + 1, of.last()), fiber, true, middle, y, rest, launch);
}

// --- the functions of the table ------------------------------------------------------------------------------------------

BK_COLD inline Status check_dims(int32_t rank, const int32_t* dims, int32_t batch) {
    if (rank < 1 || rank > kFftMaxRank) return fail(Status::kInvalidProblem, "rank is %d, must be 1, 2 or 3", rank);
    if (dims == nullptr) return fail(Status::kInvalidProblem, "dims is NULL");
    int64_t count = 1;
    for (int32_t d = 0; d < rank; ++d) {
        if (dims[d] < 0) return fail(Status::kInvalidProblem, "dims[%d] is %d, must be >= 0", d, dims[d]);
        if (__builtin_mul_overflow(count, int64_t{dims[d]}, &count) || count > kMaxOperandBytes)
            return fail(Status::kInvalidProblem, "dims have more than 2^47 elements");
    }
    return require_non_negative({{"batch", batch}});
}

// Checks the arguments; `elements` become the numbers of values of x and y.
BK_COLD inline Status check_transform(const FftDims& of, const void* x, const void* y, size_t x_align, size_t y_align) {
    if (of.whole() == 0) return Status::kOk;
    if (x == nullptr || y == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", x == nullptr ? "x" : "y");
    if (reinterpret_cast<uintptr_t>(x) % x_align != 0 || reinterpret_cast<uintptr_t>(y) % y_align != 0)
        return fail(Status::kMisaligned, "%s is not aligned for its dtype",
                    reinterpret_cast<uintptr_t>(x) % x_align != 0 ? "x" : "y");
    return Status::kOk;
}

template <class T>
Status run_fft_nd(int32_t rank, const int32_t* dims, int32_t batch, int32_t inverse, void* x, void* y, void* workspace,
                  size_t workspace_bytes, void* stream) {
    BK_TRY(check_dims(rank, dims, batch));
    const FftDims of = FftDims::of(rank, dims, batch);
    BK_TRY(check_transform(of, x, y, alignof(T), alignof(T)));
    if (of.whole() == 0) return Status::kOk;
    return fft_complex<fft_real_t<T>>(of, inverse != 0, x, y, {workspace, workspace_bytes, stream});
}

template <class T>
Status run_rfft_nd(int32_t rank, const int32_t* dims, int32_t batch, void* x, void* y, void* workspace, size_t workspace_bytes,
                   void* stream) {
    BK_TRY(check_dims(rank, dims, batch));
    const FftDims of = FftDims::of(rank, dims, batch);
    BK_TRY(check_transform(of, x, y, sizeof(T), 2 * sizeof(T)));
    if (of.whole() == 0) return Status::kOk;
    return fft_real<T>(of, x, y, {workspace, workspace_bytes, stream});
}

template <class T>
Status run_irfft_nd(int32_t rank, const int32_t* dims, int32_t batch, void* x, void* y, void* workspace, size_t workspace_bytes,
                    void* stream) {
    BK_TRY(check_dims(rank, dims, batch));
    const FftDims of = FftDims::of(rank, dims, batch);
    BK_TRY(check_transform(of, x, y, 2 * sizeof(T), sizeof(T)));
    if (of.whole() == 0) return Status::kOk;
    return fft_inverse_real<T>(of, x, y, {workspace, workspace_bytes, stream});
}

template <class T>
Status run_fft_1d(int32_t n, int32_t batch, int32_t inverse, void* x, void* y, void* workspace, size_t workspace_bytes,
                  void* stream) {
    BK_TRY(require_non_negative({{"n", n}}));
    return run_fft_nd<T>(1, &n, batch, inverse, x, y, workspace, workspace_bytes, stream);
}

template <class T>
Status run_rfft_1d(int32_t n, int32_t batch, void* x, void* y, void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_non_negative({{"n", n}}));
    return run_rfft_nd<T>(1, &n, batch, x, y, workspace, workspace_bytes, stream);
}

template <class T>
Status run_irfft_1d(int32_t n, int32_t batch, void* x, void* y, void* workspace, size_t workspace_bytes, void* stream) {
    BK_TRY(require_non_negative({{"n", n}}));
    return run_irfft_nd<T>(1, &n, batch, x, y, workspace, workspace_bytes, stream);
}

// --- workspace sizes -------------------------------------------------------------------------------------------------

inline Status set_bytes(int64_t bytes, size_t* out_bytes) {
    *out_bytes = bytes == 0 ? 0 : static_cast<size_t>(bytes + kFftAlignment);
    return Status::kOk;
}

template <class T>
Status fft_nd_workspace(int32_t rank, const int32_t* dims, int32_t batch, size_t* out_bytes) {
    if (out_bytes == nullptr) return fail(Status::kInvalidProblem, "out_bytes is NULL");
    BK_TRY(check_dims(rank, dims, batch));
    const FftDims of = FftDims::of(rank, dims, batch);
    return set_bytes(of.whole() == 0 ? 0 : fft_bytes<fft_real_t<T>>(of), out_bytes);
}

template <class T>
Status fft_1d_workspace(int32_t n, int32_t batch, size_t* out_bytes) {
    return fft_nd_workspace<T>(1, &n, batch, out_bytes);
}

template <class T>
Status irfft_nd_workspace(int32_t rank, const int32_t* dims, int32_t batch, size_t* out_bytes) {
    if (out_bytes == nullptr) return fail(Status::kInvalidProblem, "out_bytes is NULL");
    BK_TRY(check_dims(rank, dims, batch));
    const FftDims of = FftDims::of(rank, dims, batch);
    return set_bytes(of.whole() == 0 ? 0 : fft_copy_bytes<T>(of) + fft_bytes<T>(of), out_bytes);
}

}  // namespace bk
