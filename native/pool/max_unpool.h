// SPDX-License-Identifier: Apache-2.0
// max_unpool: y of a plane has x at the cells that indices name, and 0 elsewhere; of several values for a cell the last one
// counts. Its gradient is a gather.
#pragma once

#include <cstdint>

#include "pool/by_index.h"
#include "pool/items.h"
#include "pool/problem.h"

namespace bk::pool {

struct MaxUnpoolArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_x, *stride_indices, *stride_y;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().planes_of_outputs()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_x", stride_x}, rank, given().image.shape(), false));
        BK_TRY(check_strides({"stride_indices", stride_indices}, rank, given().image.shape(), false));
        return check_strides({"stride_y", stride_y}, rank, given().outputs(), true);
    }
    Status locate_y(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_y", rank, given().outputs(), stride_y);
    }
    // Cells are those of y, windows the elements of x.
    BK_COLD Problem problem() const {
        Problem p = given().image.problem();
        const int32_t spatial = rank - 2;
        for (int32_t d = 0; d < spatial; ++d)
            p.axis[kAxes - spatial + d] = Axis::windows(output_size[d], input_shape[2 + d], 1, 1, 1, 0, 0);
        p.y = given().cell_strides(stride_x);
        p.indices = given().cell_strides(stride_indices);
        p.x = given().output_strides(stride_y);
        return p;
    }
};

template <class T>
struct MaxUnpool : MaxUnpoolArguments {
    Status run(const T* x, const int64_t* indices, T* y, const Launch& launch) const {
        return store_by_index(launch, problem(), ByIndex::kLast, false, x, indices, y);
    }
};

struct MaxUnpoolBackwardArguments {
    int32_t rank;
    const int32_t *input_shape, *output_size;
    const int64_t *stride_dy, *stride_indices, *stride_dx;

    OutputArguments given() const { return {{rank, input_shape}, output_size}; }
    Work work() const { return all_or_none(given().image.planes()); }
    BK_COLD Status check() const {
        BK_TRY(given().check());
        BK_TRY(check_strides({"stride_dy", stride_dy}, rank, given().outputs(), false));
        BK_TRY(check_strides({"stride_indices", stride_indices}, rank, given().image.shape(), false));
        return check_strides({"stride_dx", stride_dx}, rank, given().image.shape(), true);
    }
    Status locate_dy(Operand* operand, const char* name, Role role, int64_t size) const {
        return locate_image(operand, name, role, size, "stride_dy", rank, given().outputs(), stride_dy);
    }
    BK_COLD Problem problem() const {
        Problem p = given().image.problem();
        const int32_t spatial = rank - 2;
        for (int32_t d = 0; d < spatial; ++d)
            p.axis[kAxes - spatial + d] = Axis::windows(output_size[d], input_shape[2 + d], 1, 1, 1, 0, 0);
        p.y = given().cell_strides(stride_dx);
        p.indices = given().cell_strides(stride_indices);
        p.x = given().output_strides(stride_dy);
        return p;
    }
};

// Moves elements of Bits.
template <class Bits>
struct UnpoolBackwardJob {
    Problem p;
    LongDiv by_windows, by_plane, by_row, by_channels, by_height, by_width;
    const Bits* dy;
    const int64_t* indices;
    Bits* dx;

    BK_HD void operator()(int64_t item) const {
        const auto at = by_windows(item);
        const auto plane = by_channels(at.quotient);
        const auto outer = by_plane(at.remainder);
        const auto row = by_row(outer.remainder);
        const int32_t a = static_cast<int32_t>(outer.quotient), b = static_cast<int32_t>(row.quotient),
                      c = static_cast<int32_t>(row.remainder);
        const int64_t number = indices[p.indices.plane(plane.quotient, plane.remainder) + p.indices.at(a, b, c)];
        Bits value{};
        if (number >= 0 && number < p.cells()) {
            const auto width = by_width(number);
            const auto height = by_height(width.quotient);
            value = dy[p.x.plane(plane.quotient, plane.remainder) + p.x.at(static_cast<int32_t>(height.quotient),
                                                                           static_cast<int32_t>(height.remainder),
                                                                           static_cast<int32_t>(width.remainder))];
        }
        dx[p.y.plane(plane.quotient, plane.remainder) + p.y.at(a, b, c)] = value;
    }
};

template <class T>
struct MaxUnpoolBackward : MaxUnpoolBackwardArguments {
    Status run(const T* dy, const int64_t* indices, T* dx, const Launch& launch) const {
        using Bits = bits_t<T>;
        const Problem p = problem();
        const int64_t row = p.axis[2].out, plane = row * p.axis[1].out;
        const UnpoolBackwardJob<Bits> job{p,
                                          LongDiv(p.windows()),
                                          LongDiv(plane),
                                          LongDiv(row),
                                          LongDiv(p.channels),
                                          LongDiv(p.axis[1].in),
                                          LongDiv(p.axis[2].in),
                                          reinterpret_cast<const Bits*>(dy),
                                          indices,
                                          reinterpret_cast<Bits*>(dx)};
        return run_items(launch, p.planes() * p.windows(), static_cast<int64_t>(2 * sizeof(T)) + 8, job);
    }
};

}  // namespace bk::pool
