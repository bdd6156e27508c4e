// Activations of the epilogue on the CPU.
#include "gemm/matmul_store_cpu.h"

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

template <class S>
void activate(Activation activation, S* z, int64_t count) {
    switch (activation) {
        case Activation::kRelu: return apply<op::Relu<S>>(z, count);
        case Activation::kGelu: return apply<op::Gelu<S>>(z, count);
        case Activation::kSilu: return apply<op::Silu<S>>(z, count);
        case Activation::kGeluTanh: return apply<op::GeluTanh<S>>(z, count);
        case Activation::kNone: return;
    }
}

}  // namespace

void activate_span(Activation activation, float* z, int64_t count) { activate(activation, z, count); }
void activate_span(Activation activation, double* z, int64_t count) { activate(activation, z, count); }

}  // namespace bk
