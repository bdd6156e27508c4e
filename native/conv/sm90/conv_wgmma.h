// SPDX-License-Identifier: Apache-2.0
// Hopper wgmma convolution: which problems it serves, and the interface of conv/sm90/conv_sm90a.cu.
//
//   direction        A, 128 rows                  B, 64 to 256 columns           K elements
//   forward          windows of x                 output channels of w           taps, input channels
//   gradient of x    windows of dy, flipped taps  input channels of w            taps, output channels
//   gradient of w    output channels of dy        taps and input channels of x   windows
//
// TMA reads windows where they lie (core/intrinsics/image_map.h). Channels are adjacent, results are rows of one pitch, and
// there is one group. Few tiles are computed in slices of K, whose f32 partials the workspace holds and which are added in
// order: the number of slices follows from the extents alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <type_traits>

#include "conv/core.h"
#include "conv/epilogue.h"
#include "conv/tap_sums.h"
#include "core/abi/arch.h"
#include "core/abi/workspace.h"
#include "core/intrinsics/image_axis.h"
#include "gemm/tiled/matmul_split_k.cuh"

namespace bk {

template <class T>
constexpr bool kHasConvWgmma = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

constexpr int64_t kConvRows = 128, kConvDepth = 64;  // rows and K elements of a stage

// A convolution as such a GEMM. `image` is read by windows, `matrix` is w, or dy for the gradient of w.
template <class T>
struct ConvWgmma {
    using E = matmul_element_t<T>;
    bool is_filter = false;
    bool is_mapped = false;  // rows of the results are not of one pitch, but multiples of it
    TapSums sums;            // taps of the windows; steps of taps are positive
    int64_t first_weight = 0;
    int64_t m = 0, n = 0, pitch = 0;  // of the results
    int64_t matrix_pitch = 0;         // of dy
    int64_t chunks = 0, steps = 0;    // of kConvDepth channels; of K
    int64_t slices = 1, slice_steps = 0;
    int columns = 128;
    const E *image = nullptr, *matrix = nullptr;

    bool is_valid() const { return m > 0; }
    int64_t partials() const { return slices > 1 ? slices * m * n : 0; }
};

template <class T>
Status conv_sm90a(const Launch& launch, const ConvWgmma<T>& conv, const Epilogue<T>& epilogue);

template <class T>
auto conv_wgmma_on(int arch) {
    return choose({BK_SM(90a, conv_sm90a<T>)}, arch).run;
}

// Sums with positive steps of taps.
inline TapSums with_rising_taps(const TapSums& given, int64_t* first_weight) {
    TapSums p = given;
    *first_weight = 0;
    for (TapAxis& a : p.axis) {
        if (a.tap_step > 0 || a.taps < 2) continue;
        a.first += (a.taps - 1) * a.tap_step;
        *first_weight += (a.taps - 1) * a.weight_stride;
        a.tap_step = -a.tap_step;
        a.weight_stride = -a.weight_stride;
    }
    return p;
}

inline ImageAxis image_axis(const TapAxis& a) {
    return {a.extent, a.source_stride, a.positions, a.first, a.step, a.taps > 1 ? (a.taps - 1) * a.tap_step : 0};
}

// The distance of pixels in memory, if windows in row-major order are rows of one pitch; else 0.
inline int64_t rows_pitch(const TapSums& p) {
    int64_t pitch = 0, count = 1;
    const auto append = [&](int64_t extent, int64_t stride) {
        if (extent > 1 && count > 1 && stride != pitch * count) return false;
        if (extent > 1 && count == 1) pitch = stride;
        count *= extent;
        return true;
    };
    for (int d = kTapAxes; d-- > 0;)
        if (!append(p.axis[d].positions, p.axis[d].result_stride)) return 0;
    return append(p.batch, p.result_n) ? pitch : 0;
}

// The distance in memory of which those of all windows are multiples.
inline int64_t rows_unit(const TapSums& p) {
    int64_t unit = p.batch > 1 ? p.result_n : 0;
    for (const TapAxis& a : p.axis)
        if (a.positions > 1) unit = std::gcd(unit, a.result_stride);
    return unit;
}

// The distance of taps, of which all others are multiples.
inline int64_t tap_unit(const TapSums& p) {
    int64_t unit = 0;
    for (const TapAxis& a : p.axis)
        if (a.taps > 1) unit = unit == 0 ? std::abs(a.weight_stride) : std::min(unit, std::abs(a.weight_stride));
    for (const TapAxis& a : p.axis)
        if (a.taps > 1 && (unit == 0 || a.weight_stride % unit != 0)) return 0;
    return unit == 0 ? kConvDepth : unit;
}

// Whether TMA reads the source of the sums by windows of E.
template <class E>
bool has_image_windows(const TapSums& p) {
    constexpr int64_t kLanes = kVectorLanes<E>, kMaxPixels = INT32_MAX - 2 * kConvRows, kMaxElements = int64_t{1} << 38;
    int64_t elements = p.inputs * p.batch;
    if (p.source_c != 1 || p.groups != 1 || p.positions() > kMaxPixels / std::max<int64_t>(p.batch, 1)) return false;
    for (const TapAxis& a : p.axis) {
        if (a.taps < 1 || a.positions < 1 || !fits_image_map(image_axis(a))) return false;
        if (a.extent > 1 && (a.source_stride <= 0 || a.source_stride % kLanes != 0 || a.source_stride > kMaxElements))
            return false;
        elements *= a.extent;
    }
    const bool has_images = p.batch == 1 || (p.source_n > 0 && p.source_n % kLanes == 0 && p.source_n <= kMaxElements);
    return has_images && elements * static_cast<int64_t>(sizeof(E)) >= kLeastImageBytes;
}

// Columns of the tiles and slices of K by a model of the time, in nanoseconds on a chip of kReferenceSms SMs.
struct WgmmaTiles {
    int columns = 128;
    int64_t slices = 1;
};

inline WgmmaTiles choose_wgmma_tiles(int64_t m, int64_t n, int64_t steps, bool is_filter, bool may_slice) {
    constexpr int64_t kLeastSteps = 8, kMostSlices = 64, kTile = 2500, kFinish = 4000;
    constexpr double kBytesPerNanosecond = 2500;  // of the partials
    struct Width {
        int columns;
        int64_t step;  // of a stage
    };
    WgmmaTiles best;
    double best_time = 0;
    for (const Width& width : {Width{64, 400}, Width{128, 500}, Width{256, 850}}) {
        if (width.columns == 64 && is_filter) continue;
        const int64_t tiles = ceil_div(m, kConvRows) * ceil_div<int64_t>(n, width.columns);
        const int64_t most = may_slice && tiles < kReferenceSms ? std::min(kMostSlices, steps / kLeastSteps) : 1;
        for (int64_t slices = 1; slices <= std::max<int64_t>(most, 1); ++slices) {
            const int64_t waves = ceil_div(tiles * slices, kReferenceSms);
            double time = static_cast<double>(waves * (kTile + ceil_div(steps, slices) * width.step));
            if (slices > 1) time += kFinish + 8.0 * static_cast<double>(slices * m * n) / kBytesPerNanosecond;
            if (best_time != 0 && time >= best_time) continue;
            best_time = time;
            best = {width.columns, slices};
        }
    }
    return best;
}

// Sums over taps, or the gradient of their filter, as such a GEMM; not valid where these kernels do not serve them.
template <class T>
ConvWgmma<T> wgmma_of_sums(const TapSums& given, bool is_filter, bool may_slice) {
    using E = matmul_element_t<T>;
    constexpr int64_t kLanes = kVectorLanes<E>, kLeastChannels = 32;
    ConvWgmma<T> conv;
    conv.is_filter = is_filter;
    conv.sums = with_rising_taps(given, &conv.first_weight);
    const TapSums& p = conv.sums;
    const int64_t pixels = p.batch * p.positions(), unit = tap_unit(p);
    if (p.taps() > 0 && (!has_image_windows<E>(p) || unit == 0 || unit % kLanes != 0)) return {};
    if (std::min(p.inputs, p.outputs) < kLeastChannels || p.inputs % kLanes != 0 || p.outputs % kLanes != 0) return {};
    if (p.result_c != 1 || pixels > INT32_MAX - 2 * kConvRows) return {};
    conv.chunks = ceil_div(p.inputs, kConvDepth);
    conv.pitch = rows_pitch(p);
    if (is_filter) {
        // columns are K elements of w in the order of memory
        int64_t expected = p.inputs;
        for (int d = kTapAxes; d-- > 0; expected *= p.axis[d].taps)
            if (p.axis[d].taps > 1 && p.axis[d].weight_stride != expected) return {};
        if (p.weight_in != 1 || conv.pitch <= 0 || conv.pitch % kLanes != 0 || (p.taps() > 1 && p.inputs % kConvDepth != 0))
            return {};
        conv.m = p.outputs;
        conv.n = p.taps() * p.inputs;
        conv.matrix_pitch = conv.pitch;
        conv.pitch = p.weight_out;
        conv.steps = ceil_div(pixels, kConvDepth);
    } else {
        const int64_t across = p.weight_in == 1 ? p.weight_out : p.weight_in;
        if (std::min(p.weight_in, p.weight_out) != 1 || across % kLanes != 0) return {};
        conv.is_mapped = conv.pitch <= 0;
        if (conv.is_mapped) conv.pitch = rows_unit(p);
        if (conv.pitch % kLanes != 0) return {};
        conv.m = pixels;
        conv.n = p.outputs;
        conv.steps = p.taps() * conv.chunks;
    }
    const WgmmaTiles chosen = choose_wgmma_tiles(conv.m, conv.n, conv.steps, is_filter, may_slice && !conv.is_mapped);
    conv.columns = chosen.columns;
    conv.slice_steps = ceil_div(conv.steps, chosen.slices);
    conv.slices = conv.steps == 0 ? 1 : ceil_div(conv.steps, conv.slice_steps);
    return conv;
}

// Whether GEMMs of so much work are worth these kernels' launch.
template <class T>
struct WgmmaWork {
    double work = 0;
    int64_t blocks = 0;

    void add(const ConvWgmma<T>& conv) {
        work += static_cast<double>(conv.m) * static_cast<double>(conv.n) * static_cast<double>(conv.steps * kConvDepth);
        blocks += ceil_div(conv.m, kConvRows) * ceil_div<int64_t>(conv.n, conv.columns) * conv.slices;
    }
    bool suits() const {
        constexpr double kLeastWork = 1 << 27;
        constexpr int64_t kLeastBlocks = 24;
        return work >= kLeastWork && blocks >= kLeastBlocks;
    }
};

// The direction as one such GEMM; not valid where these kernels do not serve or suit it.
template <class T>
ConvWgmma<T> conv_wgmma_of(const ConvShape& s, ConvDirection direction, bool has_workspace) {
    if (s.groups != 1 || s.is_empty(direction)) return {};
    const bool is_data = direction == ConvDirection::kBackwardData;
    for (const ConvAxis& a : s.axis)
        if (is_data && a.step != 1) return {};
    const TapSums sums = is_data ? data_phase(s, {0, 0, 0}).sums : forward_sums(s);
    const ConvWgmma<T> conv = wgmma_of_sums<T>(sums, direction == ConvDirection::kBackwardFilter, has_workspace);
    WgmmaWork<T> work;
    if (conv.is_valid()) work.add(conv);
    return work.suits() ? conv : ConvWgmma<T>{};
}

// Whether a GEMM for each phase serves and suits the gradient of x of a convolution with steps.
template <class T>
bool has_wgmma_phases(const ConvShape& s) {
    if (s.groups != 1 || s.is_empty(ConvDirection::kBackwardData)) return false;
    WgmmaWork<T> work;
    int64_t phases = 1;
    for (const ConvAxis& a : s.axis) phases = saturating_product(phases, std::min(a.step, a.in));
    constexpr int64_t kMostPhases = 16;
    if (phases > kMostPhases) return false;
    const Status found = for_each_phase(s, [&](const DataPhase& phase) {
        const ConvWgmma<T> conv = wgmma_of_sums<T>(phase.sums, false, false);
        if (conv.is_valid()) work.add(conv);
        return conv.is_valid() ? Status::kOk : Status::kUnsupported;
    });
    return found == Status::kOk && work.suits();
}

template <class T>
size_t conv_wgmma_bytes(const ConvWgmma<T>& conv) {
    Carver carver;
    carver.take<matmul_scalar_t<T>>(conv.partials());
    return carver.bytes();
}

// Computes `result` from image and matrix; sets *is_done if the chip has the kernel and it suits.
template <class T>
Status conv_by_wgmma(const Launch& launch, const ConvShape& s, ConvDirection direction, const matmul_element_t<T>* image,
                     const matmul_element_t<T>* matrix, matmul_element_t<T>* result, const ConvEpilogue<T>& given,
                     bool* is_done) {
    *is_done = false;
    if constexpr (kHasConvWgmma<T>) {
        const auto run = conv_wgmma_on<T>(device_arch());
        if (run == nullptr || !is_aligned(image, kVectorBytes) || !is_aligned(matrix, kVectorBytes)) return Status::kOk;
        const auto epilogue_of = [&](int64_t pitch) {
            Epilogue<T> e = conv_epilogue<T>(given, result, pitch);
            e.bias = given.bias;
            return e;
        };
        ConvWgmma<T> conv = conv_wgmma_of<T>(s, direction, true);
        if (conv.is_valid() && conv.slices > 1 && !workspace_holds(launch, conv_wgmma_bytes(conv)))
            conv = conv_wgmma_of<T>(s, direction, false);
        if (conv.is_valid()) {
            *is_done = true;
            conv.image = image;
            conv.matrix = matrix;
            return run(launch, conv, epilogue_of(conv.pitch));
        }
        if (direction != ConvDirection::kBackwardData || !has_wgmma_phases<T>(s)) return Status::kOk;
        *is_done = true;
        return for_each_phase(s, [&](const DataPhase& phase) {
            ConvWgmma<T> own = wgmma_of_sums<T>(phase.sums, false, false);
            own.image = image;
            own.matrix = matrix + phase.weight;
            return run(launch, own, offset_epilogue(epilogue_of(own.pitch), phase.result));
        });
    }
    return Status::kOk;
}

}  // namespace bk
