// SPDX-License-Identifier: Apache-2.0
// Casts between types given by run-time codes. Strided GPU casts use them, so that a pair of types adds only a dense
// kernel.
#pragma once

#include <cstdint>

#include "core/platform.h"
#include "core/types/convert.h"
#include "core/types/dtype.h"
#include "elementwise/tune.h"

namespace bk {

template <class... T>
struct TypeList {
    // Index of U in the list; -1 if absent.
    template <class U>
    static constexpr int index_of = [] {
        int found = -1, i = 0;
        ((found = std::is_same_v<T, U> ? i : found, ++i), ...);
        return found;
    }();

    // Calls use(x) with `bits` as the type of that code, widened; only types of the size of Bits.
    template <class Bits, class Use>
    static BK_HD void with_value(int code, Bits bits, const Use& use) {
        (with_value_of<T>(code, bits, use), ...);
    }

    // Bits of x converted to the type of that code.
    template <class Bits, class X>
    static BK_HD Bits converted(int code, X x) {
        Bits result{};
        (convert_to<T>(code, x, &result), ...);
        return result;
    }

private:
    template <class U, class Bits, class Use>
    static BK_HD void with_value_of(int code, Bits bits, const Use& use) {
        if constexpr (sizeof(U) == sizeof(Bits))
            if (code == index_of<U>) use(widen(bit_cast<U>(bits)));
    }
    template <class U, class Bits, class X>
    static BK_HD void convert_to(int code, X x, Bits* result) {
        if constexpr (sizeof(U) == sizeof(Bits))
            if (code == index_of<U>) *result = bit_cast<Bits>(narrow<U>(convert<U>(x)));
    }
};

using CastTypeList = TypeList<float, double, f16, bf16, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t,
                              uint64_t, boolean, e4m3, e5m2>;
template <class T>
constexpr int kCastCode = CastTypeList::index_of<T>;

template <class From, class To>
struct CastByCode {
    int from, to;
    BK_HD To operator()(From bits) const {
        To result{};
        CastTypeList::with_value(from, bits, [&](auto x) { result = CastTypeList::converted<To>(to, x); });
        return result;
    }
};

}  // namespace bk
