// Many Accs of a reducer as an array for each of their numbers, so that loops over them become vector code.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/platform.h"
#include "core/types/pack.h"

namespace bk {

struct AnyNumber {
    template <class T>
    operator T() const;
};

template <class Acc, class Numbers, class = void>
constexpr bool kIsMadeOf = false;
template <class Acc, size_t... I>
constexpr bool kIsMadeOf<Acc, std::index_sequence<I...>, std::void_t<decltype(Acc{(void(I), AnyNumber{})...})>> = true;

// How many members a struct of up to five numbers has.
template <class Acc>
constexpr int kNumbersOf = kIsMadeOf<Acc, std::make_index_sequence<5>>   ? 5
                           : kIsMadeOf<Acc, std::make_index_sequence<4>> ? 4
                           : kIsMadeOf<Acc, std::make_index_sequence<3>> ? 3
                           : kIsMadeOf<Acc, std::make_index_sequence<2>> ? 2
                                                                         : 1;

template <class Acc>
BK_HD auto numbers_of(const Acc& acc) {
    if constexpr (kNumbersOf<Acc> == 5) {
        const auto& [a, b, c, d, e] = acc;
        return pack(a, b, c, d, e);
    } else if constexpr (kNumbersOf<Acc> == 4) {
        const auto& [a, b, c, d] = acc;
        return pack(a, b, c, d);
    } else if constexpr (kNumbersOf<Acc> == 3) {
        const auto& [a, b, c] = acc;
        return pack(a, b, c);
    } else if constexpr (kNumbersOf<Acc> == 2) {
        const auto& [a, b] = acc;
        return pack(a, b);
    } else {
        const auto& [a] = acc;
        return pack(a);
    }
}

template <class Acc, int64_t kCount, class Numbers = decltype(numbers_of(std::declval<const Acc&>()))>
struct AccArrays;

template <class Acc, int64_t kCount, class... Number>
struct AccArrays<Acc, kCount, Pack<Number...>> {
    template <class T>
    struct alignas(64) Array {
        T at[kCount];
    };
    Pack<Array<Number>...> arrays;

    BK_HD Acc load(int64_t i) const { return load(i, std::index_sequence_for<Number...>{}); }
    BK_HD void store(int64_t i, const Acc& acc) { store(i, numbers_of(acc), std::index_sequence_for<Number...>{}); }

private:
    template <size_t... I>
    BK_HD Acc load(int64_t i, std::index_sequence<I...>) const {
        return Acc{get<I>(arrays).at[i]...};
    }
    template <size_t... I>
    BK_HD void store(int64_t i, const Pack<Number...>& numbers, std::index_sequence<I...>) {
        ((get<I>(arrays).at[i] = get<I>(numbers)), ...);
    }
};

}  // namespace bk
