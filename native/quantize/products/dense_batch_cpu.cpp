// SPDX-License-Identifier: Apache-2.0
// Dispatches with dense weights on the CPU: eight rows of weights at a time, 256 K elements converted at once.
#include "quantize/products/dense_batch.h"

#include <algorithm>

#include "quantize/products/dispatches_cpu.h"

namespace bk {

namespace {

template <int kBytes>
struct DenseRows {
    static void decode(const BlockProduct& p, const uint8_t* row, int64_t first, int64_t count, float* to) {
        run_unfused<kBytes>([&] { copy_floats(row, first, 1, p.dtype, count, to); });
    }
    static int64_t row_bytes(const BlockProduct& p) { return p.k * bytes_of(p.dtype); }
};

}  // namespace

Status dense_dispatches(const Launch&, const BlockProduct& p) { return multiply_row_tiles<DenseRows>(p); }

}  // namespace bk
