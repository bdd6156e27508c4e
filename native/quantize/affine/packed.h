// SPDX-License-Identifier: Apache-2.0
// Affine quantisation to 4-bit codes, two a byte, the even index in the low half.
//
// A byte and its two elements are one element of the pointwise skeleton, of which even and odd x are two operands. Both have
// one scale, or, where the last axis is the channels', adjacent ones.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"
#include "quantize/affine/affine.h"

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

BK_COLD inline Status require_even(const char* name, int64_t count) {
    if (count % 2 == 0) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld, must be even: codes are two a byte", name, static_cast<long long>(count));
}

// Codes come before x in a dequantise, and their extent is no argument: a length that x cannot have is refused by its own.
BK_COLD inline Status require_length(NamedExtent extent, int64_t elements, int64_t size) {
    if (elements <= kMaxOperandBytes / size) return Status::kOk;
    return fail(Status::kInvalidProblem, "%s is %lld: x would have more than 2^47 bytes", extent.name,
                static_cast<long long>(extent.value));
}
inline NamedExtent longest_of(const Channels& c) { return {"numel", c.numel}; }
inline NamedExtent longest_of(const Tokens& t) { return {"d", t.d}; }
inline NamedExtent longest_of(const Groups& g) { return {"axis_size", g.axis_size}; }

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
    static bool can_pack(const Scope& s) { return s.inner % 2 == 0 || (!s.adds_first && s.inner == 1 && s.scales % 2 == 0); }
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

// --- per tensor -------------------------------------------------------------------------------------------------------

inline Layout<3> flat_pairs(int64_t bytes, bool byte_first) {
    Layout<3> layout;
    if (byte_first)
        layout.append(bytes, {1, 2, 2});
    else
        layout.append(bytes, {2, 2, 1});
    return layout;
}

template <class T, class P>
struct QuantizePackedPerTensor : TensorRule<compute_t<T>> {
    using C = compute_t<T>;
    int64_t bytes() const { return this->numel / 2; }
    Status check() const {
        BK_TRY(TensorRule<C>::check());
        return require_even("numel", this->numel);
    }
    Status run(const T* x, uint8_t* q, const Launch& launch) const {
        const Affine<C> affine(rule_for<P>(this->q_min, this->q_max, false), this->scale, this->zero_point);
        return pointwise_strided(launch, flat_pairs(this->numel / 2, true), QuantizePairOfTensor<C>{affine}, outputs(q),
                                 inputs(x, x + 1));
    }
};

template <class T, class P>
struct DequantizePackedPerTensor : TensorScale<compute_t<T>> {
    using C = compute_t<T>;
    int64_t bytes() const { return this->numel / 2; }
    Status check() const {
        BK_TRY(TensorScale<C>::check());
        BK_TRY(require_length({"numel", this->numel}, this->numel, sizeof(T)));
        return require_even("numel", this->numel);
    }
    Status run(const uint8_t* q, T* x, const Launch& launch) const {
        const DequantizePairOfTensor<C> fn{{std::is_same_v<P, s4x2>}, this->scale, this->zero_point};
        return pointwise_strided(launch, flat_pairs(this->numel / 2, false), fn, outputs(x, x + 1), inputs(q));
    }
};

// --- per channel, token or group --------------------------------------------------------------------------------------

BK_COLD inline Status require_pairs(const Scope& scope) {
    if (scope.numel() == 0 || Pairs::can_pack(scope)) return Status::kOk;
    return fail(Status::kInvalidProblem, "%lld elements share a scale, must be an even number: codes are two a byte",
                static_cast<long long>(scope.inner));
}

template <class S, class T, class P>
struct QuantizePackedScoped : Ranged<S> {
    int64_t bytes() const { return this->scope().numel() / 2; }
    Status check() const {
        BK_TRY(Ranged<S>::check());
        return require_pairs(this->scope());
    }
    Status run(const T* x, const T* scale, const int32_t* zero_point, uint8_t* q, const Launch& launch) const {
        const Pairs pairs = Pairs::of(this->scope());
        const QuantizePair<compute_t<T>> fn{rule_for<P>(this->q_min, this->q_max, this->scope().adds_first)};
        return pointwise_strided(
            launch, pairs.layout<7>("bxxssss"), fn, outputs(q),
            inputs(x, x + 1, scale, scale + pairs.other_scale, zero_point, zero_point + pairs.other_scale));
    }
};

template <class S, class T, class P>
struct DequantizePackedScoped : Unranged<S> {
    int64_t bytes() const { return this->scope().numel() / 2; }
    Status check() const {
        BK_TRY(S::check());
        BK_TRY(require_length(longest_of(*this), this->scope().numel(), sizeof(T)));
        return require_pairs(this->scope());
    }
    Status run(const uint8_t* q, const T* scale, const int32_t* zero_point, T* x, const Launch& launch) const {
        const Pairs pairs = Pairs::of(this->scope());
        const DequantizePair<compute_t<T>> fn{{std::is_same_v<P, s4x2>}};
        return pointwise_strided(launch, pairs.layout<7>("xxbssss"), fn, outputs(x, x + 1),
                                 inputs(q, scale, scale + pairs.other_scale, zero_point, zero_point + pairs.other_scale));
    }
};

}  // namespace bk::quantize
