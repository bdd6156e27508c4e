// SPDX-License-Identifier: Apache-2.0
// Affine quantisation to 8-bit codes, back, and their gradients, with one scale or one for each channel, token or group.
//
// 16-bit x is computed in f32, f64 in f64. Codes outside the range of their type are those at its ends.
#pragma once

#include <cstdint>

#include "core/abi/checks.h"
#include "core/pointwise/pointwise.h"
#include "quantize/affine/elements.h"
#include "quantize/affine/functors.h"
#include "quantize/affine/scopes.h"

namespace bk::quantize {

// --- per tensor -------------------------------------------------------------------------------------------------------

template <class C>
struct TensorScale {
    int64_t numel;
    C scale;
    int32_t zero_point;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
};

template <class C>
struct TensorRule {
    int64_t numel;
    C scale;
    int32_t zero_point, q_min, q_max;

    Work work() const { return all_or_none(numel); }
    Status check() const {
        BK_TRY(require_non_negative({{"numel", numel}}));
        return require_range(q_min, q_max);
    }
    Rule rule() const { return {q_min, q_max, false}; }
};

template <class T, class U>
struct QuantizePerTensor : TensorRule<compute_t<T>> {
    using C = compute_t<T>;
    Status run(const T* x, U* q, const Launch& launch) const {
        const Affine<C> affine(rule_for<U>(this->q_min, this->q_max, false), this->scale, this->zero_point);
        return pointwise(launch, this->numel, Quantize<C>{affine}, outputs(bytes_of(q)), inputs(x));
    }
};

template <class T>
struct QuantizePerTensorBackward : TensorRule<compute_t<T>> {
    using C = compute_t<T>;
    Status run(const T* x, const T* dy, T* dx, const Launch& launch) const { return gradient(launch, false, x, dy, dx); }

protected:
    Status gradient(const Launch& launch, bool is_fake, const T* x, const T* dy, T* dx) const {
        const QuantizeBackward<C> fn{this->rule(), is_fake, {this->rule(), this->scale, this->zero_point}};
        return pointwise(launch, this->numel, fn, outputs(dx), inputs(x, dy));
    }
};

template <class T>
struct FakeQuantizePerTensor : TensorRule<compute_t<T>> {
    using C = compute_t<T>;
    Status run(const T* x, T* y, const Launch& launch) const {
        const Affine<C> affine(this->rule(), this->scale, this->zero_point);
        return pointwise(launch, this->numel, FakeQuantize<C>{affine}, outputs(y), inputs(x));
    }
};

template <class T>
struct FakeQuantizePerTensorBackward : QuantizePerTensorBackward<T> {
    Status run(const T* x, const T* dy, T* dx, const Launch& launch) const { return this->gradient(launch, true, x, dy, dx); }
};

template <class T, class U>
struct DequantizePerTensor : TensorScale<compute_t<T>> {
    using C = compute_t<T>;
    Status run(const U* q, T* x, const Launch& launch) const {
        const Dequantize<C> fn{this->scale, this->zero_point, ByteCode::of<U>()};
        return pointwise(launch, this->numel, fn, outputs(x), inputs(bytes_of(q)));
    }
};

template <class T>
struct DequantizePerTensorBackward {
    int64_t numel;
    compute_t<T> scale;

    Work work() const { return all_or_none(numel); }
    Status check() const { return require_non_negative({{"numel", numel}}); }
    Status run(const T* dy, T* dq, const Launch& launch) const {
        return pointwise(launch, numel, TimesScale<compute_t<T>>{scale}, outputs(dq), inputs(dy));
    }
};

// --- per channel, token or group: S is of quantize/affine/scopes.h -----------------------------------------------------

template <class S, class T, class U>
struct QuantizeScoped : Ranged<S> {
    Status run(const T* x, const T* scale, const int32_t* zero_point, U* q, const Launch& launch) const {
        const Scope scope = this->scope();
        const Rule rule = rule_for<U>(this->q_min, this->q_max, scope.adds_first);
        return quantize_elements(launch, Coding<T>{scope, rule, scale, zero_point}, false, x, bytes_of(q));
    }
};

template <class S, class T>
struct QuantizeScopedBackward : Ranged<S> {
    // Channels have x before dy, tokens and groups dy before x.
    Status run(const T* x, const T* scale, const int32_t* zero_point, const T* dy, T* dx, const Launch& launch) const {
        return gradient(launch, false, x, dy, scale, zero_point, dx);
    }
    Status run(const T* dy, const T* x, const T* scale, const int32_t* zero_point, T* dx, const Launch& launch) const {
        return gradient(launch, false, x, dy, scale, zero_point, dx);
    }

protected:
    Status gradient(const Launch& launch, bool is_fake, const T* x, const T* dy, const T* scale, const int32_t* zero_point,
                    T* dx) const {
        const Coding<T> coding{this->scope(), this->rule(), scale, zero_point};
        return elements_backward(launch, coding, is_fake, x, dy, dx);
    }
};

template <class S, class T>
struct FakeQuantizeScoped : Ranged<S> {
    Status run(const T* x, const T* scale, const int32_t* zero_point, T* y, const Launch& launch) const {
        return round_elements(launch, Coding<T>{this->scope(), this->rule(), scale, zero_point}, x, y);
    }
};

template <class S, class T>
struct FakeQuantizeScopedBackward : QuantizeScopedBackward<S, T> {
    Status run(const T* x, const T* scale, const int32_t* zero_point, const T* dy, T* dx, const Launch& launch) const {
        return this->gradient(launch, true, x, dy, scale, zero_point, dx);
    }
};

template <class S, class T, class U>
struct DequantizeScoped : Unranged<S> {
    Status run(const U* q, const T* scale, const int32_t* zero_point, T* x, const Launch& launch) const {
        const Coding<T> coding{this->scope(), {}, scale, zero_point};
        return dequantize_elements(launch, coding, false, ByteCode::of<U>().flip, bytes_of(q), x);
    }
};

template <class S, class T>
struct DequantizeScopedBackward : Unranged<S> {
    // Channels have the scale before dy, tokens and groups behind it.
    Status run(const T* first, const T* second, T* dq, const Launch& launch) const {
        const T *const scale = S::kScaleFirst ? first : second, *const dy = S::kScaleFirst ? second : first;
        return pointwise_strided(launch, this->scope().layout({true, true, false}), TimesScaleBroadcast<compute_t<T>>{},
                                 outputs(dq), inputs(dy, scale));
    }
};

}  // namespace bk::quantize
