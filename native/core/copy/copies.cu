// SPDX-License-Identifier: Apache-2.0
#include "core/copy/copies.h"

#include "core/copy/mapped_kernel.cuh"
#include "core/copy/repeat_interleave.cuh"
#include "core/pointwise/pointwise.h"

namespace bk {

namespace {

template <class Bits>
Status copy_bits(const Launch& launch, const CopyLayout& layout, const void* x, void* y) {
    RepeatedElements repeated;
    if (RepeatedElements::of(layout, sizeof(Bits), x, y, &repeated)) return launch_repeated<Bits>(launch, repeated, x, y);
    return pointwise_strided(launch, layout, CopyFunctor{}, outputs(static_cast<Bits*>(y)),
                             inputs(static_cast<const Bits*>(x)));
}

}  // namespace

Status copy_strided(const Launch& launch, const CopyLayout& layout, int bytes, const void* x, void* y) {
    switch (bytes) {
        case 1: return copy_bits<uint8_t>(launch, layout, x, y);
        case 2: return copy_bits<uint16_t>(launch, layout, x, y);
        case 4: return copy_bits<uint32_t>(launch, layout, x, y);
        case 8: return copy_bits<uint64_t>(launch, layout, x, y);
        default:
            return copy_in_halves(layout, x, y, [&](const CopyLayout& halves, const void* from, void* to) {
                return copy_bits<uint64_t>(launch, halves, from, to);
            });
    }
}

Status copy_mapped(const Launch& launch, const MappedCopy& copy, int bytes, const void* x, void* y) {
    if (bytes == 16)
        return copy_in_halves(copy, x, y, [&](const MappedCopy& halves, const void* from, void* to) {
            return launch_mapped<uint64_t>(launch, plan_mapped(halves), from, to);
        });
    const MappedPlan plan = plan_mapped(copy);
    switch (bytes) {
        case 1: return launch_mapped<uint8_t>(launch, plan, x, y);
        case 2: return launch_mapped<uint16_t>(launch, plan, x, y);
        case 4: return launch_mapped<uint32_t>(launch, plan, x, y);
        default: return launch_mapped<uint64_t>(launch, plan, x, y);
    }
}

}  // namespace bk
