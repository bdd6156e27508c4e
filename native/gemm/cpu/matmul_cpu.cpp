// SPDX-License-Identifier: Apache-2.0
// Activations of the GEMM epilogue on the CPU.
#include "gemm/cpu/matmul_store_cpu.h"

namespace bk {

namespace {

template <class F, class S>
void apply(S* z, int64_t count) {
    dispatch_range(
        [z](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) z[i] = F{}(z[i]);
        },
        0, count);
}

}  // namespace

template <class A>
void activate_span(Activation activation, compute_t<A>* z, int64_t count) {
    switch (activation) {
#define BK_CASE(number, functor, name, low, high) \
    case Activation::k##functor: return apply<op::functor<A>>(z, count);
        BK_ACTIVATIONS(BK_CASE)
#undef BK_CASE
        case Activation::kNone: return;
    }
}

template void activate_span<f16>(Activation, float*, int64_t);
template void activate_span<bf16>(Activation, float*, int64_t);
template void activate_span<float>(Activation, float*, int64_t);
template void activate_span<double>(Activation, double*, int64_t);

}  // namespace bk
