// SPDX-License-Identifier: Apache-2.0
// Products of few rows with weights of four bits, on the blocks of clusters of several sizes.
#define BK_FIBER_CLUSTERS
#include "quantize/instances/few_rows.cu"

#include <cmath>

#include "arrays.h"

namespace {

using namespace bk::floats;

struct Problem {
    FewRowsLayout layout;
    bk::codec::CodeBook book;
    int64_t m, n, k;
    int32_t block_shift;
    bool is_swizzled, is_f16, has_bias;
};

uint32_t draw() {
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33);
}

struct Operands {
    std::vector<uint4> codes, x;
    std::vector<uint8_t> scales;
    std::vector<float> maxima;
    std::vector<uint16_t> bias;
    float tensor_scale = 0.25f;
    FewRows p{};
    std::vector<double> want, size;

    explicit Operands(const Problem& given) : p{given.m, given.n, given.k} {
        const bool is_mx = given.layout == FewRowsLayout::kMx32 || given.layout == FewRowsLayout::kMx16;
        const int64_t weights = p.n * p.k,
                      block = is_mx ? given.layout == FewRowsLayout::kMx32 ? 32 : 16 : 64 << given.block_shift;
        codes.resize(static_cast<size_t>(weights / 32 + 1));
        x.resize(static_cast<size_t>(p.m * p.k / 8 + 1));
        uint8_t* const bytes = reinterpret_cast<uint8_t*>(codes.data());
        uint16_t* const rows = reinterpret_cast<uint16_t*>(x.data());
        for (int64_t i = 0; i < weights / 2; ++i) bytes[i] = static_cast<uint8_t>(draw());
        p.dtype = given.is_f16 ? FloatDtype::kF16 : FloatDtype::kBf16;
        const auto rounded = [&](float v) { return given.is_f16 ? narrow<f16>(v).bits : narrow<bf16>(v).bits; };
        for (int64_t i = 0; i < p.m * p.k; ++i) {
            const float v = static_cast<float>(static_cast<int32_t>(draw() % 2001) - 1000) / 1000;
            rows[i] = rounded(v * v * v);
        }
        for (int64_t i = 0; i < p.n; ++i) bias.push_back(rounded(value_at(i)));
        p.codes = bytes;
        p.x = rows;
        p.bias = given.has_bias ? bias.data() : nullptr;
        p.layout = given.layout;
        p.block_shift = given.block_shift;
        float values[16];
        if (is_mx) {
            const auto element = codec::minifloat(codec::FloatFormat::kE2m1);
            for (uint32_t i = 0; i < 16; ++i) p.values[i] = narrow<f16>(values[i] = element.decode(i)).bits;
            p.unit = 1;
            p.scale_map = {given.is_swizzled ? codec::ScaleLayout::kSwizzled : codec::ScaleLayout::kLinear, p.n, p.k / block};
            for (int64_t i = 0; i < p.scale_map.count(); ++i)
                scales.push_back(
                    static_cast<uint8_t>(given.layout == FewRowsLayout::kMx32 ? 120 + draw() % 9 : 40 + draw() % 30));
            p.scales = scales.data();
            p.tensor_scale = given.layout == FewRowsLayout::kMx16 ? &tensor_scale : nullptr;
        } else {
            set_book(p, given.book);
            for (int i = 0; i < 16; ++i) values[i] = codec::code_book_value(given.book, i);
            for (int64_t i = 0; i < (weights + block - 1) / block; ++i)
                maxima.push_back(static_cast<float>(1 + draw() % 8) / 4);
            p.maxima.values = maxima.data();
        }
        const auto weight = [&](int64_t r, int64_t c) {
            const int64_t flat = r * p.k + c;
            uint32_t code = bytes[flat / 2] >> (flat % 2 != 0 ? 4 : 0) & 15u;
            if (p.layout == FewRowsLayout::kColumns) code = bytes[flat / 2] >> (flat % 2 != 0 ? 0 : 4) & 15u;
            if (p.layout == FewRowsLayout::kRowPairs) code = bytes[r / 2 * p.k + c] >> (r % 2 * 4) & 15u;
            double scale = is_mx ? 0 : static_cast<double>(maxima[static_cast<size_t>(flat / block)]);
            if (is_mx) {
                const uint32_t of = scales[static_cast<size_t>(p.scale_map.at(r, c / block))];
                scale = given.layout == FewRowsLayout::kMx32
                            ? static_cast<double>(codec::e8m0_value(of))
                            : 0.25 * static_cast<double>(codec::minifloat(codec::FloatFormat::kE4m3).decode(of));
            }
            return scale * static_cast<double>(values[code]);
        };
        want.assign(static_cast<size_t>(p.m * p.n), 0);
        size = want;
        for (int64_t r = 0; r < p.n; ++r) {
            std::vector<double> w;
            for (int64_t c = 0; c < p.k; ++c) w.push_back(weight(r, c));
            for (int64_t i = 0; i < p.m; ++i) {
                const size_t at = static_cast<size_t>(i * p.n + r);
                if (given.has_bias) size[at] = std::fabs(want[at] = widened(bias[static_cast<size_t>(r)]));
                for (int64_t c = 0; c < p.k; ++c) {
                    const double product = w[static_cast<size_t>(c)] * widened(rows[i * p.k + c]);
                    want[at] += product;
                    size[at] += std::fabs(product);
                }
            }
        }
    }
    double widened(uint16_t bits) const {
        return static_cast<double>(p.dtype == FloatDtype::kF16 ? widen(f16{bits}) : widen(bf16{bits}));
    }
};

template <FewRowsLayout kLayout>
std::vector<uint16_t> multiplied(const FewRows& given, int64_t rows, int cluster, int clusters) {
    std::vector<uint16_t> y(static_cast<size_t>(given.n * rows + 1), 0x7fffu);
    FewRows p = given;
    p.m = rows;
    p.y = y.data();
    FewRowsSplit split = few_rows_slices(p.k);
    split.cluster = cluster;
    split.clusters = clusters;
    const Launch launch{};
    const Status status = rows <= 8    ? launch_few_rows<kLayout, 1>(launch, p, split)
                          : rows <= 16 ? launch_few_rows<kLayout, 2>(launch, p, split)
                                       : launch_few_rows<kLayout, 4>(launch, p, split);
    if (status != Status::kOk || y.back() != 0x7fffu) exit(1);
    return y;
}

template <FewRowsLayout kLayout>
bool is_right(const Problem& given) {
    const Operands of(given);
    for (const int cluster : {1, 2, 8}) {  // each has its own order of sums
        std::vector<uint16_t> first;
        for (const int clusters : {1, 3}) {
            const std::vector<uint16_t> y = multiplied<kLayout>(of.p, given.m, cluster, clusters);
            for (size_t i = 0; i < of.want.size(); ++i) {
                const double got = of.widened(y[i]), step = std::ldexp(std::fabs(of.want[i]), given.is_f16 ? -11 : -8);
                if (std::fabs(got - of.want[i]) <= step + std::ldexp(of.size[i], -16)) continue;
                printf("layout %d, %d blocks: y[%zu] is %g, expected %g\n", static_cast<int>(kLayout), cluster, i, got,
                       of.want[i]);
                return false;
            }
            if (first.empty()) first = y;
            if (y != first) {
                printf("layout %d: %d blocks, %d clusters have other bits\n", static_cast<int>(kLayout), cluster, clusters);
                return false;
            }
            for (const int64_t rows : {int64_t{1}, given.m / 2 + 1}) {
                const std::vector<uint16_t> fewer = multiplied<kLayout>(of.p, rows, cluster, clusters);
                if (std::equal(fewer.begin(), fewer.end() - 1, y.begin())) continue;
                printf("layout %d: %d rows have other bits\n", static_cast<int>(kLayout), static_cast<int>(rows));
                return false;
            }
        }
    }
    return true;
}

// A sum that is what a value of NF4 lacks in f16: 1 times code 1 less 0.6962890625 times code 15.
template <FewRowsLayout kLayout>
bool sees_digits() {
    Operands of({kLayout, codec::CodeBook::kNf4, 1, 2, 64, 0, false, true, false});
    uint8_t* const codes = reinterpret_cast<uint8_t*>(of.codes.data());
    uint16_t* const x = reinterpret_cast<uint16_t*>(of.x.data());
    for (int c = 0; c < 64; ++c) x[c] = 0;
    x[4] = narrow<f16>(1.f).bits;
    x[37] = narrow<f16>(0.6962890625f).bits;
    of.maxima.assign(2, 1.f);
    const auto set = [&](int c) {
        for (int r = 0; r < 2; ++r) {
            const uint8_t code = c == 4 ? 0x11 : 0xff;
            codes[kLayout == FewRowsLayout::kRowPairs ? c : 32 * r + c / 2] = code;
        }
    };
    set(4);
    set(37);
    of.p.maxima.values = of.maxima.data();
    const std::vector<uint16_t> y = multiplied<kLayout>(of.p, 1, 1, 1);
    const double want = 0.6962890625 - static_cast<double>(codec::code_book_value(codec::CodeBook::kNf4, 1) * -1);
    for (int r = 0; r < 2; ++r) {
        const double got = of.widened(y[static_cast<size_t>(r)]);
        if (std::fabs(got - want) <= 0.03 * want) continue;
        printf("layout %d: %g, expected %g\n", static_cast<int>(kLayout), got, want);
        return false;
    }
    return true;
}

}  // namespace

int main() {
    fibers::cluster_rounds = 16;  // more than the barriers of a block
    using L = FewRowsLayout;
    const auto nf4 = bk::codec::CodeBook::kNf4, fp4 = bk::codec::CodeBook::kFp4;
    const bool right = is_right<L::kColumns>({L::kColumns, nf4, 3, 77, 1472, 0, false, false, true}) &&
                       is_right<L::kColumns>({L::kColumns, fp4, 11, 290, 320, 1, false, true, false}) &&
                       is_right<L::kColumns>({L::kColumns, nf4, 32, 40, 704, 2, false, true, true}) &&
                       is_right<L::kRowPairs>({L::kRowPairs, nf4, 8, 50, 1088, 0, false, false, false}) &&
                       is_right<L::kRowPairs>({L::kRowPairs, nf4, 20, 34, 64, 0, false, true, false}) &&
                       is_right<L::kMx32>({L::kMx32, nf4, 2, 50, 1216, 0, true, false, true}) &&
                       is_right<L::kMx32>({L::kMx32, nf4, 17, 33, 256, 0, false, true, false}) &&
                       is_right<L::kMx16>({L::kMx16, nf4, 5, 35, 832, 0, false, false, true}) &&
                       is_right<L::kMx16>({L::kMx16, nf4, 16, 20, 448, 0, true, true, false});
    if (!right || !sees_digits<L::kColumns>() || !sees_digits<L::kRowPairs>()) return 1;
    puts("ok");
    return 0;
}
