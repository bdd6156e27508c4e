// SPDX-License-Identifier: Apache-2.0
// Scan ops along one axis, and their gradients.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/axis.h"
#include "core/abi/checks.h"
#include "core/abi/strided_args.h"
#include "core/abi/workspace.h"
#include "core/scan/scan.h"
#include "scan/operators.h"
#include "scan/suffix_operators.h"

namespace bk {

namespace op {

// Operators of each op: `running` scans, `arg_extreme` tracks the index of an extreme, `suffix` is the gradient's.
template <class T>
struct Cumsum {
    static RunningSum<T> running(bool exclusive = false) { return {exclusive}; }
};

template <class T>
struct Cumprod {
    static RunningProduct<T> running(bool exclusive = false) { return {exclusive}; }
    static ProductSuffix<T> suffix(bool exclusive = false) { return {exclusive}; }
};

template <class T>
struct Cummax {
    static RunningExtreme<T> running(bool exclusive = false) { return {{false}, exclusive}; }
    static RunningArgExtreme<T> arg_extreme() { return {{false}}; }
};

template <class T>
struct Cummin {
    static RunningExtreme<T> running(bool exclusive = false) { return {{true}, exclusive}; }
    static RunningArgExtreme<T> arg_extreme() { return {{true}}; }
};

template <class T>
struct LogCumsumExp {
    static RunningLogSumExp<T> running(bool exclusive = false) { return {exclusive}; }
    static LogSumExpSuffix<T> suffix(bool exclusive = false) { return {exclusive}; }
};

}  // namespace op

// A zero-dimensional array has no axis.
inline Status require_scan_axis(int32_t scan_axis, int32_t scan_extent, int32_t rank, const int32_t* shape) {
    BK_TRY(require_axis("scan_axis", scan_axis, rank));
    if (scan_extent != shape[scan_axis])
        return fail(Status::kInvalidProblem, "scan_extent is %d, but shape[%d] is %d", scan_extent, scan_axis,
                    shape[scan_axis]);
    return Status::kOk;
}

template <int Operands>
BK_COLD ScanAxes<Operands> scan_axes(int32_t rank, const int32_t* shape, int32_t axis,
                                     const int64_t* const (&strides)[Operands]) {
    ScanAxes<Operands> axes;
    for (int32_t d = 0; d < rank; ++d) {
        int64_t at_axis[Operands];
        for (int k = 0; k < Operands; ++k) at_axis[k] = strides[k][d];
        if (d != axis) {
            axes.rows.append(shape[d], at_axis);
        } else {
            axes.length = shape[d];
            std::copy(at_axis, at_axis + Operands, axes.step);
        }
    }
    return axes;
}

template <template <class> class F, class T, bool kExclusive = false>
struct Scan {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    int32_t scan_axis;
    int32_t scan_extent;
    int64_t scan_stride_x;
    int32_t reverse;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}}, {{"stride_y", stride_y}}));
        BK_TRY(require_scan_axis(scan_axis, scan_extent, rank, shape));
        if (scan_extent > 1 && scan_stride_x != stride_x[scan_axis])
            return fail(Status::kInvalidProblem, "scan_stride_x is %lld, but stride_x[%d] is %lld",
                        static_cast<long long>(scan_stride_x), scan_axis, static_cast<long long>(stride_x[scan_axis]));
        return Status::kOk;
    }
    size_t workspace_size() const { return scan_workspace<T, decltype(F<T>::running())>(axes()); }
    Status run(const T* x, T* y, const Launch& launch) const {
        return scan(launch, axes(), F<T>::running(kExclusive), outputs(y), inputs(x), reverse != 0);
    }

private:
    ScanAxes<2> axes() const { return scan_axes<2>(rank, shape, scan_axis, {stride_y, stride_x}); }
};

template <template <class> class F, class T>
struct ScanIndices {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_indices;
    int32_t scan_axis;
    int32_t scan_extent;
    int32_t reverse;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_x", stride_x}},
                           {{"stride_y", stride_y}, {"stride_indices", stride_indices}}));
        return require_scan_axis(scan_axis, scan_extent, rank, shape);
    }
    size_t workspace_size() const { return scan_workspace<T, RunningExtremeAndIndex<T>>(axes()); }
    Status run(const T* x, T* y, int64_t* indices, const Launch& launch) const {
        const bool is_reversed = reverse != 0;
        const RunningExtremeAndIndex<T> operation{F<T>::arg_extreme(), is_reversed ? scan_extent - 1 : 0, is_reversed ? -1 : 1};
        return scan(launch, axes(), operation, outputs(y, indices), inputs(x), is_reversed);
    }

private:
    ScanAxes<3> axes() const { return scan_axes<3>(rank, shape, scan_axis, {stride_y, stride_indices, stride_x}); }
};

// The gradient of a cumulative sum is the cumulative sum in the other direction.
template <class T, bool kExclusive = false>
struct CumsumBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_dx;
    int32_t scan_axis;
    int32_t scan_extent;
    int32_t reverse;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}}, {{"stride_dx", stride_dx}}));
        return require_scan_axis(scan_axis, scan_extent, rank, shape);
    }
    size_t workspace_size() const { return scan_workspace<T, RunningSum<T>>(axes()); }
    Status run(const T* dy, T* dx, const Launch& launch) const {
        return scan(launch, axes(), op::Cumsum<T>::running(kExclusive), outputs(dx), inputs(dy), reverse == 0);
    }

private:
    ScanAxes<2> axes() const { return scan_axes<2>(rank, shape, scan_axis, {stride_dx, stride_dy}); }
};

// `reverse` is the forward op's: its gradient scans in the other direction.
template <template <class> class F, class T, bool kExclusive = false>
struct ScanBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_y;
    const int64_t* stride_dx;
    int32_t scan_axis;
    int32_t scan_extent;
    int32_t reverse;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape,
                           {{"stride_dy", stride_dy}, {"stride_x", stride_x}, {"stride_y", stride_y}},
                           {{"stride_dx", stride_dx}}));
        return require_scan_axis(scan_axis, scan_extent, rank, shape);
    }
    size_t workspace_size() const { return scan_workspace<T, decltype(F<T>::suffix())>(axes()); }
    Status run(const T* dy, const T* x, const T* y, T* dx, const Launch& launch) const {
        const auto suffix = F<T>::suffix(kExclusive);
        // An exclusive y is read at j itself, one ahead of where the operator expects it; the first result, the empty
        // product, is 1.
        if (kExclusive && suffix.kLookaheadInput == 2) y += reverse == 0 ? stride_y[scan_axis] : -stride_y[scan_axis];
        return scan(launch, axes(), suffix, outputs(dx), inputs(dy, x, y), reverse == 0);
    }

private:
    ScanAxes<4> axes() const { return scan_axes<4>(rank, shape, scan_axis, {stride_dx, stride_dy, stride_x, stride_y}); }
};

// Between its two scans dx holds 1 at each new extreme of x, else 0.
template <template <class> class F, class T, bool kExclusive = false>
struct ExtremeScanBackward {
    int64_t numel;
    int32_t rank;
    const int32_t* shape;
    const int64_t* stride_dy;
    const int64_t* stride_x;
    const int64_t* stride_dx;
    int32_t scan_axis;
    int32_t scan_extent;
    int32_t reverse;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(check_shape("numel", numel, rank, "shape", shape, {{"stride_dy", stride_dy}, {"stride_x", stride_x}},
                           {{"stride_dx", stride_dx}}));
        return require_scan_axis(scan_axis, scan_extent, rank, shape);
    }
    size_t workspace_size() const {
        return std::max(scan_workspace<T, IsRecord<T>>(record_axes()), scan_workspace<T, RecordSuffix<T>>(gradient_axes()));
    }
    Status run(const T* dy, const T* x, T* dx, const Launch& launch) const {
        BK_TRY(scan(launch, record_axes(), IsRecord<T>{F<T>::arg_extreme()}, outputs(dx), inputs(x), reverse != 0));
        return scan(launch, gradient_axes(), RecordSuffix<T>{kExclusive}, outputs(dx), inputs(dy, static_cast<const T*>(dx)),
                    reverse == 0);
    }

private:
    ScanAxes<2> record_axes() const { return scan_axes<2>(rank, shape, scan_axis, {stride_dx, stride_x}); }
    ScanAxes<3> gradient_axes() const { return scan_axes<3>(rank, shape, scan_axis, {stride_dx, stride_dy, stride_dx}); }
};

}  // namespace bk
