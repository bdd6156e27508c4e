// SPDX-License-Identifier: Apache-2.0
// Arrays to and from floats of 4, 6 and 8 bits, a byte each.
#pragma once

#include <cstdint>

#include "core/codec/minifloat.h"
#include "core/pointwise/pointwise.h"
#include "quantize/floats/values.h"

namespace bk::floats {

template <class T>
struct EncodeFunctor {
    codec::FloatCodec codec;
    BK_HD uint8_t operator()(float x) const { return static_cast<uint8_t>(codec.encode(x)); }
};

template <class T>
struct DecodeFunctor {
    codec::FloatCodec codec;
    BK_HD float operator()(uint8_t code) const { return codec.decode(code); }
};

inline Status check_floats(int64_t numel, int32_t format) {
    BK_TRY(require_non_negative({{"numel", numel}}));
    return require_member("float_format", format, codec::kFloatFormats);
}

template <class T>
struct EncodeFloats {
    int64_t numel;
    int32_t float_format;

    Work work() const { return all_or_none(numel); }
    Status check() const { return check_floats(numel, float_format); }
    Status run(const T* x, uint8_t* codes, const Launch& launch) const {
        const auto codec = codec::FloatCodec::of(static_cast<codec::FloatFormat>(float_format));
        return pointwise(launch, numel, EncodeFunctor<T>{codec}, outputs(codes), inputs(x));
    }
};

template <class T>
struct DecodeFloats {
    int64_t numel;
    int32_t float_format;

    Work work() const { return all_or_none(numel); }
    Status check() const { return check_floats(numel, float_format); }
    Status run(const uint8_t* codes, T* y, const Launch& launch) const {
        const auto codec = codec::FloatCodec::of(static_cast<codec::FloatFormat>(float_format));
        return pointwise(launch, numel, DecodeFunctor<T>{codec}, outputs(y), inputs(codes));
    }
};

}  // namespace bk::floats
