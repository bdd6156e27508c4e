// SPDX-License-Identifier: Apache-2.0
// Reducers of the reductions (core/reduce/reducer.h has the protocol).
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/math/limits.h"
#include "core/math/math.h"
#include "core/math/wide_range.h"
#include "core/platform.h"
#include "core/reduce/moments.h"
#include "core/reduce/square_scale.h"
#include "core/reduce/sums.h"
#include "core/target.h"
#include "core/types/dtype.h"
#include "core/types/pack.h"

namespace bk {

// A product that is out of range, or was subnormal on the way, is recomputed as mantissa and exponent.
template <class T, bool = std::is_integral_v<T>>
struct ProductReducer {
    using C = compute_t<T>;

    struct Acc {
        C product, least, exponent;  // least is the smallest magnitude that the product had

        BK_HD WideNumber<C> wide() const {
            const WideNumber<C> number = WideNumber<C>::of_normal(product);
            return {number.mantissa, number.exponent + exponent};
        }
        static BK_HD Acc of(const WideNumber<C>& number) { return {number.mantissa, C(1), number.exponent}; }
    };
    static constexpr bool ignores_index = true, may_be_lost = true;
    BK_HD Acc identity() const { return {1, 1, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        acc.product *= x;
        acc.least = math::min(math::fabs<C>(acc.product), acc.least);
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
#if BK_CUDA
        return Acc::of(a.wide() * b.wide());
#else
        const C product = a.product * b.product;
        return {product, math::min(math::fabs<C>(product), math::min(a.least, b.least)), 0};
#endif
    }
    BK_HD C finish(const Acc& acc, int64_t) const {
        return acc.exponent == C(0) ? acc.product : WideNumber<C>{acc.product, acc.exponent}.value();
    }

    BK_HD bool is_lost(const Acc& acc) const { return bool(int(!is_finite(acc.product)) | int(acc.least < kMinNormal<C>)); }
    BK_HD void explain(Acc& acc, C x) const {
        acc.least = math::select(bool(int(acc.product == C(0)) & int(x == C(0))), C(1), acc.least);
    }
    BK_HD Acc start_again() const { return {1, 1, 0}; }
    BK_HD void add_again(Acc& acc, int64_t, C x) const {
        acc = Acc::of(WideNumber<C>{acc.product, acc.exponent} * WideNumber<C>::of(x));
    }
    BK_HD Acc end_again(const Acc& acc) const { return acc; }
};

template <class T>
struct ProductReducer<T, true> {
    using C = compute_t<T>;
    using Wide = modular_t<T>;

    struct Acc {
        Wide product;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {1}; }
    BK_HD void add(Acc& acc, int64_t, C x) const { acc.product *= static_cast<Wide>(x); }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {static_cast<Wide>(a.product * b.product)}; }
    BK_HD C finish(const Acc& acc, int64_t) const { return static_cast<C>(acc.product); }
};

// Order of floats in which NaN is greater than any number, or its reverse; reducers seek the greatest element.
template <class T>
struct FloatOrder {
    using Key = compute_t<T>;
    Key sign;  // 1 for the maximum, -1 for the minimum

    static FloatOrder of(bool greatest) { return {greatest ? Key(1) : Key(-1)}; }
    BK_HD Key key(Key x) const { return x * sign; }
    BK_HD Key value(Key key) const { return key * sign; }
    static BK_HD Key least() { return -kInfinity<Key>; }
    static BK_HD bool exceeds(Key a, Key b) { return bool(int(!(a <= b)) & int(b == b)); }
    static BK_HD Key greater(Key a, Key b) {
#if BK_ON_GPU
        if constexpr (std::is_same_v<Key, float>) {
            float y;
            asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
            return y;
        }
#endif
        const Key larger = b > a ? b : a;  // compiles to one instruction
        return b == b ? larger : b;
    }
};

// An order of floats in which any number is greater than NaN.
template <class T>
struct NumberOrder {
    using Key = compute_t<T>;
    Key sign;

    static NumberOrder of(bool greatest) { return {greatest ? Key(1) : Key(-1)}; }
    BK_HD Key key(Key x) const { return x * sign; }
    BK_HD Key value(Key key) const { return key * sign; }
    static BK_HD Key least() { return kNaN<Key>; }
    static BK_HD Key greater(Key a, Key b) {
#if BK_IN_KERNEL
        if constexpr (std::is_same_v<Key, float>) return fmaxf(a, b);
#endif
        return math::select(bool(int(b > a) | int(a != a)), b, a);
    }
};

// Order of unsigned integers after flipping bits: the sign bit of signed values, for the minimum all others.
template <class T>
struct BitOrder {
    using Key = T;
    T flip;

    static BitOrder of(bool greatest, bool is_signed) {
        const T sign = is_signed ? static_cast<T>(T(1) << (8 * sizeof(T) - 1)) : T(0);
        return {static_cast<T>(greatest ? sign : ~sign)};
    }
    BK_HD Key key(T x) const { return static_cast<T>(x ^ flip); }
    BK_HD T value(Key key) const { return static_cast<T>(key ^ flip); }
    static BK_HD Key least() { return 0; }
    static BK_HD bool exceeds(Key a, Key b) { return a > b; }
    static BK_HD Key greater(Key a, Key b) { return a > b ? a : b; }
};

template <class Order>
struct ExtremeReducer {
    using Key = typename Order::Key;
    Order order;

    struct Acc {
        Key key;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {Order::least()}; }
    BK_HD Acc one(Key x) const { return {order.key(x)}; }
    BK_HD void add(Acc& acc, int64_t, Key x) const { acc.key = Order::greater(acc.key, order.key(x)); }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {Order::greater(a.key, b.key)}; }
    BK_HD Key finish(const Acc& acc, int64_t) const { return order.value(acc.key); }
};

// The extreme and the index of its first occurrence; 0 if no element exceeds the least key, as all equal it then.
template <class Order>
struct ArgReducer {
    using Key = typename Order::Key;
    Order order;
    int index_bytes;

    struct Acc {
        Key key;
        int64_t index;
    };
    static constexpr bool keeps_first = true;
    BK_HD Acc identity() const { return {Order::least(), 0}; }
    BK_HD void add(Acc& acc, int64_t index, Key x) const {
        const Key key = order.key(x);
        const bool exceeds = Order::exceeds(key, acc.key);
        acc.key = math::select(exceeds, key, acc.key);
        acc.index = exceeds ? index : acc.index;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const bool is_b = Order::exceeds(b.key, a.key), is_a = Order::exceeds(a.key, b.key);
        const bool takes_b = bool(int(is_b) | (int(!is_a) & int(b.index < a.index)));
        return {math::select(takes_b, b.key, a.key), takes_b ? b.index : a.index};
    }
    // Stores values and indices, either of which may be null; indices have 4 or 8 bytes.
    template <class T>
    BK_HD void store(const Pack<T*, uint8_t*>& out, const int64_t* offset, const Acc& acc, int64_t) const {
        if (get<0>(out) != nullptr) get<0>(out)[offset[0]] = narrow<T>(order.value(acc.key));
        if (get<1>(out) == nullptr) return;
        if (index_bytes == 8)
            reinterpret_cast<int64_t*>(get<1>(out))[offset[1]] = acc.index;
        else
            reinterpret_cast<int32_t*>(get<1>(out))[offset[1]] = static_cast<int32_t>(acc.index);
    }
};

// Mean of integers, given as unsigned with the sign bit flipped if they are signed. Sums of 128 bits are exact.
template <class Bits>
struct IntegerMeanReducer {
    using Recent = std::conditional_t<sizeof(Bits) <= 2, uint32_t, uint64_t>;
    Bits flip;  // the sign bit, or 0
    int result_bytes;

    struct Acc {
        uint64_t low, high;
        Recent recent;
    };
    static constexpr bool ignores_index = true;
    BK_HD static void carry(Acc& acc, uint64_t x) {
        acc.low += x;
        acc.high += acc.low < x;
    }
    BK_HD Acc identity() const { return {0, 0, 0}; }
    BK_HD void add(Acc& acc, int64_t, Bits x) const {
        const Bits raised = static_cast<Bits>(x ^ flip);
        if constexpr (sizeof(Bits) == 8)
            carry(acc, raised);
        else
            acc.recent += raised;
    }
    BK_HD void settle(Acc& acc, int64_t) const {
        carry(acc, acc.recent);
        acc.recent = 0;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        Acc both{a.low, a.high + b.high, 0};
        carry(both, b.low);
        return both;
    }
    // Stores f32 or f64.
    BK_HD void store(const Pack<uint8_t*>& out, const int64_t* offset, const Acc& acc, int64_t count) const {
        uint64_t low = acc.low, high = acc.high;
        if (flip != 0) {  // each summand was raised by `flip`
            const uint64_t n = static_cast<uint64_t>(count), of_low = n * flip;
            const uint64_t of_high = n >> (65 - 8 * sizeof(Bits));
            high -= of_high + (low < of_low);
            low -= of_low;
        }
        const bool is_negative = high >> 63 != 0;
        if (is_negative) {
            low = ~low + 1;
            high = ~high + (low == 0);
        }
        const double sum = static_cast<double>(high) * 0x1p64 + static_cast<double>(low);
        const double mean = (is_negative ? -sum : sum) / static_cast<double>(count);
        if (result_bytes == 8)
            reinterpret_cast<double*>(get<0>(out))[offset[0]] = mean;
        else
            reinterpret_cast<float*>(get<0>(out))[offset[0]] = static_cast<float>(mean);
    }
};

enum class Truth { kAny, kAll, kCount };

// Counts elements that are not 0, given as bits; those outside `mask` (the sign of a float's zero) do not count.
template <class Bits>
struct TruthReducer {
    Truth truth;
    Bits mask;

    struct Acc {
        int64_t nonzeros;
        uint32_t recent;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {0, 0}; }
    BK_HD void add(Acc& acc, int64_t, Bits x) const { acc.recent += (x & mask) != 0; }
    BK_HD void settle(Acc& acc, int64_t) const { acc = {acc.nonzeros + acc.recent, 0}; }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.nonzeros + b.nonzeros, 0}; }
    // Stores a byte or, for kCount, an int64_t.
    BK_HD void store(const Pack<uint8_t*>& out, const int64_t* offset, const Acc& acc, int64_t count) const {
        if (truth == Truth::kCount)
            reinterpret_cast<int64_t*>(get<0>(out))[offset[0]] = acc.nonzeros;
        else
            get<0>(out)[offset[0]] = truth == Truth::kAny ? acc.nonzeros > 0 : acc.nonzeros == count;
    }
};

// Root of the sum of squares (as in Blue 1978), also summed scaled down, against overflow, and up, against underflow.
template <class T>
struct Norm2Reducer {
    using C = compute_t<T>;
    using Scale = SquareScale<T>;
    static constexpr bool kNeverScaled = !Scale::kIsNeeded;
    static constexpr C kDown = Scale::kDown, kUp = Scale::kUp;

    struct Acc {
        C sum, recent, large, small;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {0, 0, 0, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        acc.recent += x * x;
        if constexpr (!kNeverScaled) {
            const C down = x * kDown, up = x * kUp;
            acc.large += down * down;
            acc.small += up * up;
        }
    }
    BK_HD void settle(Acc& acc, int64_t) const {
        acc.sum += acc.recent;
        acc.recent = 0;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum, 0, a.large + b.large, a.small + b.small}; }
    BK_HD C finish(const Acc& acc, int64_t) const {
        const C root = math::sqrt<C>(acc.sum);
        if constexpr (kNeverScaled) return root;
        if (acc.sum < Scale::kLeast) return math::sqrt<C>(acc.small) / kUp;
        return acc.sum <= kGreatest<C> ? root : math::sqrt<C>(acc.large) / kDown;
    }
};

// Root of the sum of squares in f64, whose range suffices for f32; for targets with cheap f64.
template <class T>
struct WideNorm2Reducer {
    using C = compute_t<T>;
    struct Acc {
        double sum;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        const double wide = x;
        acc.sum += wide * wide;
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const { return {a.sum + b.sum}; }
    BK_HD C finish(const Acc& acc, int64_t) const { return static_cast<C>(math::sqrt<double>(acc.sum)); }
};
template <class T>
using norm2_reducer_t =
    std::conditional_t<kDoubleIsCheap && std::is_same_v<compute_t<T>, float>, WideNorm2Reducer<T>, Norm2Reducer<T>>;

// ln(sum(exp(x))) online: the largest x, and the sum of exp(x - largest).
template <class T>
struct LogSumExpReducer {
    using C = compute_t<T>;

    struct Acc {
        C largest, sum;
    };
    static constexpr bool ignores_index = true;
    BK_HD Acc identity() const { return {-kInfinity<C>, 0}; }
    BK_HD void add(Acc& acc, int64_t, C x) const {
        const bool grows = x > acc.largest;
        const C distance = grows ? acc.largest - x : x - acc.largest;
        const C ratio = math::select(x == acc.largest, C(1), math::exp<T>(distance));  // also of two infinities
        acc.sum = math::select(grows, acc.sum * ratio + C(1), acc.sum + ratio);
        acc.largest = math::select(grows, x, acc.largest);
    }
    BK_HD Acc combine(const Acc& a, const Acc& b) const {
        const bool grows = b.largest > a.largest;
        const C distance = grows ? a.largest - b.largest : b.largest - a.largest;
        const C ratio = math::select(a.largest == b.largest, C(1), math::exp<T>(distance));
        return {math::select(grows, b.largest, a.largest), math::select(grows, a.sum * ratio + b.sum, a.sum + b.sum * ratio)};
    }
    BK_HD C finish(const Acc& acc, int64_t) const { return math::log<T>(acc.sum) + acc.largest; }
};

// Variance, or its root, and mean.
template <class T>
struct VarianceReducer : Moments<T> {
    using typename Moments<T>::C;
    using typename Moments<T>::Acc;
    int64_t correction;
    bool is_root;

    BK_HD auto combiner() const { return moment_combiner(*this); }
    BK_HD Pack<C, C> finish(const Acc& acc, int64_t count) const {
        const int64_t divisor = count - correction;
        const C unit = this->unit_of(acc);
        C variance = this->squares_of(acc) / static_cast<C>(divisor), mean = this->unscaled(this->mean_of(acc), unit);
        if (divisor <= 0) variance = kNaN<C>;
        if (count == 0) mean = kNaN<C>;
        return pack(is_root ? math::sqrt<C>(variance) / unit : variance / unit / unit, mean);
    }
};

}  // namespace bk
