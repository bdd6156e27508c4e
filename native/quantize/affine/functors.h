// SPDX-License-Identifier: Apache-2.0
// Functors of affine quantisation, in two forms of one formula (quantize/affine/rule.h): with the scale and zero point of
// a tensor in the functor, or of a channel, token or group as broadcast operands. Codes are bytes whatever their sign: the
// range, cut to the type's, decides what they are, so that int8_t and uint8_t share kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/types/pack.h"
#include "quantize/affine/rule.h"

namespace bk::quantize {

// Reads bytes as int8_t or uint8_t.
struct ByteCode {
    int32_t flip;  // 128 for int8_t, else 0

    template <class U>
    static ByteCode of() {
        return {std::is_same_v<U, int8_t> ? 128 : 0};
    }
    BK_HD int32_t operator()(uint8_t byte) const { return (static_cast<int32_t>(byte) ^ flip) - flip; }
};

// --- one scale --------------------------------------------------------------------------------------------------------

template <class C>
struct Quantize {
    Affine<C> affine;
    BK_HD uint8_t operator()(C x) const { return static_cast<uint8_t>(affine.code(x)); }
};

template <class C>
struct Dequantize {
    C scale;
    int32_t zero;
    ByteCode decode;
    BK_HD C operator()(uint8_t q) const { return dequantized(decode(q), scale, zero); }
};

template <class C>
struct FakeQuantize {
    Affine<C> affine;
    BK_HD C operator()(C x) const { return affine.nearest(x); }
};

// dx of quantise, or of fake quantise, whose gradient is not over the scale.
template <class C>
struct QuantizeBackward {
    Rule rule;
    bool is_fake;
    Affine<C> affine;
    BK_HD C operator()(C x, C dy) const {
        return math::select(affine.passes(x, rule), math::select(is_fake, dy, affine.over_scale(dy)), C(0));
    }
};

template <class C>
struct TimesScale {
    C scale;
    BK_HD C operator()(C dy) const { return dy * scale; }
};

// --- broadcast scales -------------------------------------------------------------------------------------------------

template <class C>
struct QuantizeBroadcast {
    Rule rule;
    BK_HD uint8_t operator()(C x, C scale, int32_t zero) const { return Quantize<C>{{rule, scale, zero}}(x); }
};

template <class C>
struct DequantizeBroadcast {
    ByteCode decode;
    BK_HD C operator()(uint8_t q, C scale, int32_t zero) const { return Dequantize<C>{scale, zero, decode}(q); }
};

template <class C>
struct FakeQuantizeBroadcast {
    Rule rule;
    BK_HD C operator()(C x, C scale, int32_t zero) const { return FakeQuantize<C>{{rule, scale, zero}}(x); }
};

template <class C>
BK_HD int32_t learned_zero(const Rule& rule, C zero_point) {
    return Affine<C>::within(round_to_int(zero_point), rule.q_min, rule.q_max);
}

// Fake quantisation with a learned zero point.
template <class C>
struct FakeQuantizeLearnable {
    Rule rule;
    BK_HD C operator()(C x, C scale, C zero_point) const {
        return FakeQuantize<C>{{rule, scale, learned_zero(rule, zero_point)}}(x);
    }
};

template <class C>
struct QuantizeBackwardBroadcast {
    Rule rule;
    bool is_fake;
    BK_HD C operator()(C x, C dy, C scale, int32_t zero) const {
        return QuantizeBackward<C>{rule, is_fake, {rule, scale, zero}}(x, dy);
    }
};

template <class C>
struct TimesScaleBroadcast {
    BK_HD C operator()(C dy, C scale) const { return dy * scale; }
};

}  // namespace bk::quantize
