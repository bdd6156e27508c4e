// SPDX-License-Identifier: Apache-2.0
// Elements by the pointwise skeleton. A byte of two codes and its elements are one element of it, of which even and odd x are
// two operands. Both have one scale, or, where the last axis is the channels', adjacent ones.
#pragma once

#include <cstdint>

#include "core/pointwise/pointwise.h"
#include "quantize/affine/elements.h"

namespace bk::quantize {

// The code in four bits.
struct NibbleCodes {
    bool is_signed;
    BK_HD int32_t operator()(uint32_t nibble) const {
        const int32_t flip = is_signed ? 8 : 0;
        return (static_cast<int32_t>(nibble & 15) ^ flip) - flip;
    }
};

template <class C>
struct QuantizePair {
    static constexpr bool never_dense = true;
    Rule rule;
    BK_HD uint8_t operator()(C first, C second, C scale, C other_scale, int32_t zero, int32_t other_zero) const {
        const int32_t low = Affine<C>(rule, scale, zero).code(first),
                      high = Affine<C>(rule, other_scale, other_zero).code(second);
        return static_cast<uint8_t>((low & 15) | (high & 15) << 4);
    }
};

template <class C>
struct DequantizePair {
    static constexpr bool never_dense = true;
    NibbleCodes codes;
    BK_HD Pack<C, C> operator()(uint8_t byte, C scale, C other_scale, int32_t zero, int32_t other_zero) const {
        return pack(dequantized(codes(byte), scale, zero), dequantized(codes(byte >> 4u), other_scale, other_zero));
    }
};

// The scale of a tensor.
template <class C>
struct QuantizePairOfTensor {
    static constexpr bool never_dense = true;
    Affine<C> affine;
    BK_HD uint8_t operator()(C first, C second) const {
        return static_cast<uint8_t>((affine.code(first) & 15) | (affine.code(second) & 15) << 4);
    }
};

template <class C>
struct DequantizePairOfTensor {
    static constexpr bool never_dense = true;
    NibbleCodes codes;
    C scale;
    int32_t zero;
    BK_HD Pack<C, C> operator()(uint8_t byte) const {
        return pack(dequantized(codes(byte), scale, zero), dequantized(codes(byte >> 4u), scale, zero));
    }
};

// Offsets of the elements of bytes: bytes, x, scales in this order, with the offset of the second element's scale.
struct Pairs {
    int64_t extents[3], byte[3], x[3], scale[3];
    int64_t other_scale;

    // A scope whose fibers are even or one element long.
    static Pairs of(const Scope& s) {
        if (s.inner == 1 && s.scales % 2 == 0)
            return {{s.outer, s.scales / 2, 1}, {s.scales / 2, 1, 1}, {s.scales, 2, 2}, {0, 2, 0}, 1};
        return {{s.outer, s.scales, s.inner / 2},
                {s.scales * s.inner / 2, s.inner / 2, 1},
                {s.scales * s.inner, s.inner, 2},
                {0, 1, 0},
                0};
    }
    // Operands by letter: b for bytes, x, s for scales.
    template <int Operands>
    Layout<Operands> layout(const char (&kinds)[Operands + 1]) const {
        Layout<Operands> layout;
        for (int d = 0; d < 3; ++d) {
            int64_t strides[Operands];
            for (int k = 0; k < Operands; ++k) strides[k] = kinds[k] == 'b' ? byte[d] : kinds[k] == 'x' ? x[d] : scale[d];
            layout.append(extents[d], strides);
        }
        return layout;
    }
};

inline Layout<3> flat_pairs(int64_t bytes, bool byte_first) {
    Layout<3> layout;
    if (byte_first)
        layout.append(bytes, {1, 2, 2});
    else
        layout.append(bytes, {2, 2, 1});
    return layout;
}

template <class T>
Status quantize_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, const T* x, uint8_t* q) {
    using C = compute_t<T>;
    const T* const scale = coding.scale;
    const int32_t* const zero = coding.zero;
    if (scale == nullptr) {
        const Affine<C> affine(coding.rule, coding.own_scale, coding.own_zero);
        return pointwise_strided(launch, flat_pairs(coding.scope.inner / 2, true), QuantizePairOfTensor<C>{affine}, outputs(q),
                                 inputs(x, x + 1));
    }
    if (is_packed) {
        const Pairs pairs = Pairs::of(coding.scope);
        return pointwise_strided(launch, pairs.layout<7>("bxxssss"), QuantizePair<C>{coding.rule}, outputs(q),
                                 inputs(x, x + 1, scale, scale + pairs.other_scale, zero, zero + pairs.other_scale));
    }
    return pointwise_strided(launch, coding.scope.layout({true, true, false, false}), QuantizeBroadcast<C>{coding.rule},
                             outputs(q), inputs(x, scale, zero));
}

template <class T>
Status dequantize_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, int32_t flip, const uint8_t* q,
                           T* x) {
    using C = compute_t<T>;
    const T* const scale = coding.scale;
    const int32_t* const zero = coding.zero;
    if (scale == nullptr) {
        const DequantizePairOfTensor<C> fn{{flip != 0}, coding.own_scale, coding.own_zero};
        return pointwise_strided(launch, flat_pairs(coding.scope.inner / 2, false), fn, outputs(x, x + 1), inputs(q));
    }
    if (is_packed) {
        const Pairs pairs = Pairs::of(coding.scope);
        return pointwise_strided(launch, pairs.layout<7>("xxbssss"), DequantizePair<C>{{flip != 0}}, outputs(x, x + 1),
                                 inputs(q, scale, scale + pairs.other_scale, zero, zero + pairs.other_scale));
    }
    return pointwise_strided(launch, coding.scope.layout({true, true, false, false}), DequantizeBroadcast<C>{{flip}},
                             outputs(x), inputs(q, scale, zero));
}

template <class T>
Status round_elements(const Launch& launch, const Coding<T>& coding, const T* x, T* y) {
    using C = compute_t<T>;
    const auto layout = coding.scope.layout({true, true, false, false});
    if (coding.learned != nullptr)
        return pointwise_strided(launch, layout, FakeQuantizeLearnable<C>{coding.rule}, outputs(y),
                                 inputs(x, coding.scale, coding.learned));
    return pointwise_strided(launch, layout, FakeQuantizeBroadcast<C>{coding.rule}, outputs(y),
                             inputs(x, coding.scale, coding.zero));
}

template <class T>
Status elements_backward(const Launch& launch, const Coding<T>& coding, bool is_fake, const T* x, const T* dy, T* dx) {
    const QuantizeBackwardBroadcast<compute_t<T>> fn{coding.rule, is_fake};
    return pointwise_strided(launch, coding.scope.layout({true, true, true, false, false}), fn, outputs(dx),
                             inputs(x, dy, coding.scale, coding.zero));
}

}  // namespace bk::quantize
