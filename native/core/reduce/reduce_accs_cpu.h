// SPDX-License-Identifier: Apache-2.0
// Structure of arrays of a reducer's accumulators, so that loops over them vectorise.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/platform.h"
#include "core/types/pack.h"

namespace bk {

struct AnyMember {
    template <class T>
    operator T() const;
};

template <class Acc, class Members, class = void>
constexpr bool kHasMembers = false;
template <class Acc, size_t... I>
constexpr bool kHasMembers<Acc, std::index_sequence<I...>, std::void_t<decltype(Acc{(void(I), AnyMember{})...})>> = true;

// Number of members of a struct with one to five.
template <class Acc>
constexpr int kMemberCount = kHasMembers<Acc, std::make_index_sequence<5>>   ? 5
                             : kHasMembers<Acc, std::make_index_sequence<4>> ? 4
                             : kHasMembers<Acc, std::make_index_sequence<3>> ? 3
                             : kHasMembers<Acc, std::make_index_sequence<2>> ? 2
                                                                             : 1;

template <class Acc>
BK_HD auto members_of(const Acc& acc) {
    if constexpr (kMemberCount<Acc> == 5) {
        const auto& [a, b, c, d, e] = acc;
        return pack(a, b, c, d, e);
    } else if constexpr (kMemberCount<Acc> == 4) {
        const auto& [a, b, c, d] = acc;
        return pack(a, b, c, d);
    } else if constexpr (kMemberCount<Acc> == 3) {
        const auto& [a, b, c] = acc;
        return pack(a, b, c);
    } else if constexpr (kMemberCount<Acc> == 2) {
        const auto& [a, b] = acc;
        return pack(a, b);
    } else {
        const auto& [a] = acc;
        return pack(a);
    }
}

template <class Acc, int64_t kCount, class Members = decltype(members_of(std::declval<const Acc&>()))>
struct AccArrays;

template <class Acc, int64_t kCount, class... Member>
struct AccArrays<Acc, kCount, Pack<Member...>> {
    template <class T>
    struct alignas(64) Array {
        T at[kCount];
    };
    Pack<Array<Member>...> arrays;

    BK_HD Acc load(int64_t i) const { return load(i, std::index_sequence_for<Member...>{}); }
    BK_HD void store(int64_t i, const Acc& acc) { store(i, members_of(acc), std::index_sequence_for<Member...>{}); }

private:
    template <size_t... I>
    BK_HD Acc load(int64_t i, std::index_sequence<I...>) const {
        return Acc{get<I>(arrays).at[i]...};
    }
    template <size_t... I>
    BK_HD void store(int64_t i, const Pack<Member...>& members, std::index_sequence<I...>) {
        ((get<I>(arrays).at[i] = get<I>(members)), ...);
    }
};

}  // namespace bk
