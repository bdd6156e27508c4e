// GEMM driver on the CPU: blocking (MC, NC, KC), packing and threads around the microkernel.
#include "gemm/matmul_blocks_cpu.h"

#include <algorithm>
#include <cstring>

#include "core/abi/workspace.h"

namespace bk {

namespace {

constexpr int64_t kUnits = 256, kMostRows = 512, kMostColumns = 2016;  // block sizes with a workspace
constexpr int64_t kLeast = int64_t{160} * 160 * 160;                   // multiplications from which that pays
constexpr int64_t kStack = 16 * 1024 + 512;                            // a call uses at most 32 KiB of stack in all
constexpr int64_t kSpanTerms = 32768;  // longer sums are compensated sums of slices of that length

bool is_large(int64_t m, int64_t n, int64_t k) { return m > 8 && n > 8 && k > 8 && m * n >= kLeast / k; }

int64_t rounded_up(int64_t count, int64_t to) { return ceil_div(count, to) * to; }

// Block size that splits `count` evenly into as few blocks of at most `most` as possible.
int64_t even_part(int64_t count, int64_t most, int64_t to) {
    return count == 0 ? to : rounded_up(ceil_div(count, ceil_div(count, most)), to);
}

// Block sizes, and bytes of the packed panels.
struct Blocks {
    const BlockKernel& kernel;
    int64_t depth, rows, columns;

    int64_t units(int64_t terms) const { return ceil_div<int64_t>(terms, kernel.terms); }
    int64_t a_bytes() const { return panel_notes(units(depth) * kernel.rows * kernel.unit_bytes) + kPanelNotes; }
    int64_t b_bytes() const { return panel_notes(units(depth) * kernel.columns * kernel.unit_bytes) + kPanelNotes; }
    int64_t sums_bytes() const { return int64_t{kernel.rows} * kernel.columns * kernel.sum_bytes; }
    int64_t across() const { return columns / kernel.columns; }
    int64_t down() const { return rows / kernel.rows; }
    // Whether sums over k have compensated totals, updated after each span of K elements.
    static bool has_totals(const BlockKernel& kernel, int64_t k) { return kernel.add_block != nullptr && k > kSpanTerms; }
    int64_t span() const { return ceil_div(kSpanTerms, depth) * depth; }
    // Adds a block summed up to `end`, of k, to its totals; the sums become rounding errors, from which the next span
    // starts.
    void add_span(int64_t end, int64_t k, int64_t width, char* totals, char* sums) const {
        if (end % span() != 0 && end < k) return;
        if (end <= span()) std::memset(totals, 0, static_cast<size_t>(sums_bytes()));
        kernel.add_block(width, totals, sums);
    }
};

Blocks blocks_of_workspace(const BlockKernel& kernel, int64_t m, int64_t n, int64_t k) {
    const int64_t most = std::min(kUnits * kernel.terms, kernel.most_terms);
    return {kernel, even_part(k, most, 8), even_part(m, kMostRows, kernel.rows),
            even_part(n, kMostColumns / kernel.columns * kernel.columns, kernel.columns)};
}

// Upper bound on the blocks of all smaller GEMMs: the workspace size must grow monotonically.
Blocks largest_blocks(const BlockKernel& kernel, int64_t m, int64_t n, int64_t k) {
    const int64_t most = std::min(kUnits * kernel.terms, kernel.most_terms);
    return {kernel, rounded_up(std::min(k, most), 8), rounded_up(std::min(m, kMostRows), kernel.rows),
            rounded_up(std::min(n, kMostColumns / kernel.columns * kernel.columns), kernel.columns)};
}

struct Buffers {
    char *a, *b, *sums, *totals;
    size_t bytes;

    Buffers(void* base, const Blocks& blocks, int64_t k) {
        Carver carver(base);
        a = carver.take<char>(blocks.a_bytes() * blocks.down());
        b = carver.take<char>(blocks.b_bytes() * blocks.across());
        const int64_t all = blocks.sums_bytes() * blocks.down() * blocks.across();
        sums = carver.take<char>(k > blocks.depth ? all : 0);
        totals = carver.take<char>(Blocks::has_totals(blocks.kernel, k) ? all : 0);
        bytes = carver.bytes();
    }
};

// --- with a workspace ---

struct Part {
    const BlockedMatmul& p;
    const Blocks& blocks;
    const Buffers& to;
    int64_t g, i0, rows, j0, columns, k0, depth;

    int64_t across() const { return ceil_div<int64_t>(columns, blocks.kernel.columns); }
    int64_t down() const { return ceil_div<int64_t>(rows, blocks.kernel.rows); }

    void pack(int64_t begin, int64_t end) const {
        const BlockKernel& kernel = blocks.kernel;
        for (int64_t panel = begin; panel < end; ++panel) {
            if (panel < across()) {
                const int64_t j = panel * kernel.columns, count = std::min<int64_t>(columns - j, kernel.columns);
                p.pack_columns(p.problem, g, j0 + j, count, k0, depth, to.b + panel * blocks.b_bytes());
            } else {
                const int64_t i = (panel - across()) * kernel.rows, count = std::min<int64_t>(rows - i, kernel.rows);
                p.pack_rows(p.problem, g, i0 + i, count, k0, depth, to.a + (panel - across()) * blocks.a_bytes());
            }
        }
    }

    // Multiplies panels [begin, end) of A by one of B.
    void multiply(int64_t panel, int64_t begin, int64_t end) const {
        const BlockKernel& kernel = blocks.kernel;
        const bool is_first = k0 == 0, is_last = k0 + depth >= p.k;
        const int64_t j = panel * kernel.columns, width = std::min<int64_t>(columns - j, kernel.columns);
        alignas(64) char block[4096];
        for (int64_t t = begin; t < end; ++t) {
            const int64_t i = t * kernel.rows, count = std::min<int64_t>(rows - i, kernel.rows);
            const int64_t at = (panel * blocks.down() + t) * blocks.sums_bytes();
            char* sums = is_first && is_last ? block : to.sums + at;
            kernel.multiply(blocks.units(depth), to.a + t * blocks.a_bytes(), 0, p.a_is_turned, to.b + panel * blocks.b_bytes(),
                            width, sums, !is_first);
            if (Blocks::has_totals(kernel, p.k)) {
                blocks.add_span(k0 + depth, p.k, width, to.totals + at, sums);
                sums = to.totals + at;
            }
            if (is_last) p.store(p.problem, g, i0 + i, j0 + j, count, width, sums);
        }
    }

    void run() const {
        constexpr int64_t kChunk = 16;
        parallel_chunks(across() + down(), 4, [this](int64_t begin, int64_t end) { pack(begin, end); });
        const int64_t chunks = ceil_div(down(), kChunk);
        parallel_chunks(across() * chunks, 1, [this, chunks](int64_t begin, int64_t end) {
            for (int64_t t = begin; t < end; ++t)
                multiply(t / chunks, t % chunks * kChunk, std::min((t % chunks + 1) * kChunk, down()));
        });
    }
};

void multiply_with(const Buffers& to, const Blocks& blocks, const BlockedMatmul& p, int64_t g, int64_t first, int64_t last) {
    for (int64_t j = 0; j < p.n; j += blocks.columns)
        for (int64_t i = first; i < last; i += blocks.rows)
            for (int64_t k = 0; k < p.k; k += blocks.depth)
                Part{p,  blocks,
                     to, g,
                     i,  std::min(last - i, blocks.rows),
                     j,  std::min(p.n - j, blocks.columns),
                     k,  std::min(p.k - k, blocks.depth)}
                    .run();
}

// --- on the stack ---

// A thread's tile: one panel of B, and the rows whose accumulators fit; any number if k is one block.
Blocks blocks_of_stack(const BlockKernel& kernel, int64_t m, int64_t k) {
    const Blocks whole{kernel, std::max<int64_t>(rounded_up(k, 8), 8), m, kernel.columns};
    if (k <= kernel.most_terms && whole.a_bytes() + whole.b_bytes() + whole.sums_bytes() <= kStack) return whole;
    // Whole-vector panels take half of the stack, accumulators the rest.
    const int64_t units = kStack / 2 / ((kernel.rows + kernel.columns) * kernel.unit_bytes) / 16 * 16;
    const Blocks part{kernel, std::min(units * kernel.terms, kernel.most_terms), kernel.rows, kernel.columns};
    const int64_t left = kStack - part.a_bytes() - part.b_bytes(), copies = Blocks::has_totals(kernel, k) ? 2 : 1;
    return {kernel, part.depth, left / (copies * part.sums_bytes()) * kernel.rows, kernel.columns};
}

// Prefetches `count` rows of A or columns of B from `first`, [k, k + depth) of each, before they are packed.
void fetch(const FactorBytes& of, int64_t g, int64_t first, int64_t lines, int64_t k, int64_t depth) {
    if (of.base == nullptr) return;
    const char* from = of.base + g * of.step + first * of.line + k * of.k;
    const bool is_along = of.k == of.element;
    const int64_t runs = is_along ? lines : depth, step = is_along ? of.line : of.k,
                  bytes = (is_along ? depth : lines) * of.element;
    for (int64_t r = 0; r < runs; ++r, from += step)
        for (int64_t at = 0; at < bytes + 63; at += 64) __builtin_prefetch(from + std::min(at, bytes - 1));
}

void multiply_tile(const BlockedMatmul& p, const Blocks& blocks, char* scratch, int64_t g, int64_t i0, int64_t rows, int64_t j,
                   int64_t width) {
    const BlockKernel& kernel = blocks.kernel;
    char *const b = scratch, *const a = b + blocks.b_bytes(), *const sums = a + blocks.a_bytes();
    char* const totals = sums + blocks.down() * blocks.sums_bytes();
    const bool has_totals = Blocks::has_totals(kernel, p.k);
    int64_t k = 0;
    do {
        const int64_t depth = std::min(p.k - k, blocks.depth);
        const bool is_last = k + depth >= p.k, waits = k > 0 || !is_last;
        p.pack_columns(p.problem, g, j, width, k, depth, b);
        if (!is_last) fetch(p.b, g, j, width, k + depth, std::min(p.k - k - depth, blocks.depth));
        for (int64_t i = 0; i < rows; i += kernel.rows) {
            const int64_t count = std::min<int64_t>(rows - i, kernel.rows);
            const int64_t at = waits ? i / kernel.rows * blocks.sums_bytes() : 0;
            char* block = sums + at;
            const bool is_there = p.a_is_units && p.a.base != nullptr && count == kernel.rows && depth % kernel.terms == 0;
            const char* const from = is_there ? p.a.base + g * p.a.step + (i0 + i) * p.a.line + k * p.a.k : a;
            if (!is_there) p.pack_rows(p.problem, g, i0 + i, count, k, depth, a);
            const int64_t left = rows - i - count;
            if (left > 0)
                fetch(p.a, g, i0 + i + count, std::min<int64_t>(left, kernel.rows), k, depth);
            else if (!is_last)
                fetch(p.a, g, i0, std::min<int64_t>(rows, kernel.rows), k + depth, std::min(p.k - k - depth, blocks.depth));
            kernel.multiply(blocks.units(depth), from, is_there ? p.a.line : 0, p.a_is_turned, b, width, block, k > 0);
            if (has_totals) {
                blocks.add_span(k + depth, p.k, width, totals + at, block);
                block = totals + at;
            }
            if (is_last) p.store(p.problem, g, i0 + i, j, count, width, block);
        }
        k += blocks.depth;
    } while (k < p.k);
}

// Computes rows [first, last). Consecutive tiles share rows of A, which stay in cache.
void multiply_on_stack(const BlockedMatmul& p, int64_t first, int64_t last) {
    const BlockKernel& kernel = *p.kernel;
    const int64_t m = last - first;
    const Blocks most = blocks_of_stack(kernel, m, p.k);
    const int64_t across = ceil_div<int64_t>(p.n, kernel.columns), wanted = ceil_div(4 * thread_count(), across * p.batch);
    const int64_t rows = std::min(most.rows, rounded_up(ceil_div(m, wanted), kernel.rows)), down = ceil_div(m, rows);
    const Blocks blocks{kernel, most.depth, rows, kernel.columns};
    parallel_chunks(across * down * p.batch, grain_for(rows * kernel.columns * (p.k + 1)), [&](int64_t begin, int64_t end) {
        alignas(64) char scratch[kStack];
        for (int64_t t = begin; t < end; ++t) {
            const int64_t j = t % across * kernel.columns, i = first + t / across % down * rows, g = t / across / down;
            multiply_tile(p, blocks, scratch, g, i, std::min(last - i, rows), j, std::min<int64_t>(p.n - j, kernel.columns));
        }
    });
}

// --- in rows of D not yet stored ---

// Blocks that fit `bytes`; zero rows if packing on the stack is as good. KC is that of the stack, so that results do
// not depend on where operands are packed.
Blocks blocks_of_room(const BlockKernel& kernel, int64_t m, int64_t n, int64_t k, int64_t bytes) {
    constexpr int64_t kLeastRows = 48, kLeastColumns = 96;
    Blocks blocks = blocks_of_workspace(kernel, m, n, k);
    blocks.depth = blocks_of_stack(kernel, m, k).depth;
    while (static_cast<int64_t>(Buffers(nullptr, blocks, k).bytes) > bytes) {
        if (blocks.rows <= kLeastRows && blocks.columns <= kLeastColumns) return {kernel, 0, 0, 0};
        const bool is_wide = blocks.columns > 2 * blocks.rows || blocks.rows <= kLeastRows;
        if (is_wide)
            blocks.columns = even_part(n, std::max<int64_t>(blocks.columns - kernel.columns, 1), kernel.columns);
        else
            blocks.rows = even_part(m, std::max<int64_t>(blocks.rows - kernel.rows, 1), kernel.rows);
    }
    return blocks;
}

// Computes rows from `first` on while up to half of those left before `last` serve as scratch; returns the first row
// not done. Too few remain to be worth packing.
int64_t multiply_in_spare_rows(const BlockedMatmul& p, int64_t first, int64_t last) {
    const BlockKernel& kernel = *p.kernel;
    int64_t done = first;
    while (p.spare.first != nullptr && is_large(last - done, p.n, p.k)) {
        const int64_t left = last - done;
        const int64_t wanted = static_cast<int64_t>(Buffers(nullptr, blocks_of_workspace(kernel, left, p.n, p.k), p.k).bytes);
        const int64_t lent = std::min(left / 2, ceil_div(wanted, p.spare.bytes)), end = last - lent;
        const Blocks blocks = blocks_of_room(kernel, end - done, p.n, p.k, lent * p.spare.bytes);
        if (blocks.rows == 0) break;
        for (int64_t g = 0; g < p.batch; ++g)
            multiply_with(Buffers(p.spare.first + g * p.spare.step + end * p.spare.bytes, blocks, p.k), blocks, p, g, done,
                          end);
        done = end;
    }
    return done;
}

void multiply_rows(const BlockedMatmul& p, int64_t first, int64_t last) {
    const int64_t done = multiply_in_spare_rows(p, first, last);
    if (done < last) multiply_on_stack(p, done, last);
}

// Gives each thread rows of its own. Not inlined: the single-threaded path needs little stack.
BK_COLD void multiply_rows_apart(const BlockedMatmul& p, int64_t pieces) {
    const int64_t height = p.kernel->rows, strips = ceil_div(p.m, height);
    split_ranges(pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece)
            multiply_rows(p, strips * piece / pieces * height, std::min(p.m, strips * (piece + 1) / pieces * height));
    });
}

// Threads split the rows if each gets many: packing together costs a fork-join for each block.
void multiply_alone(const BlockedMatmul& p) {
    constexpr int64_t kLeastRows = 128;
    const int64_t threads = thread_count();
    if (p.spare.first == nullptr || threads == 1 || p.m < threads * kLeastRows) return multiply_rows(p, 0, p.m);
    multiply_rows_apart(p, threads);
}

}  // namespace

size_t blocked_workspace(const BlockKernel& kernel, int64_t m, int64_t n, int64_t k) {
    if (!is_large(m, n, k)) return 0;
    return Buffers(nullptr, largest_blocks(kernel, m, n, k), k).bytes;
}

Status multiply_blocked(const Launch& launch, const BlockedMatmul& p) {
    const Blocks blocks = blocks_of_workspace(*p.kernel, p.m, p.n, p.k);
    if (is_large(p.m, p.n, p.k) && workspace_holds(launch, Buffers(nullptr, blocks, p.k).bytes)) {
        for (int64_t g = 0; g < p.batch; ++g) multiply_with(Buffers(launch.workspace, blocks, p.k), blocks, p, g, 0, p.m);
        return Status::kOk;
    }
    multiply_alone(p);
    return Status::kOk;
}

}  // namespace bk
