// SPDX-License-Identifier: Apache-2.0
// Bilinear and nearest interpolation of dense NCHW images under the names and conventions of the reference ABI: gradients are
// added to dinput, and the workspace stands before the scalars.
#pragma once

#include <cstdint>

#include "core/abi/operand.h"
#include "image/resample/interpolate.h"

namespace bk::image {

struct Upsample2d {
    int32_t n, c, ih, iw, oh, ow;

    Work work(bool is_backward) const {
        return all_or_none(int64_t{n} * c * (is_backward ? int64_t{ih} * iw : int64_t{oh} * ow) *
                           (is_backward && oh * int64_t{ow} == 0 ? 0 : 1));
    }
    BK_COLD Status check() const {
        BK_TRY(require_non_negative({{"n", n}, {"c", c}, {"ih", ih}, {"iw", iw}, {"oh", oh}, {"ow", ow}}));
        const bool has_output = n > 0 && c > 0 && oh > 0 && ow > 0;
        for (const NamedExtent& e : {NamedExtent{"ih", ih}, NamedExtent{"iw", iw}})
            if (e.value == 0 && has_output)
                return fail(Status::kInvalidProblem, "%s is 0, must be >= 1 for a non-empty output", e.name);
        return Status::kOk;
    }
    ImageLayout layout(int64_t height, int64_t width) const {
        ImageLayout layout;
        const int64_t extents[5] = {n, c, 1, height, width};
        const int64_t strides[5] = {c * height * width, height * width, 0, width, 1};
        for (int d = 0; d < 5; ++d) layout.extent[d] = extents[d], layout.stride[d] = strides[d];
        return layout;
    }
    ImageLayout input() const { return layout(ih, iw); }
    ImageLayout output() const { return layout(oh, ow); }
    SampleAxes axes(ResampleMode mode, bool align_corners, double scale_h, double scale_w) const {
        SampleAxes axes;
        axes.of[1] = SampleAxis::of(mode, ih, oh, align_corners, scale_h, 0);
        axes.of[2] = SampleAxis::of(mode, iw, ow, align_corners, scale_w, 0);
        return axes;
    }
};

template <class T>
struct UpsampleNearest2dFw {
    int32_t n, c, ih, iw, oh, ow;

    Upsample2d images() const { return {n, c, ih, iw, oh, ow}; }
    Work work() const { return images().work(false); }
    Status check() const { return images().check(); }
    Status run(const T* input, T* output, const Launch& launch) const {
        return nearest(launch, images().axes(ResampleMode::kNearest, false, 0, 0), images().input(), input, images().output(),
                       output);
    }
};

template <class T>
struct UpsampleNearest2dBw {
    int32_t n, c, ih, iw, oh, ow;

    Upsample2d images() const { return {n, c, ih, iw, oh, ow}; }
    Work work() const { return images().work(true); }
    Status check() const { return images().check(); }
    Status run(const T* dout, T* dinput, const Launch& launch) const {
        return window_sum(launch, images().axes(ResampleMode::kNearest, false, 0, 0), true, true, images().output(), dout,
                          images().input(), dinput);
    }
};

BK_COLD inline Status check_factors(double scale_h_factor, double scale_w_factor) {
    const struct {
        const char* name;
        double value;
    } factors[] = {{"scale_h_factor", scale_h_factor}, {"scale_w_factor", scale_w_factor}};
    for (const auto& factor : factors)
        if (!std::isfinite(factor.value) || factor.value < 0 || (factor.value > 0 && !std::isfinite(1 / factor.value)))
            return fail(Status::kInvalidProblem, "%s is %g, must be finite and >= 0", factor.name, factor.value);
    return Status::kOk;
}

// The operands of a call, from input or dout to output or dinput.
BK_COLD inline Status check_bilinear(const Upsample2d& images, bool is_backward, int64_t size, const void* from, void* to) {
    BK_TRY(images.check());
    Operand operands[2];
    const NamedExtent in_h{"ih", images.ih}, in_w{"iw", images.iw}, out_h{"oh", images.oh}, out_w{"ow", images.ow};
    const NamedExtent n{"n", images.n}, c{"c", images.c};
    BK_TRY(locate_dense(operands, is_backward ? "dout" : "input", Role::kInput, size,
                        {n, c, is_backward ? out_h : in_h, is_backward ? out_w : in_w}));
    BK_TRY(locate_dense(operands + 1, is_backward ? "dinput" : "output", Role::kOutput, size,
                        {n, c, is_backward ? in_h : out_h, is_backward ? in_w : out_w}));
    operands[0].pointer = from;
    operands[1].pointer = to;
    const Work work = images.work(is_backward);
    return work == Work::kNone ? Status::kOk : require_pointers(operands, operands + 2, work);
}

template <class T, bool kIsBackward>
Status run_bilinear(int32_t n, int32_t c, int32_t ih, int32_t iw, int32_t oh, int32_t ow, const void* from, void* to,
                    void* workspace, size_t workspace_bytes, int32_t align_corners, double scale_h_factor,
                    double scale_w_factor, void* stream) {
    const Upsample2d images{n, c, ih, iw, oh, ow};
    BK_TRY(check_bilinear(images, kIsBackward, sizeof(T), from, to));
    BK_TRY(check_factors(scale_h_factor, scale_w_factor));
    if (images.work(kIsBackward) == Work::kNone) return Status::kOk;
    const SampleAxes axes = images.axes(ResampleMode::kLinear, align_corners != 0, scale_h_factor, scale_w_factor);
    return window_sum({workspace, workspace_bytes, stream}, axes, kIsBackward, kIsBackward,
                      kIsBackward ? images.output() : images.input(), static_cast<const T*>(from),
                      kIsBackward ? images.input() : images.output(), static_cast<T*>(to));
}

inline Status can_bilinear(int32_t n, int32_t c, int32_t ih, int32_t iw, int32_t oh, int32_t ow, const void*, const void*,
                           const void*, size_t, int32_t, double scale_h_factor, double scale_w_factor) {
    BK_TRY(Upsample2d({n, c, ih, iw, oh, ow}).check());
    return check_factors(scale_h_factor, scale_w_factor);
}

}  // namespace bk::image
