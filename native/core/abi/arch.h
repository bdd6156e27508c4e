// SPDX-License-Identifier: Apache-2.0
// Architecture-specific kernels and the dispatch among them; CUDA only.
//
// native/<family>/<name>_sm80.cu is compiled for every chip of CUDA_ARCHS from sm_80 on,
// native/<family>/<name>_sm90a.cu for sm_90 alone, with the instructions that no other chip has, if CUDA_ARCHS lists
// 90.
//
// Each defines a host function that the op declares. If CUDA_ARCHS has no chip for such files, they are absent and the
// Makefile leaves BK_HAS_SM90a undefined; the op's code does not change:
//
//   Status run_sm80(const Problem&, const Launch&);
//   Status run_sm90a(const Problem&, const Launch&);
//
//   const auto variant = choose({BK_SM(90a, run_sm90a), BK_SM(80, run_sm80)}, device_arch());
//   if (variant.run == nullptr) return unsupported_arch(device_arch());
//   return variant.run(problem, launch);
#pragma once

#include <initializer_list>

#include "core/abi/launch.h"
#include "core/abi/status.h"

// The function from *_sm<name>.cu; null, and not referenced, if those files were not compiled.
#define BK_SM(name, function) \
    bk::Variant<decltype(&function)> { #name, BK_IF_1(BK_HAS_SM##name, &function) }
// BK_IF_1(1, f) is f, BK_IF_1(<undefined macro>, f) is nullptr: BK_COMMA_1 alone is defined, and makes f the second argument.
#define BK_IF_1(macro, function) BK_IF_1_PASTE(macro, function)
#define BK_IF_1_PASTE(value, function) BK_SECOND(BK_COMMA_##value function, nullptr, )
#define BK_COMMA_1 0,
#define BK_SECOND(...) BK_SECOND_OF(__VA_ARGS__)
#define BK_SECOND_OF(first, second, ...) second

namespace bk {

template <class Function>
struct Variant {
    const char* name;  // "80" serves sm_80 and later, "90a" serves sm_90 alone
    Function run;

    constexpr int number() const {
        int value = 0;
        for (const char* c = name; *c >= '0' && *c <= '9'; ++c) value = 10 * value + (*c - '0');
        return value;
    }
    constexpr bool is_exact() const {
        const char* c = name;
        while (*c >= '0' && *c <= '9') ++c;
        return *c != 0;
    }
    constexpr bool serves(int arch) const { return run != nullptr && (is_exact() ? arch == number() : arch >= number()); }
    constexpr bool is_better_than(const Variant& other) const {
        return other.run == nullptr || 2 * number() + is_exact() > 2 * other.number() + other.is_exact();
    }
};

// Picks the best compiled variant for a compute capability times ten, in any order of the list; `run` is null if none
// serves it.
template <class Function>
constexpr Variant<Function> choose(std::initializer_list<Variant<Function>> variants, int arch) {
    Variant<Function> best{"", nullptr};
    for (const Variant<Function>& variant : variants)
        if (variant.serves(arch) && variant.is_better_than(best)) best = variant;
    return best;
}

inline Status unsupported_arch(int arch) {
    if (arch == 0) return fail(Status::kInternal, "no CUDA device answers");
    return fail(Status::kUnsupported, "this library has no kernel of the op for sm_%d", arch);
}

}  // namespace bk
