// The sum skeleton: y[c] = sum over r of x[c, r], where c walks the kept axes and r the summed ones, any strides.
//
// Accumulates in the compute type and rounds once. The order of additions depends on the layout alone, so results are
// reproducible. Long sums with few results need partial sums in a workspace to fill the chip.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/workspace.h"
#include "core/pointwise/layout.h"
#include "core/pointwise/pointwise.h"
#include "core/types/vec.h"

namespace bk {

// Axes of a sum: operands x and y of the kept ones, x of the summed.
struct SumAxes {
    Layout<2> kept;
    Layout<1> summed;
};

// Bytes of workspace that strided_sum can use.
template <class T>
size_t strided_sum_workspace(const SumAxes& axes);

// An empty sum is 0.
template <class T>
Status strided_sum(const Launch& launch, const SumAxes& axes, const T* x, T* y);

template <class T>
Status fill_zero(const Launch& launch, const Layout<2>& kept, T* y) {
    Layout<1> layout;
    for (int d = 0; d < kept.rank; ++d) layout.append(kept.extent[d], {kept.stride[1][d]});
    return pointwise_strided(launch, layout, ZeroFunctor<compute_t<T>>{}, outputs(y), inputs());
}

// A sum of one term.
template <class T>
Status copy_kept(const Launch& launch, const Layout<2>& kept, const T* x, T* y) {
    Layout<2> layout;
    for (int d = 0; d < kept.rank; ++d) layout.append(kept.extent[d], {kept.stride[1][d], kept.stride[0][d]});
    return pointwise_strided(launch, layout, CopyFunctor{}, outputs(y), inputs(x));
}

}  // namespace bk

#if BK_CUDA
#include "core/reduce/strided_sum_cuda.cuh"
#else
#include "core/reduce/strided_sum_cpu.h"
#endif
