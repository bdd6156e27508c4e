// SPDX-License-Identifier: Apache-2.0
// GEMM driver on the CPU: blocking (MC, NC, KC), packing and threads around the microkernel.
#include "gemm/cpu/matmul_driver_cpu.h"

#include <algorithm>
#include <cstring>

#include "core/abi/workspace.h"

namespace bk {

namespace {

constexpr int64_t kKcUnits = 256, kMaxMc = 512, kMaxNc = 2016;  // block sizes with a workspace
constexpr int64_t kMinWork = int64_t{160} * 160 * 160;          // multiplications from which that pays
constexpr int64_t kStackBytes = 16 * 1024 + 512;                // a call uses at most 32 KiB of stack in all
constexpr int64_t kSpanK = 32768;                               // longer sums are compensated sums of slices of that length

bool is_large(int64_t m, int64_t n, int64_t k) { return m > 8 && n > 8 && k > 8 && m * n >= kMinWork / k; }

int64_t rounded_up(int64_t count, int64_t to) { return ceil_div(count, to) * to; }

// Block size that splits `count` evenly into as few blocks of at most `most` as possible.
int64_t even_block(int64_t count, int64_t most, int64_t to) {
    return count == 0 ? to : rounded_up(ceil_div(count, ceil_div(count, most)), to);
}

// Block sizes, and bytes of the packed panels.
struct Blocks {
    const Microkernel& kernel;
    int64_t kc, mc, nc;

    int64_t units(int64_t k_extent) const { return ceil_div<int64_t>(k_extent, kernel.k_per_unit); }
    int64_t a_bytes() const { return panel_footer_offset(units(kc) * kernel.mr * kernel.unit_bytes) + kPanelFooterBytes; }
    int64_t b_bytes() const { return panel_footer_offset(units(kc) * kernel.nr * kernel.unit_bytes) + kPanelFooterBytes; }
    int64_t sums_bytes() const { return int64_t{kernel.mr} * kernel.nr * kernel.sum_bytes; }
    int64_t panels_b() const { return nc / kernel.nr; }
    int64_t panels_a() const { return mc / kernel.mr; }
    // Whether sums over k have compensated totals, updated after each span of K elements.
    static bool has_totals(const Microkernel& kernel, int64_t k) { return kernel.add_block != nullptr && k > kSpanK; }
    int64_t span() const { return ceil_div(kSpanK, kc) * kc; }
    // Adds a block summed up to `end`, of k, to its totals; the sums become rounding errors, from which the next span
    // starts.
    void add_span(int64_t end, int64_t k, int64_t width, char* totals, char* sums) const {
        if (end % span() != 0 && end < k) return;
        if (end <= span()) std::memset(totals, 0, static_cast<size_t>(sums_bytes()));
        kernel.add_block(width, totals, sums);
    }
};

int64_t largest_kc(const Microkernel& kernel) { return std::min(kKcUnits * kernel.k_per_unit, kernel.max_k); }

// A thread's tile: one panel of B, and the rows whose accumulators fit; any number if k is one block.
Blocks blocks_of_stack(const Microkernel& kernel, int64_t m, int64_t k) {
    const Blocks whole{kernel, std::max<int64_t>(rounded_up(k, 8), 8), m, kernel.nr};
    if (k <= kernel.max_k && whole.a_bytes() + whole.b_bytes() + whole.sums_bytes() <= kStackBytes) return whole;
    // Whole-vector panels take half of the stack, accumulators the rest.
    const int64_t units = kStackBytes / 2 / ((kernel.mr + kernel.nr) * kernel.unit_bytes) / 16 * 16;
    const Blocks smaller{kernel, std::min(units * kernel.k_per_unit, kernel.max_k), kernel.mr, kernel.nr};
    const int64_t left = kStackBytes - smaller.a_bytes() - smaller.b_bytes(),
                  sum_copies = Blocks::has_totals(kernel, k) ? 2 : 1;
    return {kernel, smaller.kc, left / (sum_copies * smaller.sums_bytes()) * kernel.mr, kernel.nr};
}

int64_t kc_of_stack(const Microkernel& kernel, int64_t k) { return blocks_of_stack(kernel, kernel.mr, k).kc; }

Blocks blocks_of_workspace(const Microkernel& kernel, int64_t m, int64_t n, int64_t k, bool fixes_order) {
    return {kernel, fixes_order ? kc_of_stack(kernel, k) : even_block(k, largest_kc(kernel), 8),
            even_block(m, kMaxMc, kernel.mr), even_block(n, kMaxNc / kernel.nr * kernel.nr, kernel.nr)};
}

// Upper bound on the blocks of all smaller GEMMs: the workspace size must grow monotonically.
Blocks largest_blocks(const Microkernel& kernel, int64_t m, int64_t n, int64_t k) {
    return {kernel, rounded_up(std::min(k, largest_kc(kernel)), 8), rounded_up(std::min(m, kMaxMc), kernel.mr),
            rounded_up(std::min(n, kMaxNc / kernel.nr * kernel.nr), kernel.nr)};
}

struct Buffers {
    char *a, *b, *sums, *totals;
    size_t bytes;

    Buffers(void* base, const Blocks& blocks, int64_t k) {
        Carver carver(base);
        a = carver.take<char>(blocks.a_bytes() * blocks.panels_a());
        b = carver.take<char>(blocks.b_bytes() * blocks.panels_b());
        const int64_t all = blocks.sums_bytes() * blocks.panels_a() * blocks.panels_b();
        sums = carver.take<char>(k > blocks.kc ? all : 0);
        totals = carver.take<char>(Blocks::has_totals(blocks.kernel, k) ? all : 0);
        bytes = carver.bytes();
    }
};

// --- with a workspace ---

struct Macrokernel {
    const BlockedMatmul& p;
    const Blocks& blocks;
    const Buffers& to;
    int64_t g, i0, rows, j0, columns, k0, depth;

    int64_t panels_b() const { return ceil_div<int64_t>(columns, blocks.kernel.nr); }
    int64_t panels_a() const { return ceil_div<int64_t>(rows, blocks.kernel.mr); }

    void pack(int64_t begin, int64_t end) const {
        const Microkernel& kernel = blocks.kernel;
        for (int64_t panel = begin; panel < end; ++panel) {
            if (panel < panels_b()) {
                const int64_t j = panel * kernel.nr, count = std::min<int64_t>(columns - j, kernel.nr);
                p.pack_columns(p.problem, g, j0 + j, count, k0, depth, to.b + panel * blocks.b_bytes());
            } else {
                const int64_t i = (panel - panels_b()) * kernel.mr, count = std::min<int64_t>(rows - i, kernel.mr);
                p.pack_rows(p.problem, g, i0 + i, count, k0, depth, to.a + (panel - panels_b()) * blocks.a_bytes());
            }
        }
    }

    // Multiplies panels [begin, end) of A by one of B.
    void multiply(int64_t panel, int64_t begin, int64_t end) const {
        const Microkernel& kernel = blocks.kernel;
        const bool is_first = k0 == 0, is_last = k0 + depth >= p.k;
        const int64_t j = panel * kernel.nr, width = std::min<int64_t>(columns - j, kernel.nr);
        alignas(64) char block[4096];
        for (int64_t t = begin; t < end; ++t) {
            const int64_t i = t * kernel.mr, count = std::min<int64_t>(rows - i, kernel.mr);
            const int64_t at = (panel * blocks.panels_a() + t) * blocks.sums_bytes();
            char* sums = is_first && is_last ? block : to.sums + at;
            kernel.multiply(blocks.units(depth), to.a + t * blocks.a_bytes(), 0, p.a_is_m_major,
                            to.b + panel * blocks.b_bytes(), width, sums, !is_first);
            if (Blocks::has_totals(kernel, p.k)) {
                blocks.add_span(k0 + depth, p.k, width, to.totals + at, sums);
                sums = to.totals + at;
            }
            if (is_last) p.store(p.problem, g, i0 + i, j0 + j, count, width, sums);
        }
    }

    void run() const {
        constexpr int64_t kPanelsAtOnce = 16;
        parallel_chunks(panels_b() + panels_a(), 4, [this](int64_t begin, int64_t end) { pack(begin, end); });
        const int64_t groups = ceil_div(panels_a(), kPanelsAtOnce);
        parallel_chunks(panels_b() * groups, 1, [this, groups](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t)
                multiply(t / groups, t % groups * kPanelsAtOnce, std::min((t % groups + 1) * kPanelsAtOnce, panels_a()));
        });
    }
};

void multiply_with(const Buffers& to, const Blocks& blocks, const BlockedMatmul& p, int64_t g, int64_t first, int64_t last) {
    for (int64_t j = 0; j < p.n; j += blocks.nc)
        for (int64_t i = first; i < last; i += blocks.mc)
            for (int64_t k = 0; k < p.k; k += blocks.kc)
                Macrokernel{p,  blocks,
                            to, g,
                            i,  std::min(last - i, blocks.mc),
                            j,  std::min(p.n - j, blocks.nc),
                            k,  std::min(p.k - k, blocks.kc)}
                    .run();
}

// --- on the stack ---

// Prefetches `count` rows of A or columns of B from `first`, [k, k + depth) of each, before they are packed.
void prefetch_operand(const OperandStrides& of, int64_t g, int64_t first, int64_t count, int64_t k, int64_t depth) {
    if (of.base == nullptr) return;
    const char* from = of.base + g * of.step + first * of.stride + k * of.k;
    const bool is_k_major = of.k == of.element;
    const int64_t rows = is_k_major ? count : depth, step = is_k_major ? of.stride : of.k,
                  bytes = (is_k_major ? depth : count) * of.element;
    for (int64_t r = 0; r < rows; ++r, from += step)
        for (int64_t at = 0; at < bytes + 63; at += 64) __builtin_prefetch(from + std::min(at, bytes - 1));
}

void multiply_tile(const BlockedMatmul& p, const Blocks& blocks, char* scratch, int64_t g, int64_t i0, int64_t rows, int64_t j,
                   int64_t width) {
    const Microkernel& kernel = blocks.kernel;
    char *const b = scratch, *const a = b + blocks.b_bytes(), *const sums = a + blocks.a_bytes();
    char* const totals = sums + blocks.panels_a() * blocks.sums_bytes();
    const bool has_totals = Blocks::has_totals(kernel, p.k);
    int64_t k = 0;
    do {
        const int64_t depth = std::min(p.k - k, blocks.kc);
        const bool is_last = k + depth >= p.k, is_partial = k > 0 || !is_last;
        p.pack_columns(p.problem, g, j, width, k, depth, b);
        if (!is_last) prefetch_operand(p.b, g, j, width, k + depth, std::min(p.k - k - depth, blocks.kc));
        for (int64_t i = 0; i < rows; i += kernel.mr) {
            const int64_t count = std::min<int64_t>(rows - i, kernel.mr);
            const int64_t at = is_partial ? i / kernel.mr * blocks.sums_bytes() : 0;
            char* block = sums + at;
            const bool is_in_place =
                p.a_needs_no_packing && p.a.base != nullptr && count == kernel.mr && depth % kernel.k_per_unit == 0;
            const char* const from = is_in_place ? p.a.base + g * p.a.step + (i0 + i) * p.a.stride + k * p.a.k : a;
            if (!is_in_place) p.pack_rows(p.problem, g, i0 + i, count, k, depth, a);
            const int64_t left = rows - i - count;
            if (left > 0)
                prefetch_operand(p.a, g, i0 + i + count, std::min<int64_t>(left, kernel.mr), k, depth);
            else if (!is_last)
                prefetch_operand(p.a, g, i0, std::min<int64_t>(rows, kernel.mr), k + depth,
                                 std::min(p.k - k - depth, blocks.kc));
            kernel.multiply(blocks.units(depth), from, is_in_place ? p.a.stride : 0, p.a_is_m_major, b, width, block, k > 0);
            if (has_totals) {
                blocks.add_span(k + depth, p.k, width, totals + at, block);
                block = totals + at;
            }
            if (is_last) p.store(p.problem, g, i0 + i, j, count, width, block);
        }
        k += blocks.kc;
    } while (k < p.k);
}

// Computes rows [first, last). Consecutive tiles share rows of A, which stay in cache.
void multiply_on_stack(const BlockedMatmul& p, int64_t first, int64_t last) {
    const Microkernel& kernel = *p.kernel;
    const int64_t m = last - first;
    const Blocks most = blocks_of_stack(kernel, m, p.k);
    const int64_t panels_b = ceil_div<int64_t>(p.n, kernel.nr), wanted = ceil_div(4 * thread_count(), panels_b * p.batch);
    const int64_t rows = std::min(most.mc, rounded_up(ceil_div(m, wanted), kernel.mr)), panels_a = ceil_div(m, rows);
    const Blocks blocks{kernel, most.kc, rows, kernel.nr};
    parallel_chunks(panels_b * panels_a * p.batch, grain_for(rows * kernel.nr * (p.k + 1)), [&](int64_t begin, int64_t end) {
        alignas(64) char scratch[kStackBytes];
        for (int64_t t = begin; t < end; ++t) {
            const int64_t j = t % panels_b * kernel.nr, i = first + t / panels_b % panels_a * rows, g = t / panels_b / panels_a;
            multiply_tile(p, blocks, scratch, g, i, std::min(last - i, rows), j, std::min<int64_t>(p.n - j, kernel.nr));
        }
    });
}

// --- in rows of D not yet stored ---

// Blocks that fit `bytes`; zero rows if packing on the stack is as good.
Blocks blocks_of_bytes(const Microkernel& kernel, int64_t m, int64_t n, int64_t k, int64_t bytes) {
    constexpr int64_t kLeastRows = 48, kLeastColumns = 96;
    Blocks blocks = blocks_of_workspace(kernel, m, n, k, true);
    while (static_cast<int64_t>(Buffers(nullptr, blocks, k).bytes) > bytes) {
        if (blocks.mc <= kLeastRows && blocks.nc <= kLeastColumns) return {kernel, 0, 0, 0};
        const bool is_wide = blocks.nc > 2 * blocks.mc || blocks.mc <= kLeastRows;
        if (is_wide)
            blocks.nc = even_block(n, std::max<int64_t>(blocks.nc - kernel.nr, 1), kernel.nr);
        else
            blocks.mc = even_block(m, std::max<int64_t>(blocks.mc - kernel.mr, 1), kernel.mr);
    }
    return blocks;
}

// Computes rows from `first` on while up to half of those left before `last` serve as scratch; returns the first row
// not done. Too few remain to be worth packing.
int64_t multiply_in_scratch_rows(const BlockedMatmul& p, int64_t first, int64_t last) {
    const Microkernel& kernel = *p.kernel;
    int64_t done = first;
    while (p.scratch_rows.first != nullptr && is_large(last - done, p.n, p.k)) {
        const int64_t left = last - done;
        const int64_t wanted =
            static_cast<int64_t>(Buffers(nullptr, blocks_of_workspace(kernel, left, p.n, p.k, false), p.k).bytes);
        const int64_t lent = std::min(left / 2, ceil_div(wanted, p.scratch_rows.bytes)), end = last - lent;
        const Blocks blocks = blocks_of_bytes(kernel, end - done, p.n, p.k, lent * p.scratch_rows.bytes);
        if (blocks.mc == 0) break;
        for (int64_t g = 0; g < p.batch; ++g)
            multiply_with(Buffers(p.scratch_rows.first + g * p.scratch_rows.step + end * p.scratch_rows.bytes, blocks, p.k),
                          blocks, p, g, done, end);
        done = end;
    }
    return done;
}

void multiply_rows(const BlockedMatmul& p, int64_t first, int64_t last) {
    const int64_t done = multiply_in_scratch_rows(p, first, last);
    if (done < last) multiply_on_stack(p, done, last);
}

// Gives each thread rows of its own. Not inlined: the single-threaded path needs little stack.
BK_COLD void multiply_row_ranges(const BlockedMatmul& p, int64_t ranges) {
    const int64_t height = p.kernel->mr, panels = ceil_div(p.m, height);
    split_ranges(ranges, 1, [&](int64_t begin, int64_t end) {
        for (int64_t range = begin; range < end; ++range)
            multiply_rows(p, panels * range / ranges * height, std::min(p.m, panels * (range + 1) / ranges * height));
    });
}

// Threads split the rows if each gets many: packing together costs a fork-join for each block.
void multiply_alone(const BlockedMatmul& p) {
    constexpr int64_t kLeastRows = 128;
    const int64_t threads = thread_count();
    if (p.scratch_rows.first == nullptr || threads == 1 || p.m < threads * kLeastRows) return multiply_rows(p, 0, p.m);
    multiply_row_ranges(p, threads);
}

}  // namespace

size_t blocked_workspace(const Microkernel& kernel, int64_t m, int64_t n, int64_t k, bool fixes_order) {
    if (!is_large(m, n, k)) return 0;
    const size_t bytes = Buffers(nullptr, largest_blocks(kernel, m, n, k), k).bytes;
    if (!fixes_order) return bytes;
    return std::max(bytes, Buffers(nullptr, blocks_of_workspace(kernel, m, n, k, true), k).bytes);
}

Status multiply_blocked(const Launch& launch, const BlockedMatmul& p) {
    const Blocks blocks = blocks_of_workspace(*p.kernel, p.m, p.n, p.k, p.fixes_order);
    if (is_large(p.m, p.n, p.k) && workspace_holds(launch, Buffers(nullptr, blocks, p.k).bytes)) {
        for (int64_t g = 0; g < p.batch; ++g) multiply_with(Buffers(launch.workspace, blocks, p.k), blocks, p, g, 0, p.m);
        return Status::kOk;
    }
    multiply_alone(p);
    return Status::kOk;
}

}  // namespace bk
