// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels on fibers against a plain loop: dense operands, vectors, tiles, elements. Functors are the CPU's;
// the test is which elements are read, computed and written.
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "core/pointwise/pointwise.h"
#include "elementwise/functors/arithmetic.h"
#include "elementwise/functors/ternary_functions.h"

namespace bk {

Status fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    return status;
}

}  // namespace bk

namespace {

using namespace bk;

template <class T, size_t>
using Same = T;

template <class T>
T draw() {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(state >> 8);
    else
        return narrow<T>(static_cast<compute_t<T>>(static_cast<int32_t>(state >> 20) - 2048) / 256);
}

// Positional functor that adds the index, by segments of seven; records calls outside the array.
struct AddPosition {
    int64_t numel;
    bool* asked_beyond;
    struct Segment {
        int64_t count, first;
        float operator()(int64_t k, float x) const { return x + static_cast<float>(first + k); }
    };
    Segment at(int64_t i) const {
        if (i < 0 || i >= numel) *asked_beyond = true;
        return {7 - i % 7, i};
    }
};

// Differences of operands' strides from dense ones.
enum Kind {
    kDense,
    kTransposeFirst,
    kTransposeInputs,
    kTransposeOutputs,
    kBroadcast,
    kPad16,
    kPad3,
    kFlip,
    kKinds,
    kBroadcastLast = kKinds
};

struct Shape {
    int64_t batches, rows, columns;
};

// An array with guard elements before and after it; arguments count elements.
template <class T>
struct Array {
    std::vector<T> cells;
    T* first;
    int64_t stride[3];

    Array(const Shape& shape, bool transposed, bool broadcast, bool broadcast_last, bool flipped, int64_t pad, int shift) {
        const int64_t outer = transposed ? shape.columns : shape.rows, pitch = (transposed ? shape.rows : shape.columns) + pad;
        stride[0] = pitch * outer;
        stride[1] = broadcast ? 0 : transposed ? 1 : pitch;
        stride[2] = transposed ? pitch : 1;
        cells.resize(static_cast<size_t>(stride[0] * shape.batches + 64));
        for (T& cell : cells) cell = draw<T>();
        const size_t lead = (16 - reinterpret_cast<uintptr_t>(cells.data()) % 16) % 16 / sizeof(T);
        first = cells.data() + 16 + lead + shift;
        if (broadcast_last) stride[2] = 0;
        if (flipped) first += (shape.columns - 1) * stride[2], stride[2] = -stride[2];
    }
};

template <class T, class Fn, size_t... O, size_t... I>
bool is_right(const Fn& fn, const Shape& shape, Kind kind, int shift, std::index_sequence<O...>, std::index_sequence<I...>) {
    constexpr int kOut = sizeof...(O), kIn = sizeof...(I), kAll = kOut + kIn;
    std::vector<Array<T>> array;
    for (int k = 0; k < kAll; ++k) {
        const bool output = k < kOut, transposed = (kind == kTransposeFirst && k == kOut) ||
                                                   (kind == kTransposeInputs && !output) ||
                                                   (kind == kTransposeOutputs && output) || (kind == kFlip && k == kOut);
        const int64_t pad = kind == kPad16 ? 16 : kind == kPad3 || kind == kFlip ? 3 : 0;
        array.emplace_back(shape, transposed, kind == kBroadcast && k == kOut, kind == kBroadcastLast && !output,
                           kind == kFlip && k == kAll - 1, pad, shift * (k % 5));
    }
    const int64_t extent[3] = {shape.batches, shape.rows, shape.columns};
    Layout<kAll> layout;
    for (int d = 0; d < 3; ++d) {
        int64_t stride[kAll];
        for (int k = 0; k < kAll; ++k) stride[k] = array[k].stride[d];
        layout.append(extent[d], stride);
    }
    std::vector<T> wanted[] = {array[O].cells...};
    const bool lacks_first = kOut > 1 && kind == kTransposeInputs;
    for (int64_t i = 0; i < layout.numel(); ++i) {
        const int64_t at[3] = {i / (extent[1] * extent[2]), i / extent[2] % extent[1], i % extent[2]};
        const auto offset = [&](int k) {
            return at[0] * array[k].stride[0] + at[1] * array[k].stride[1] + at[2] * array[k].stride[2];
        };
        const Pack<Vec<Same<T, I>, 1>...> x = pack(Vec<Same<T, I>, 1>{{array[kOut + I].first[offset(kOut + I)]}}...);
        Pack<Vec<Same<T, O>, 1>...> y;
        compute<1>(fn, i, x, y, std::index_sequence<I...>{});
        ((lacks_first && O == 0
              ? void()
              : void(wanted[O][static_cast<size_t>(array[O].first - array[O].cells.data() + offset(O))] = get<O>(y).lane[0])),
         ...);
    }
    const Outputs<Same<T, O>...> out{pack((lacks_first && O == 0 ? static_cast<T*>(nullptr) : array[O].first)...)};
    const Inputs<Same<T, I>...> in{pack(static_cast<const T*>(array[kOut + I].first)...)};
    if (pointwise_strided(Launch{}, layout, fn, out, in) != Status::kOk) return false;
    return (... && (memcmp(wanted[O].data(), array[O].cells.data(), wanted[O].size() * sizeof(T)) == 0));
}

template <class T, int kOut, int kIn, class Fn>
bool all_right_of(const char* name, const Fn& fn, const Shape& shape) {
    const bool large = shape.columns > 1 << 16;
    bool right = true;
    for (int kind = kDense; kind < (large ? kDense + 1 : kKinds); ++kind)
        for (int shift = 0; shift < (large ? 1 : 2); ++shift) {
            if (kIsPositional<Fn> && kind == kTransposeOutputs) continue;  // positions follow the first output's order
            if (is_right<T>(fn, shape, static_cast<Kind>(kind), shift, std::make_index_sequence<kOut>{},
                            std::make_index_sequence<kIn>{}))
                continue;
            printf("%s is wrong: shape %d %d %d, kind %d, shift %d\n", name, static_cast<int>(shape.batches),
                   static_cast<int>(shape.rows), static_cast<int>(shape.columns), kind, shift);
            right = false;
        }
    return right;
}

bool position_is_right() {
    constexpr Shape kShapes[] = {{1, 70, 90}, {3, 21, 23}, {1, 1, 4099}};
    bool right = true, asked_beyond = false;
    for (const Shape& shape : kShapes)
        right = all_right_of<float, 1, 1>("position f32",
                                          AddPosition{shape.batches * shape.rows * shape.columns, &asked_beyond}, shape) &&
                right;
    if (asked_beyond) puts("a functor of the position was asked beyond the end");
    return right && !asked_beyond;
}

template <class T, int kOut, int kIn, class Fn>
bool all_right(const char* name, const Fn& fn) {
    constexpr Shape kShapes[] = {{1, 70, 90}, {1, 21, 23}, {3, 66, 34}, {2, 64, 64}, {1, 3, 4096}, {1, 5, 2903}, {7, 1, 3}};
    bool right = true;
    for (const Shape& shape : kShapes) right = all_right_of<T, kOut, kIn>(name, fn, shape) && right;
    return right;
}

}  // namespace

int main() {
    bool right = all_right<f16, 1, 1>("neg f16", op::Neg<f16>{});
    right = all_right<float, 1, 1>("neg f32", op::Neg<float>{}) && right;
    right = all_right<int8_t, 1, 2>("add i8", op::Add<int8_t>{}) && right;
    right = all_right<bf16, 1, 2>("add bf16", op::Add<bf16>{}) && right;
    right = all_right<float, 1, 2>("add f32", op::Add<float>{}) && right;
    right = all_right<bf16, 3, 4>("clamp_backward bf16", op::ClampBackward<bf16>{}) && right;
    right = all_right<double, 3, 4>("clamp_backward f64", op::ClampBackward<double>{}) && right;
    right = position_is_right() && right;
    // Enough vectors for several per thread, plus a tail.
    constexpr int64_t kMany = (int64_t{1} << 17) + 500;
    right = all_right_of<float, 1, 1>("neg f32", op::Neg<float>{}, {1, 1, 4 * kMany + 3}) && right;
    right = all_right_of<int8_t, 1, 2>("add i8", op::Add<int8_t>{}, {1, 1, 16 * kMany + 15}) && right;
    // Rows of one broadcast value, which a thread stores several times.
    for (const int shift : {0, 1})
        right = is_right<float>(op::Neg<float>{}, {1, 36, 65528}, kBroadcastLast, shift, std::make_index_sequence<1>{},
                                std::make_index_sequence<1>{}) &&
                right;
    if (right) puts("ok");
    return right ? 0 : 1;
}
