// SPDX-License-Identifier: Apache-2.0
// Convolution of 8-bit integers on the CPU: integer dot products where the processor has them and a sum fits 32 bits, else
// f32 products whose blocks are exact, accumulated in f64.
#include "conv/core.h"
#include "conv/cpu/conv_cpu.h"

namespace bk {

template <class T>
Status conv_forward_int8(const Launch&, const ConvShape& shape, const T* x, const int8_t* w, void* y,
                         const ConvInt8Epilogue& epilogue) {
    using Problem = TapSumProblem<T, int8_t, TapSumInt8Store>;
    const Problem p{forward_sums(shape), x, w, {epilogue, y}};
    const Launch launch{};
#if BK_ISA_DISPATCH
    // Dot products take one unsigned operand: the source, if it is unsigned and the weights are signed.
    constexpr bool kIsMixed = std::is_same_v<T, uint8_t>;
    if (has_dot_products() && p.shape.summands() <= kMaxDotK) {
        if (kIsMixed && !p.channels_inside()) return BlocksOf<Problem, Packing::kU8Quads, 64>::run(launch, p);
        return BlocksOf<Problem, Packing::kS8Quads, 64>::run(launch, p);
    }
    if (vector_bytes() == 64) return BlocksOf<Problem, Packing::kF32Integer, 64>::run(launch, p);
    if (vector_bytes() == 32) return BlocksOf<Problem, Packing::kF32Integer, 32>::run(launch, p);
#endif
    return BlocksOf<Problem, Packing::kF32Integer, 16>::run(launch, p);
}

template Status conv_forward_int8<int8_t>(const Launch&, const ConvShape&, const int8_t*, const int8_t*, void*,
                                          const ConvInt8Epilogue&);
template Status conv_forward_int8<uint8_t>(const Launch&, const ConvShape&, const uint8_t*, const int8_t*, void*,
                                           const ConvInt8Epilogue&);

}  // namespace bk
