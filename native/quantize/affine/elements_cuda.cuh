// SPDX-License-Identifier: Apache-2.0
// Vectors, where one scale serves each of them and all operands are aligned: a thread loads up to four, a block apart, before
// the first use, and computes what follows from a scale once a vector. Else, and in f64, a thread takes elements a block apart.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/collectives/items.h"
#include "core/types/vec.h"
#include "quantize/affine/elements.h"
#include "quantize/affine/fast_codes.cuh"

namespace bk::quantize {

// F has the operands: it loads, computes and stores vectors of kLanes, and units of one or two elements.
template <class T, class F>
struct ElementsJob {
    static constexpr int kLanes = F::kLanes, kVectors = F::kVectors, kUnits = 8;
    using C = compute_t<T>;

    ItemSplit<3> split;  // of elements: outer index, scale and position
    Coding<T> coding;
    int64_t whole;      // elements of vectors; the rest, of one scale, are fewer than a vector or all
    int vectors, unit;  // of a thread; elements of a unit
    F fn;

    BK_DEVICE void operator()(int64_t item) const {
        const int64_t block = static_cast<int64_t>(static_cast<uint64_t>(item) / kItemThreads);
        const int rank = static_cast<int>(static_cast<uint64_t>(item) % kItemThreads);
        if constexpr (std::is_same_v<C, float>) {
            if (whole != 0) {
                compute_vectors(block * (kItemThreads * vectors) + rank);
                if (item == 0)
                    for (int64_t e = whole; e < split.items; e += unit) compute_unit(e);
                return;
            }
        }
#pragma unroll 1
        for (int u = 0; u < kUnits; ++u) {
            const int64_t e = (block * (kItemThreads * kUnits) + u * kItemThreads + rank) * unit;
            if (e >= split.items) return;
            compute_unit(e);
        }
    }

private:
    BK_HD auto prepared(int64_t e) const {
        int64_t index[3];
        split.indices(e, index);
        const int64_t s = index[1];
        const C scale = coding.scale == nullptr ? coding.own_scale : widen(coding.scale[s]);
        const int32_t zero = coding.learned != nullptr ? learned_zero(coding.rule, widen(coding.learned[s]))
                             : coding.zero != nullptr  ? coding.zero[s]
                                                       : coding.own_zero;
        return fn.prepare(coding.rule, scale, zero);
    }
    BK_HD void compute_unit(int64_t e) const {
        const auto first = prepared(e);
        if (unit == 1)
            fn.element(first, e);
        else
            fn.pair(first, prepared(e + 1), e);
    }
    BK_DEVICE void compute_vectors(int64_t first) const {
        typename F::Loaded x[kVectors];
#pragma unroll
        for (int u = 0; u < kVectors; ++u) {
            const int64_t e = (first + u * kItemThreads) * kLanes;
            if (u < vectors && e < whole) fn.load_lanes(x[u], e);
        }
#pragma unroll 1
        for (int u = 0; u < vectors; ++u) {
            const int64_t e = (first + u * kItemThreads) * kLanes;
            if (e >= whole) return;
            const auto affine = prepared(e);
            if (!affine.is_fast) {
#pragma unroll 1
                for (int i = 0; i < kLanes; i += unit) compute_unit(e + i);
            } else if (coding.rule.adds_first) {
                fn.template compute<true>(affine, x[0], e);
            } else {
                fn.template compute<false>(affine, x[0], e);
            }
#pragma unroll
            for (int k = 0; k + 1 < kVectors; ++k) x[k] = x[k + 1];
        }
    }
};

template <class T, class F>
Status run_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, bool is_aligned, const F& fn) {
    using Job = ElementsJob<T, F>;
    const Scope& scope = coding.scope;
    const int64_t extents[] = {scope.outer, scope.scales, scope.inner}, numel = scope.numel();
    const bool has_one = scope.outer * scope.scales == 1;
    const bool by_vectors = is_aligned && sizeof(compute_t<T>) == 4 && (has_one || scope.inner % Job::kLanes == 0);
    const int64_t whole = by_vectors ? numel / Job::kLanes * Job::kLanes : 0, vectors = whole / Job::kLanes;
    const int unit = is_packed ? 2 : 1, per_thread = vectors < kFewestItems * Job::kVectors ? 1 : Job::kVectors;
    const int64_t threads = whole > 0 ? ceil_div<int64_t>(vectors, kItemThreads * per_thread)
                                      : ceil_div<int64_t>(numel / unit, kItemThreads * Job::kUnits);
    const Job job{ItemSplit<3>::of(extents), coding, whole, per_thread, unit, fn};
    return run_items(launch, threads * kItemThreads, kVectorBytes, job);
}

template <class T>
struct QuantizeLanes {
    static constexpr int kLanes = 2 * kVectorLanes<T>, kVectors = 2;
    using C = compute_t<T>;
    using Loaded = NumberWords<T, kLanes>;
    const T* x;
    uint8_t* q;
    bool is_packed;

    BK_HD FastAffine<T> prepare(const Rule& rule, C scale, int32_t zero) const { return {rule, scale, zero}; }
    BK_HD void load_lanes(Loaded& v, int64_t e) const { v.load_from(x + e); }
    template <bool kAddsFirst>
    BK_HD void compute(const FastAffine<T>& affine, const Loaded& v, int64_t e) const {
        CodeWords<kLanes> codes;
        BK_UNROLL
        for (int i = 0; i < kLanes; ++i) {
            const uint32_t code = affine.template fast_code<kAddsFirst>(v.number(i)) & 255u;
            codes.word[i / 4] = i % 4 == 0 ? code : codes.word[i / 4] | code << (8 * (i % 4));
        }
        codes.store_to(q, is_packed, e);
    }
    BK_HD void element(const FastAffine<T>& affine, int64_t e) const { q[e] = static_cast<uint8_t>(code(affine, e)); }
    BK_HD void pair(const FastAffine<T>& first, const FastAffine<T>& second, int64_t e) const {
        q[e / 2] = static_cast<uint8_t>((code(first, e) & 15) | (code(second, e + 1) & 15) << 4);
    }

private:
    BK_HD int32_t code(const FastAffine<T>& affine, int64_t e) const { return affine.general().code(widen(x[e])); }
};

template <class T>
struct DequantizeLanes {
    static constexpr int kLanes = kVectorLanes<T>, kVectors = 4;
    using C = compute_t<T>;
    using Loaded = CodeWords<kLanes>;
    struct Prepared {
        C scale;
        int32_t zero;
        bool is_fast;
    };
    const uint8_t* q;
    T* x;
    int32_t flip;
    bool is_packed;

    BK_HD Prepared prepare(const Rule&, C scale, int32_t zero) const {
        return {scale, zero, std::is_same_v<C, float> && is_small(zero)};
    }
    BK_HD void load_lanes(Loaded& v, int64_t e) const { v.load_from(q, is_packed, e); }
    template <bool>
    BK_HD void compute(const Prepared& p, const Loaded& v, int64_t e) const {
        const float base = kRounding + static_cast<float>(p.zero + flip);
        const uint32_t flips = static_cast<uint32_t>(flip) * 0x01010101u;
        Vec<T, kLanes> y;
        BK_UNROLL
        for (int i = 0; i < kLanes; ++i) {
            const float steps = rounding_plus_code(v.word[i / 4] ^ flips, i % 4) - base;
            y.lane[i] = narrow<T>(p.scale * static_cast<C>(steps));
        }
        store<kLanes>(x + e, y);
    }
    BK_HD void element(const Prepared& p, int64_t e) const { put_number(p, q[e], e); }
    BK_HD void pair(const Prepared& first, const Prepared& second, int64_t e) const {
        const uint8_t byte = q[e / 2];
        put_number(first, byte & 15, e);
        put_number(second, byte >> 4, e + 1);
    }

private:
    BK_HD void put_number(const Prepared& p, int32_t code, int64_t e) const {
        x[e] = narrow<T>(dequantized((code ^ flip) - flip, p.scale, p.zero));
    }
};

template <class T>
struct RoundLanes {
    static constexpr int kLanes = kVectorLanes<T>, kVectors = 4;
    using C = compute_t<T>;
    using Loaded = NumberWords<T, kLanes>;
    const T* x;
    T* y;

    BK_HD FastAffine<T> prepare(const Rule& rule, C scale, int32_t zero) const { return {rule, scale, zero}; }
    BK_HD void load_lanes(Loaded& v, int64_t e) const { v.load_from(x + e); }
    template <bool kAddsFirst>
    BK_HD void compute(const FastAffine<T>& affine, const Loaded& v, int64_t e) const {
        Vec<T, kLanes> to;
        BK_UNROLL
        for (int i = 0; i < kLanes; ++i)
            to.lane[i] = narrow<T>(static_cast<C>(affine.template fast_nearest<kAddsFirst>(v.number(i))));
        store<kLanes>(y + e, to);
    }
    BK_HD void element(const FastAffine<T>& affine, int64_t e) const {
        y[e] = narrow<T>(affine.general().nearest(widen(x[e])));
    }
    BK_HD void pair(const FastAffine<T>&, const FastAffine<T>&, int64_t) const {}  // units are elements
};

template <class T>
struct BackwardLanes {
    static constexpr int kLanes = kVectorLanes<T>, kVectors = 2;
    using C = compute_t<T>;
    struct Loaded {
        NumberWords<T, kLanes> x, dy;
    };
    const T *x, *dy;
    T* dx;
    bool is_fake;

    BK_HD FastAffine<T> prepare(const Rule& rule, C scale, int32_t zero) const { return {rule, scale, zero}; }
    BK_HD void load_lanes(Loaded& v, int64_t e) const {
        v.x.load_from(x + e);
        v.dy.load_from(dy + e);
    }
    template <bool kAddsFirst>
    BK_HD void compute(const FastAffine<T>& affine, const Loaded& v, int64_t e) const {
        Vec<T, kLanes> to;
        BK_UNROLL
        for (int i = 0; i < kLanes; ++i) {
            const C own = static_cast<C>(v.dy.number(i)), scale = affine.scale;
            const C quotient = is_fake ? own : kAddsFirst ? own / scale : own * static_cast<C>(affine.reciprocal);
            to.lane[i] = narrow<T>(affine.template fast_passes<kAddsFirst>(v.x.number(i)) ? quotient : C(0));
        }
        store<kLanes>(dx + e, to);
    }
    BK_HD void element(const FastAffine<T>& affine, int64_t e) const {
        const Affine<C> general = affine.general();
        const C own = widen(dy[e]);
        const bool passes = general.passes(widen(x[e]), affine.rule);
        dx[e] = narrow<T>(passes ? (is_fake ? own : general.over_scale(own)) : C(0));
    }
    BK_HD void pair(const FastAffine<T>&, const FastAffine<T>&, int64_t) const {}
};

template <class T>
Status quantize_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, const T* x, uint8_t* q) {
    using F = QuantizeLanes<T>;
    const bool aligned = is_aligned(x, kVectorBytes) && is_aligned(q, is_packed ? F::kLanes / 2 : F::kLanes);
    return run_elements(launch, coding, is_packed, aligned, F{x, q, is_packed});
}

template <class T>
Status dequantize_elements(const Launch& launch, const Coding<T>& coding, bool is_packed, int32_t flip, const uint8_t* q,
                           T* x) {
    using F = DequantizeLanes<T>;
    const bool aligned = is_aligned(x, kVectorBytes) && is_aligned(q, is_packed ? F::kLanes / 2 : F::kLanes);
    return run_elements(launch, coding, is_packed, aligned, F{q, x, flip, is_packed});
}

template <class T>
Status round_elements(const Launch& launch, const Coding<T>& coding, const T* x, T* y) {
    const bool aligned = is_aligned(x, kVectorBytes) && is_aligned(y, kVectorBytes);
    return run_elements(launch, coding, false, aligned, RoundLanes<T>{x, y});
}

template <class T>
Status elements_backward(const Launch& launch, const Coding<T>& coding, bool is_fake, const T* x, const T* dy, T* dx) {
    const bool aligned = is_aligned(x, kVectorBytes) && is_aligned(dy, kVectorBytes) && is_aligned(dx, kVectorBytes);
    return run_elements(launch, coding, false, aligned, BackwardLanes<T>{x, dy, dx, is_fake});
}

}  // namespace bk::quantize
