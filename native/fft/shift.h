// SPDX-License-Identifier: Apache-2.0
// fftshift and ifftshift: rotations of axes by half their extents, which move the zero frequency to the middle and back. They
// are circular copies (core/copy/copies.h). And products of arrays with a real number, in place.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/copies.h"
#include "core/pointwise/pointwise.h"
#include "fft/real_type.h"

namespace bk {

// y[i] = x[(i - n / 2) mod n] of each row, or with the opposite sign.
template <class T, bool is_inverse>
struct FftShift {
    int64_t batch;
    int32_t n;

    Work work() const { return batch == 0 || n == 0 ? Work::kNone : Work::kAll; }
    BK_COLD Status check() const { return require_non_negative({{"batch", batch}, {"n", n}}); }
    BK_COLD Status run(const T* x, T* y, const Launch& launch) const {
        MappedCopy copy;
        copy.pad_mode = PadMode::kCircular;
        copy.rank = 2;
        copy.axis[0] = {batch, batch, 0, n, n};
        copy.axis[1] = {n, n, is_inverse ? n - n / 2 : n / 2, 1, 1};
        return copy_mapped(launch, copy, sizeof(T), x, y);
    }
};

// y[c] = x[(c + shift_amt) mod shape].
template <class T>
struct FftShiftNd {
    int64_t total;
    int32_t rank;
    const int32_t* shape;
    const int32_t* shift_amt;
    const int64_t* stride;

    Work work() const { return all_or_none(total); }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"total", total}}));
        BK_TRY(require_rank(rank));
        if (total == 0) return Status::kOk;
        BK_TRY(require_shape("shape", shape, rank));
        if (rank > 0 && (shift_amt == nullptr || stride == nullptr))
            return fail(Status::kInvalidProblem, "%s is NULL", shift_amt == nullptr ? "shift_amt" : "stride");
        int64_t step = 1;
        for (int32_t d = rank; d-- > 0; step *= shape[d]) {
            if (shape[d] > 1 && stride[d] != step)
                return fail(Status::kInvalidProblem, "stride[%d] is %lld, must be %lld, as of a row-major array", d,
                            static_cast<long long>(stride[d]), static_cast<long long>(step));
            if (shape[d] > 0 && step > kMaxOperandBytes / shape[d])
                return fail(Status::kInvalidProblem, "shape has more than 2^47 elements");
        }
        if (step != total)
            return fail(Status::kInvalidProblem, "total is %lld, but shape has %lld elements", static_cast<long long>(total),
                        static_cast<long long>(step));
        return Status::kOk;
    }
    BK_COLD Status run(const T* x, T* y, const Launch& launch) const {
        MappedCopy copy;
        copy.pad_mode = PadMode::kCircular;
        copy.rank = rank;
        int64_t step = 1;
        for (int32_t d = rank; d-- > 0; step *= shape[d]) {
            const int64_t extent = shape[d], shift = ((-int64_t{shift_amt[d]}) % extent + extent) % extent;
            copy.axis[d] = {extent, extent, shift, step, step};
        }
        return copy_mapped(launch, copy, sizeof(T), x, y);
    }
};

template <class R>
struct ScaleFunctor {
    R scale;
    BK_HD R operator()(R x) const { return x * scale; }
};

// y *= scale; complex numbers are pairs of real ones.
template <class T>
struct ScaleInplace {
    using R = fft_real_t<T>;
    int64_t numel;
    R scale;

    Work work() const { return all_or_none(numel); }
    BK_COLD Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(T* y, const Launch& launch) const {
        R* const values = reinterpret_cast<R*>(y);
        const int64_t each = sizeof(T) / sizeof(R);
        return pointwise(launch, each * numel, ScaleFunctor<R>{scale}, outputs(values), inputs(static_cast<const R*>(values)));
    }
};

}  // namespace bk
