// SPDX-License-Identifier: Apache-2.0
// The C++ functions: overloads, workspaces that grow, statuses as exceptions, gradients that are not wanted.
#include <baracuda/kernels.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace bk = baracuda;

#define CHECK(condition)                                                 \
    do {                                                                 \
        if (!(condition)) {                                              \
            std::fprintf(stderr, "line %d: " #condition "\n", __LINE__); \
            std::exit(1);                                                \
        }                                                                \
    } while (0)

// An allocator that counts what it hands out, and what it gets back.
struct Counts {
    int allocated = 0, released = 0;
    std::size_t bytes = 0;
};

static bk::allocator counting(Counts& counts) {
    return {[](void* context, std::size_t bytes, bk::stream) {
                auto& counts = *static_cast<Counts*>(context);
                ++counts.allocated;
                counts.bytes = bytes;
                return std::malloc(bytes);
            },
            [](void* context, void* memory, std::size_t, bk::stream) {
                ++static_cast<Counts*>(context)->released;
                std::free(memory);
            },
            &counts};
}

template <class Call>
static bk::error failure(Call call) {
    try {
        call();
    } catch (const bk::error& error) {
        return error;
    }
    return bk::error(bk::status::ok, "nothing was thrown");
}

static void workspaces() {
    const std::vector<bk::f16> x = {{0x3c00}, {0x4000}, {0x4200}, {0x4400}};  // 1 2 3 4
    const std::vector<std::int64_t> ids = {1, 0, 1, 1};
    std::vector<bk::f16> y(500);
    Counts counts;
    {
        bk::workspace scratch(counting(counts));
        for (int segments : {2, 500, 2})
            bk::unsorted_segment_sum(4, 1, segments, x.data(), ids.data(), y.data(), {{}, &scratch});
        CHECK(y[0].bits == 0x4000 && y[1].bits == 0x4800);
        const auto needed = bk::unsorted_segment_sum_workspace_size<bk::f16, std::int64_t>(4, 1, 500);
        CHECK(needed > 0 && scratch.bytes() == needed && counts.bytes == needed);
        CHECK(counts.allocated == 2 && counts.released == 1);
        bk::workspace moved(std::move(scratch));
        scratch = bk::workspace(bk::host_allocator());
        CHECK(moved.bytes() == needed && scratch.data() == nullptr);
        bk::unsorted_segment_sum(4, 1, 2, x.data(), ids.data(), y.data(), {nullptr, &moved});
    }
    CHECK(counts.allocated == 2 && counts.released == 2);
    char little[1];
    bk::workspace fixed(little, sizeof little);
    y[0].bits = y[1].bits = 0;
    bk::unsorted_segment_sum(4, 1, 2, x.data(), ids.data(), y.data(), {nullptr, &fixed});
    CHECK(y[0].bits == 0x4000 && y[1].bits == 0x4800 && fixed.data() == little && fixed.bytes() == sizeof little);
    bk::workspace none(
        {[](void*, std::size_t, bk::stream) -> void* { return nullptr; }, [](void*, void*, std::size_t, bk::stream) {}});
    bool refused = false;
    try {
        none.reserve(1);
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    CHECK(refused && none.bytes() == 0);
}

static void elements_of_every_kind() {
    const bk::f16 half[2] = {{0x3c00}, {0xc000}};  // 1, -2
    float single[2];
    bk::cast(2, half, single);
    CHECK(single[0] == 1 && single[1] == -2);
    const std::uint16_t theirs[2] = {0x3c00, 0xc000};
    bk::f16 negated[2];
    bk::unary_neg(2, bk::elements<bk::f16>(theirs), negated);
    CHECK(negated[0].bits == 0xbc00 && negated[1].bits == 0x4000);
    bk::fill(2, negated, {0x3c00});
    CHECK(negated[1].bits == 0x3c00);
    std::int32_t whole[2] = {3, -4};
    bk::affine_inplace(2, 2, 1, whole);
    CHECK(whole[0] == 7 && whole[1] == -7);
    bool flags[2] = {true, false};
    bk::unary_logical_not(2, flags, flags);
    CHECK(!flags[0] && flags[1]);
    const std::int32_t shape[1] = {2};
    const std::int64_t stride[1] = {1}, backwards[1] = {-1};
    float reversed[2];
    bk::unary_neg_strided(2, 1, shape, backwards, stride, single + 1, reversed);
    CHECK(reversed[0] == 2 && reversed[1] == -1);
}

static void failures() {
    const float x[2] = {1, 2};
    float y[2], db[2];
    const bk::error error = failure([&] { bk::unary_neg(-6, x, y); });
    CHECK(error.code() == bk::status::invalid_problem);
    CHECK(std::string(error.what()) == "unary_neg_f32: numel is -6, must be >= 0");
    CHECK(failure([&] { bk::unary_neg(2, x, y); }).code() == bk::status::ok);
    CHECK(bk::unary_neg_can_implement<float>(-6) == bk::status::invalid_problem);
    CHECK((bk::segment_sum_can_implement<double, std::int32_t>(6, 2, 4) == bk::status::ok));
    bk::binary_mul_backward(2, x, x, nullptr, nullptr, db);
    CHECK(db[0] == 1 && db[1] == 4);
}

int main() {
    workspaces();
    elements_of_every_kind();
    failures();
    std::puts("ok");
}
