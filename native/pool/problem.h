// SPDX-License-Identifier: Apache-2.0
// Checks of pooling, and its problem from the arguments of C: strided images with any options, and the dense ones of
// the functions with a rank in their name.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/abi/checks.h"
#include "core/abi/operand.h"
#include "core/abi/strided_args.h"
#include "pool/windows.h"

namespace bk::pool {

constexpr int64_t kMostCells = INT32_MAX;  // of an axis with its padding, and of a window

BK_COLD inline Status require_positive(const char* name, int64_t value) {
    if (value > 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be > 0", name, static_cast<long long>(value));
}

// Entries of a host array for each spatial axis, each at least `least`.
BK_COLD inline Status require_entries(const char* name, const int32_t* array, int32_t count, int32_t least) {
    if (array == nullptr) return fail(Status::kInvalidProblem, "%s is NULL", name);
    for (int32_t d = 0; d < count; ++d)
        if (array[d] < least) return fail(Status::kInvalidProblem, "%s[%d] is %d, must be >= %d", name, d, array[d], least);
    return Status::kOk;
}

// Extents [N, C, spatial] of an operand.
struct ImageShape {
    int32_t of[2 + kAxes] = {};
};

BK_COLD inline Status locate_image(Operand* operand, const char* name, Role role, int64_t size, const char* strides_name,
                                   int32_t rank, const ImageShape& shape, const int64_t* strides) {
    BK_TRY(locate_strided(operand, name, role, size, strides_name, rank, shape.of, strides, nullptr));
    operand->rank = 0;  // no input has these extents, so it is never compared as an alias
    operand->shape = nullptr;
    operand->strides = nullptr;
    return Status::kOk;
}

// Strides of an axis of one element count as 0: the caller's value may be too large to multiply.
BK_COLD inline Strides strides_of(int32_t rank, const ImageShape& shape, const int64_t* strides) {
    const auto at = [&](int32_t d) { return shape.of[d] > 1 ? strides[d] : 0; };
    Strides found;
    found.batch = at(0), found.channel = at(1);
    for (int32_t d = 2; d < rank; ++d) found.axis[kAxes - rank + d] = at(d);
    return found;
}

// An image of any rank and strides.
struct Image {
    int32_t rank;
    const int32_t* input_shape;

    int32_t spatial() const { return rank - 2; }
    ImageShape shape() const {
        ImageShape found;
        std::copy(input_shape, input_shape + rank, found.of);
        return found;
    }
    BK_COLD Status check() const {
        if (rank < 3 || rank > 2 + kAxes)
            return fail(Status::kInvalidProblem, "rank is %d, must be in [3, %d]", rank, 2 + kAxes);
        BK_TRY(require_shape("input_shape", input_shape, rank));
        for (int32_t d = 2; d < rank; ++d)
            if (input_shape[d] == 0) return fail(Status::kInvalidProblem, "input_shape[%d] is 0, must be > 0", d);
        return Status::kOk;
    }
    int64_t planes() const { return int64_t{input_shape[0]} * input_shape[1]; }
    Problem problem() const {
        Problem p;
        p.batch = input_shape[0], p.channels = input_shape[1];
        return p;
    }
};

// Strides must exist; those of an output are not 0 along an axis of several elements.
BK_COLD inline Status check_strides(const NamedStrides& strides, int32_t rank, const ImageShape& shape, bool is_output) {
    BK_TRY(require_strides(&strides, &strides + 1, rank));
    for (int32_t d = 0; d < rank; ++d)
        if (shape.of[d] == 0) return Status::kOk;
    return is_output ? require_distinct(strides, rank, shape.of) : Status::kOk;
}

// Windows along the spatial axes of an image.
struct WindowArguments {
    Image image;
    const int32_t *kernel_size, *steps, *padding_low, *padding_high, *dilation;
    int32_t ceil_mode;

    int64_t reach(int32_t d) const { return int64_t{dilation[d]} * (kernel_size[d] - 1) + 1; }
    // Windows along an axis; below 1 if none fits. With ceil_mode the last one may leave the padded image, but begins in
    // the image or the padding before it.
    int64_t count(int32_t d) const {
        const int64_t padded = int64_t{image.input_shape[2 + d]} + padding_low[d] + padding_high[d];
        const int64_t slack = padded - reach(d) + (ceil_mode != 0 ? steps[d] - 1 : 0);
        if (slack < 0) return 0;
        const int64_t count = slack / steps[d] + 1;
        const bool is_behind = (count - 1) * steps[d] >= int64_t{image.input_shape[2 + d]} + padding_low[d];
        return ceil_mode != 0 && is_behind ? count - 1 : count;
    }
    ImageShape windows() const {
        ImageShape shape{{image.input_shape[0], image.input_shape[1]}};
        for (int32_t d = 0; d < image.spatial(); ++d) shape.of[2 + d] = static_cast<int32_t>(count(d));
        return shape;
    }
    BK_COLD Status check() const {
        BK_TRY(image.check());
        const int32_t spatial = image.spatial();
        BK_TRY(require_entries("kernel_size", kernel_size, spatial, 1));
        BK_TRY(require_entries("steps", steps, spatial, 1));
        BK_TRY(require_entries("padding_low", padding_low, spatial, 0));
        BK_TRY(require_entries("padding_high", padding_high, spatial, 0));
        BK_TRY(require_entries("dilation", dilation, spatial, 1));
        int64_t cells = 1;
        for (int32_t d = 0; d < spatial; ++d) {
            const int64_t padded = int64_t{image.input_shape[2 + d]} + padding_low[d] + padding_high[d];
            if (padded + steps[d] > kMostCells)
                return fail(Status::kInvalidProblem,
                            "steps[%d] is %d: with padding the axis has %lld cells, together 2^31 or more", d, steps[d],
                            static_cast<long long>(padded));
            for (const auto& side : {NamedExtent{"padding_low", padding_low[d]}, NamedExtent{"padding_high", padding_high[d]}})
                if (side.value >= reach(d))
                    return fail(Status::kInvalidProblem, "%s[%d] is %lld, must be less than the window, %lld", side.name, d,
                                static_cast<long long>(side.value), static_cast<long long>(reach(d)));
            if (count(d) < 1)
                return fail(
                    Status::kInvalidProblem,
                    "kernel_size[%d] is %d: with dilation %d no window fits into input_shape[%d], %d, and padding %d, %d", d,
                    kernel_size[d], dilation[d], 2 + d, image.input_shape[2 + d], padding_low[d], padding_high[d]);
            cells = std::min(cells * kernel_size[d], kMostCells + 1);
        }
        if (cells > kMostCells)
            return fail(Status::kInvalidProblem, "kernel_size[0] is %d: a window would have 2^31 cells or more",
                        kernel_size[0]);
        return Status::kOk;
    }
    BK_COLD Problem problem() const {
        Problem p = image.problem();
        for (int32_t d = 0; d < image.spatial(); ++d)
            p.axis[kAxes - image.spatial() + d] =
                Axis::windows(image.input_shape[2 + d], static_cast<int32_t>(count(d)), kernel_size[d], steps[d], dilation[d],
                              padding_low[d], padding_high[d]);
        return p;
    }
    Strides cell_strides(const int64_t* strides) const { return strides_of(image.rank, image.shape(), strides); }
    Strides window_strides(const int64_t* strides) const { return strides_of(image.rank, windows(), strides); }
};

// Outputs of given extents along the spatial axes.
struct OutputArguments {
    Image image;
    const int32_t* output_size;

    ImageShape outputs() const {
        ImageShape shape{{image.input_shape[0], image.input_shape[1]}};
        std::copy(output_size, output_size + image.spatial(), shape.of + 2);
        return shape;
    }
    BK_COLD Status check() const {
        BK_TRY(image.check());
        return require_entries("output_size", output_size, image.spatial(), 0);
    }
    int64_t planes_of_outputs() const {
        int64_t all = image.planes();
        for (int32_t d = 0; d < image.spatial(); ++d) all = std::min(all, kMaxOperandBytes) * output_size[d];
        return all;
    }
    Problem adaptive() const {
        Problem p = image.problem();
        for (int32_t d = 0; d < image.spatial(); ++d)
            p.axis[kAxes - image.spatial() + d] = Axis::adaptive(image.input_shape[2 + d], output_size[d]);
        return p;
    }
    Strides cell_strides(const int64_t* strides) const { return strides_of(image.rank, image.shape(), strides); }
    Strides output_strides(const int64_t* strides) const { return strides_of(image.rank, outputs(), strides); }
};

// Row-major strides of all operands.
BK_COLD inline Problem dense(Problem p) {
    const auto strides = [&](int32_t a, int32_t b, int32_t c) {
        Strides s;
        s.axis[2] = 1, s.axis[1] = c, s.axis[0] = int64_t{b} * c;
        s.channel = a * s.axis[0], s.batch = p.channels * s.channel;
        return s;
    };
    p.x = p.dx = strides(p.axis[0].in, p.axis[1].in, p.axis[2].in);
    p.y = p.dy = p.indices = strides(p.axis[0].out, p.axis[1].out, p.axis[2].out);
    return p;
}

// An axis of a function with a rank in its name, whose arguments are called h_in, h_out, kh, sh, ph.
struct DenseAxis {
    char letter;
    int32_t in, out, kernel, step, padding;
};

// Checks an argument that has the axis' letter: "h_in" for prefix "" and suffix "_in".
BK_COLD inline Status fail_axis(char letter, const char* prefix, const char* suffix, int64_t value, const char* what) {
    return fail(Status::kInvalidProblem, "%s%c%s is %lld, must be %s", prefix, letter, suffix, static_cast<long long>(value),
                what);
}

// Dense windows of one to three axes, the last of kAxes.
struct DenseWindows {
    int32_t batch, channels;
    int rank;
    DenseAxis axis[kAxes];

    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"batch", batch}, {"channels", channels}}));
        for (int d = 0; d < rank; ++d)
            if (axis[d].in <= 0) return fail_axis(axis[d].letter, "", "_in", axis[d].in, "> 0");
        for (int d = 0; d < rank; ++d) {
            if (axis[d].kernel <= 0) return fail_axis(axis[d].letter, "k", "", axis[d].kernel, "> 0");
            if (axis[d].step <= 0) return fail_axis(axis[d].letter, "s", "", axis[d].step, "> 0");
        }
        for (int d = 0; d < rank; ++d) {
            if (axis[d].padding < 0) return fail_axis(axis[d].letter, "p", "", axis[d].padding, ">= 0");
            if (axis[d].padding > axis[d].kernel / 2)
                return fail_axis(axis[d].letter, "p", "", axis[d].padding, "at most half of the window");
        }
        int64_t cells = 1;
        for (int d = 0; d < rank; ++d) {
            const DenseAxis& a = axis[d];
            const int64_t padded = int64_t{a.in} + 2 * int64_t{a.padding}, slack = padded - a.kernel;
            if (padded + a.step > kMostCells)
                return fail_axis(a.letter, "s", "", a.step, "less: with it the axis has 2^31 cells");
            const int64_t windows = slack < 0 ? 0 : slack / a.step + 1;
            if (a.out <= 0) return fail_axis(a.letter, "", "_out", a.out, "> 0");
            if (a.out != windows)
                return fail(Status::kInvalidProblem, "%c_out is %d, but %lld windows fit", a.letter, a.out,
                            static_cast<long long>(windows));
            cells = std::min(cells * a.kernel, kMostCells + 1);
        }
        if (cells > kMostCells)
            return fail_axis(axis[0].letter, "k", "", axis[0].kernel, "less: a window would have 2^31 cells or more");
        return Status::kOk;
    }
    BK_COLD Problem problem() const {
        Problem p;
        p.batch = batch, p.channels = channels;
        for (int d = 0; d < rank; ++d) {
            const DenseAxis& a = axis[d];
            p.axis[kAxes - rank + d] = Axis::windows(a.in, a.out, a.kernel, a.step, 1, a.padding, a.padding);
        }
        return dense(p);
    }
    Work work() const { return all_or_none(int64_t{batch} * channels); }
};

}  // namespace bk::pool
