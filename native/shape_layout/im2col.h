// SPDX-License-Identifier: Apache-2.0
// im2col and its adjoint col2im, for one to three spatial axes.
//
// An image [N, C, spatial] becomes [N, C * kernel elements, windows], both row-major: y[n, c, k, w] = x[n, c, w * step
// + k * dilation - padding] along each axis, and 0 outside x.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/launch.h"
#include "core/copy/im2col.h"
#include "core/reduce/gather_adjoint.h"
#include "shape_layout/extents.h"

namespace bk {

constexpr int32_t kMaxSpatial = kMaxWindowAxes;
constexpr int32_t kColumnsRank = 3;
constexpr int64_t kMaxReach = int64_t{1} << 57;  // 16-byte elements at this reach use a quarter of the 64-bit range

struct ImageWindows {
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* kernel_size;
    const int32_t* dilation;
    const int32_t* padding;
    const int32_t* steps;

    int32_t spatial() const { return rank - 2; }
    // Windows along a spatial axis; 0 if none fits.
    int64_t count(int32_t d) const {
        const int64_t reach = int64_t{dilation[d]} * (kernel_size[d] - 1) + 1;
        const int64_t slack = int64_t{input_shape[2 + d]} + 2 * int64_t{padding[d]} - reach;
        return slack < 0 ? 0 : slack / steps[d] + 1;
    }
    int64_t taps() const {
        return product([&](int32_t d) { return int64_t{kernel_size[d]}; });
    }
    int64_t windows() const {
        return product([&](int32_t d) { return count(d); });
    }
    Extents columns() const {
        return {{input_shape[0], static_cast<int32_t>(input_shape[1] * taps()), static_cast<int32_t>(windows())}};
    }
    WindowCopy copy(const int64_t* stride_image, const int64_t* stride_matrix) const;
    Status check(const NamedStrides& image, const NamedStrides& matrix) const;
    Status check_count(const char* name, int64_t given, int32_t axes, const int32_t* shape, const NamedStrides& output) const;
    Status locate(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                  const int64_t* strides) const {
        return locate_extents(operand, name, role, size, strides_name, kColumnsRank, columns(), strides);
    }

private:
    // Saturates at 2^31, above any extent.
    template <class Of>
    int64_t product(const Of& of) const {
        constexpr int64_t kMost = int64_t{1} << 31;
        int64_t all = 1;
        for (int32_t d = 0; d < spatial(); ++d) all = std::min(all * std::min(of(d), kMost), kMost);
        return all;
    }
};

BK_COLD inline WindowCopy ImageWindows::copy(const int64_t* stride_image, const int64_t* stride_matrix) const {
    WindowCopy copy;
    copy.rank = spatial();
    WindowAxis* axis = copy.axis + kMaxWindowAxes - copy.rank;
    for (int32_t d = 0; d < spatial(); ++d) {
        // An axis of one element, window or tap gets stride 0, or step 1: the caller's value may be too large to
        // multiply.
        const int64_t windows = count(d), stride = input_shape[2 + d] > 1 ? stride_image[2 + d] : 0;
        *axis++ = {input_shape[2 + d],
                   stride,
                   windows,
                   windows > 1 ? steps[d] : 1,
                   padding[d],
                   kernel_size[d],
                   kernel_size[d] > 1 ? dilation[d] : 1};
    }
    copy.items = input_shape[0], copy.item_x = stride_image[0], copy.item_y = stride_matrix[0];
    copy.channels = input_shape[1], copy.channel_x = stride_image[1], copy.channel_y = taps() * stride_matrix[1];
    copy.tap_y = stride_matrix[1], copy.window_y = stride_matrix[2];
    return copy;
}

BK_COLD inline Status ImageWindows::check(const NamedStrides& image, const NamedStrides& matrix) const {
    if (rank < 3 || rank > 2 + kMaxSpatial)
        return fail(Status::kInvalidProblem, "rank is %d, must be in [3, %d]", rank, 2 + kMaxSpatial);
    BK_TRY(require_shape("input_shape", input_shape, rank));
    const struct {
        const char* name;
        const int32_t* entries;
        int32_t least;
    } arrays[] = {{"kernel_size", kernel_size, 1}, {"dilation", dilation, 1}, {"padding", padding, 0}, {"steps", steps, 1}};
    for (const auto& array : arrays) {
        BK_TRY(require_array(array.name, array.entries, spatial()));
        for (int32_t d = 0; d < spatial(); ++d)
            if (array.entries[d] < array.least)
                return fail(Status::kInvalidProblem, "%s[%d] is %d, must be >= %d", array.name, d, array.entries[d],
                            array.least);
    }
    for (int32_t d = 0; d < spatial(); ++d)
        if (count(d) < 1)
            return fail(Status::kInvalidProblem,
                        "kernel_size[%d] is %d: with dilation %d no window fits into input_shape[%d], %d, and padding %d", d,
                        kernel_size[d], dilation[d], 2 + d, input_shape[2 + d], padding[d]);
    const int64_t most = (int64_t{1} << 31) - 1, features = taps();
    if (features > most || input_shape[1] * features > most || windows() > most)
        return fail(Status::kInvalidProblem, "kernel_size[0] is %d: columns would have 2^31 elements or more along an axis",
                    kernel_size[0]);
    BK_TRY(require_array(image.name, image.array, rank));
    BK_TRY(require_array(matrix.name, matrix.array, rank));
    // Partial offsets may reach as far as padding and windows do.
    for (int32_t d = 0; d < spatial(); ++d) {
        const int64_t reach = int64_t{input_shape[2 + d]} + 2 * int64_t{padding[d]};
        int64_t span = 0;
        for (const int64_t stride : {input_shape[2 + d] > 1 ? image.array[2 + d] : 0, matrix.array[1], matrix.array[2]})
            if (__builtin_mul_overflow(reach, stride, &span) || span > kMaxReach || span < -kMaxReach)
                return fail(Status::kInvalidProblem, "padding[%d] is %d: with strides of %lld windows reach over 2^57 elements",
                            d, padding[d], static_cast<long long>(stride));
    }
    return Status::kOk;
}

BK_COLD inline Status ImageWindows::check_count(const char* name, int64_t given, int32_t axes, const int32_t* shape,
                                                const NamedStrides& output) const {
    int64_t elements = 0;
    BK_TRY(require_non_negative({{name, given}}));
    BK_TRY(count_elements("input_shape", axes, shape, &elements));
    if (elements != given)
        return fail(Status::kInvalidProblem, "%s is %lld, but input_shape makes it %lld", name, static_cast<long long>(given),
                    static_cast<long long>(elements));
    return given > 0 ? require_distinct(output, axes, shape) : Status::kOk;
}

struct Im2ColShape {
    int64_t output_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* kernel_size;
    const int32_t* dilation;
    const int32_t* padding;
    const int32_t* steps;
    const int64_t* stride_x;
    const int64_t* stride_y;

    ImageWindows image() const { return {rank, input_shape, kernel_size, dilation, padding, steps}; }
    Work work() const { return all_or_none(output_numel); }
    BK_COLD Status check() const {
        BK_TRY(image().check({"stride_x", stride_x}, {"stride_y", stride_y}));
        return image().check_count("output_numel", output_numel, kColumnsRank, image().columns().of, {"stride_y", stride_y});
    }
    Status locate_y(Operand* y, const char* name, Role role, int64_t size) const {
        return image().locate(y, name, role, size, "stride_y", stride_y);
    }
    BK_COLD Status copy(const Launch& launch, int bytes, const char* x, char* y) const {
        return copy_windows(launch, image().copy(stride_x, stride_y), bytes, x, y);
    }
};

template <class T>
struct Im2Col : Im2ColShape {
    Status run(const T* x, T* y, const Launch& launch) const {
        return copy(launch, sizeof(T), reinterpret_cast<const char*>(x), reinterpret_cast<char*>(y));
    }
};

struct Col2ImShape {
    int64_t input_numel;
    int32_t rank;
    const int32_t* input_shape;
    const int32_t* kernel_size;
    const int32_t* dilation;
    const int32_t* padding;
    const int32_t* steps;
    const int64_t* stride_dy;
    const int64_t* stride_dx;

    ImageWindows image() const { return {rank, input_shape, kernel_size, dilation, padding, steps}; }
    Work work() const { return all_or_none(input_numel); }
    BK_COLD Status check() const {
        BK_TRY(image().check({"stride_dx", stride_dx}, {"stride_dy", stride_dy}));
        return image().check_count("input_numel", input_numel, rank, input_shape, {"stride_dx", stride_dx});
    }
    Status locate_dy(Operand* dy, const char* name, Role role, int64_t size) const {
        return image().locate(dy, name, role, size, "stride_dy", stride_dy);
    }
    BK_COLD GatherAdjoint folded() const {
        const ImageWindows image = this->image();
        GatherAdjoint sum;
        sum.rank = rank;
        int64_t step_tap = stride_dy[1], step_window = stride_dy[2];
        for (int32_t d = rank - 1; d >= 0; --d) {
            GatherAxis& axis = sum.axis[d];
            axis.extent = axis.source = input_shape[d];
            axis.stride_y = stride_dx[d];
            axis.stride_x = d == 0 ? stride_dy[0] : step_tap;
            if (d < 2) continue;
            axis.map_mode = AdjointMode::kWindows;
            axis.source = image.count(d - 2);
            axis.low = padding[d - 2];
            axis.window = kernel_size[d - 2],
            axis.step = axis.source > 1 ? steps[d - 2] : 1;  // any, for one window
            axis.dilation = axis.window > 1 ? dilation[d - 2] : 1;
            axis.stride_window = step_window;
            step_tap *= kernel_size[d - 2], step_window *= axis.source;
        }
        return sum;
    }
};

template <class T>
struct Col2Im : Col2ImShape {
    Status run(const T* dy, T* dx, const Launch& launch) const {
        bool is_done = false;
        BK_TRY(windows_to_image(launch, image().copy(stride_dx, stride_dy), sizeof(T), dy, dx, &is_done));
        return is_done ? Status::kOk : gather_adjoint(launch, folded(), dy, dx);
    }
};

}  // namespace bk
