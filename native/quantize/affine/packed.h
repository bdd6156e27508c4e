// SPDX-License-Identifier: Apache-2.0
// Affine quantisation to 4-bit codes, two a byte, the even index in the low half.
#pragma once

#include <cstdint>

#include "core/types/dtype.h"
#include "quantize/affine/affine.h"

namespace bk::quantize {

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

// Whether fibers are even or, where the last axis is the channels', pairs have adjacent scales.
inline bool can_pack(const Scope& s) { return s.inner % 2 == 0 || (!s.adds_first && s.inner == 1 && s.scales % 2 == 0); }

// --- per tensor -------------------------------------------------------------------------------------------------------

template <class T, class P>
struct QuantizePackedPerTensor : TensorRule<compute_t<T>> {
    using C = compute_t<T>;
    int64_t bytes() const { return this->numel / 2; }
    Status check() const {
        BK_TRY(TensorRule<C>::check());
        return require_even("numel", this->numel);
    }
    Status run(const T* x, uint8_t* q, const Launch& launch) const {
        const Rule rule = rule_for<P>(this->q_min, this->q_max, false);
        return quantize_elements(launch, Coding<T>::of_tensor(this->numel, rule, this->scale, this->zero_point), true, x, q);
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
        const Coding<T> coding = Coding<T>::of_tensor(this->numel, {}, this->scale, this->zero_point);
        return dequantize_elements(launch, coding, true, std::is_same_v<P, s4x2> ? 8 : 0, q, x);
    }
};

// --- per channel, token or group --------------------------------------------------------------------------------------

BK_COLD inline Status require_pairs(const Scope& scope) {
    if (scope.numel() == 0 || can_pack(scope)) return Status::kOk;
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
        const Scope scope = this->scope();
        const Rule rule = rule_for<P>(this->q_min, this->q_max, scope.adds_first);
        return quantize_elements(launch, Coding<T>{scope, rule, scale, zero_point}, true, x, q);
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
        const Coding<T> coding{this->scope(), {}, scale, zero_point};
        return dequantize_elements(launch, coding, true, std::is_same_v<P, s4x2> ? 8 : 0, q, x);
    }
};

}  // namespace bk::quantize
