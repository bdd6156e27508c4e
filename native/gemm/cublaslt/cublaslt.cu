// SPDX-License-Identifier: Apache-2.0
#include "gemm/cublaslt/cublaslt.h"

#include <cstring>
#include <initializer_list>
#include <mutex>

#include "baracuda_kernels.h"
#include "core/vendor/call_guards.h"
#include "core/vendor/vendor.h"
#include "gemm/cublaslt/cublaslt_api.h"

namespace bk {

namespace {

// Type of B, and of A but for products of two formats.
constexpr LtType lt_type(LibraryType type) {
    switch (type) {
        case LibraryType::kF32:
        case LibraryType::kTf32: return LtType::kF32;
        case LibraryType::kF64: return LtType::kF64;
        case LibraryType::kF16: return LtType::kF16;
        case LibraryType::kE4m3:
        case LibraryType::kE5m2ByE4m3: return LtType::kE4m3;
        default: return LtType::kBf16;
    }
}

// --- Cache of heuristics -------------------------------------------------------------------------------------------

// Everything cuBLASLt's heuristic depends on; without padding, so that keys compare and hash as bytes.
struct HeuristicKey {
    int64_t m, n, k, batch;
    int64_t pitch[4], step[4];                                     // of A, B, C, D
    int32_t type, d_type, flags, epilogue, has_workspace, device;  // flags: transposed operands, and scales

    bool operator==(const HeuristicKey& other) const { return memcmp(this, &other, sizeof(HeuristicKey)) == 0; }

    uint64_t hash() const {
        uint64_t words[sizeof(HeuristicKey) / sizeof(uint64_t)], h = 0;
        static_assert(sizeof(words) == sizeof(HeuristicKey), "whole words");
        memcpy(words, this, sizeof(words));
        for (const uint64_t word : words) h = (h ^ word) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
        return h;
    }
};

struct HeuristicEntry {
    bool is_known, is_supported;
    LtAlgo algo;
};

// Direct-mapped cache. A thread that does not get the mutex, which a forked child may inherit locked, queries again.
class HeuristicCache {
public:
    HeuristicEntry find(const HeuristicKey& key) {
        const std::unique_lock<std::mutex> guard(mutex_, std::try_to_lock);
        if (!guard.owns_lock()) return {};
        const Slot& slot = slots_[key.hash() % kSlots];
        return slot.key == key ? slot.entry : HeuristicEntry{};
    }

    void insert(const HeuristicKey& key, const HeuristicEntry& entry) {
        const std::unique_lock<std::mutex> guard(mutex_, std::try_to_lock);
        if (guard.owns_lock()) slots_[key.hash() % kSlots] = {key, entry};
    }

private:
    static constexpr size_t kSlots = 256;
    struct Slot {
        HeuristicKey key;
        HeuristicEntry entry;
    };
    std::mutex mutex_;
    Slot slots_[kSlots]{};
};

HeuristicCache heuristics;

// Log2 of a pointer's alignment, up to the 256 bytes that cuBLASLt distinguishes.
int32_t alignment_of(const void* data) {
    int32_t power = 0;
    while (power < 8 && reinterpret_cast<uintptr_t>(data) % (uintptr_t{2} << power) == 0) ++power;
    return power;
}

int32_t alignments(const LibraryMatmul& p) {
    int32_t all = 0;
    for (const LibraryMatrix* matrix : {&p.a, &p.b, &p.c, &p.d}) all = 16 * all + alignment_of(matrix->data);
    return all;
}

HeuristicKey key_of(const LibraryMatmul& p, LtEpilogue epilogue, bool has_workspace, int device) {
    return {p.m,
            p.n,
            p.k,
            p.batch,
            {p.a.pitch, p.b.pitch, p.c.pitch, p.d.pitch},
            {p.a.step, p.b.step, p.c.step, p.d.step},
            static_cast<int32_t>(p.type),
            static_cast<int32_t>(p.d_type),
            p.a.is_transposed + 2 * p.b.is_transposed + 4 * static_cast<int32_t>(p.scales) + 16 * (p.a_scale != nullptr) +
                32 * (p.b_scale != nullptr) + alignments(p) * 64,
            static_cast<int32_t>(epilogue),
            has_workspace,
            device};
}

// --- Descriptors ---------------------------------------------------------------------------------------------------

// Descriptors of D^T = B^T A^T. `is_good` is false from the first call on that fails.
struct Descriptors {
    const CublasLt& lt;
    LtMatmulDesc matmul;
    LtLayout a, b, c, d;
    bool is_good = true;

    Descriptors(const CublasLt& lt_, const LibraryMatmul& p, LtEpilogue epilogue) : lt(lt_) {
        const LtType type = lt_type(p.type), d_type = lt_type(p.d_type);
        const LtType a_type = p.type == LibraryType::kE5m2ByE4m3 ? LtType::kE5m2 : type;
        const LtCompute compute = p.type == LibraryType::kTf32 ? LtCompute::kTf32
                                  : type == LtType::kF64       ? LtCompute::k64F
                                                               : LtCompute::k32F;
        expect(lt.init_matmul(&matmul, sizeof(matmul), compute, type == LtType::kF64 ? LtType::kF64 : LtType::kF32));
        set(kLtTransA, static_cast<int32_t>(p.b.is_transposed));
        set(kLtTransB, static_cast<int32_t>(p.a.is_transposed));
        set(kLtEpilogue, static_cast<uint32_t>(epilogue));
        if (p.bias != nullptr) set(kLtBiasPointer, p.bias);
        scale(kLtAScalePointer, kLtAScaleMode, p.scales, p.b_scale);
        scale(kLtBScalePointer, kLtBScaleMode, p.scales, p.a_scale);
        describe_layout(&a, type, p.b, p.b.is_transposed ? p.k : p.n, p.b.is_transposed ? p.n : p.k, p.batch);
        describe_layout(&b, a_type, p.a, p.a.is_transposed ? p.m : p.k, p.a.is_transposed ? p.k : p.m, p.batch);
        describe_layout(&c, d_type, p.c, p.n, p.m, p.batch);
        describe_layout(&d, d_type, p.d, p.n, p.m, p.batch);
    }

private:
    void expect(int32_t result) { is_good = is_good && result == 0; }

    template <class V>
    void set(LtMatmulAttribute attribute, const V& value) {
        expect(lt.set_matmul(&matmul, attribute, &value, sizeof(value)));
    }

    void scale(LtMatmulAttribute pointer, LtMatmulAttribute mode, LibraryScales scales, const float* values) {
        if (values == nullptr) return;
        set(pointer, values);
        if (scales == LibraryScales::kPerRow) set(mode, kLtRowScales);
    }

    // Column-major, `rows` contiguous elements a column.
    void describe_layout(LtLayout* layout, LtType type, const LibraryMatrix& matrix, int64_t rows, int64_t columns,
                         int64_t batch) {
        expect(lt.init_layout(layout, sizeof(*layout), type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                              matrix.pitch));
        if (batch == 1) return;
        const int32_t count = static_cast<int32_t>(batch);
        expect(lt.set_layout(layout, kLtBatchCount, &count, sizeof(count)));
        expect(lt.set_layout(layout, kLtBatchOffset, &matrix.step, sizeof(matrix.step)));
    }
};

HeuristicEntry query_heuristic(const CublasLt& lt, void* handle, Descriptors& of, const LibraryMatmul& p,
                               uint64_t workspace_bytes) {
    LtPreference preference;
    bool is_good = lt.init_preference(&preference, sizeof(preference)) == 0;
    const auto set = [&](LtPreferenceAttribute attribute, auto value) {
        is_good = is_good && lt.set_preference(&preference, attribute, &value, sizeof(value)) == 0;
    };
    set(kLtWorkspaceBytes, workspace_bytes);
    set(kLtReductionSchemes, static_cast<uint32_t>(workspace_bytes == 0 ? kLtNoReduction : kLtReduceComputeType));
    const auto set_alignment = [&](LtPreferenceAttribute operand, const void* data) {
        set(operand, uint32_t{1} << alignment_of(data));
    };
    set_alignment(kLtAlignmentA, p.b.data);
    set_alignment(kLtAlignmentB, p.a.data);
    set_alignment(kLtAlignmentC, p.c.data);
    set_alignment(kLtAlignmentD, p.d.data);
    LtHeuristic found{};
    int32_t count = 0;
    is_good = is_good && lt.find_algo(handle, &of.matmul, &of.a, &of.b, &of.c, &of.d, &preference, 1, &found, &count) == 0 &&
              count > 0 && found.state == 0 && found.workspace_bytes <= workspace_bytes;
    return {true, is_good, found.algo};
}

LtEpilogue epilogue_of(const LibraryMatmul& p) { return p.bias == nullptr ? kLtPlain : kLtBias; }

// Returns the library's functions, or null. The file system is searched once; a library that the program loads later is
// found all the same.
const CublasLt* find_library() {
    static std::atomic<bool> is_missing{false};
    if (is_missing.load(std::memory_order_relaxed) && !is_loaded(Vendor::kCublasLt)) return nullptr;
    const CublasLt* lt = nullptr;
    if (vendor_functions(&lt) == Status::kOk) return lt;
    is_missing.store(true, std::memory_order_relaxed);
    return nullptr;
}

}  // namespace

// NVIDIA's recommended workspace: split-K GEMMs of f32 take 2 to 4 times as long with less. Small ones do not use it.
size_t library_workspace(int64_t m, int64_t n, int64_t k) {
    constexpr int64_t kMinK = 1024, kMinWork = int64_t(1) << 25;
    const int arch = device_arch();
    int64_t work = 0;
    if (arch == 0 || (k < kMinK && !__builtin_mul_overflow(m * n, k, &work) && work < kMinWork)) return 0;
    return arch >= 90 ? size_t(32) << 20 : size_t(4) << 20;
}

Status require_library() {
    const CublasLt* lt = nullptr;
    return vendor_functions(&lt);
}

bool has_library() {
    const LastErrorGuard quiet;
    return find_library() != nullptr;
}

bool matmul_by_library(const Launch& launch, const LibraryMatmul& p, void* workspace) {
    const LastErrorGuard quiet;
    const CublasLt* const lt = find_library();
    VendorHandle handle;
    int device = 0;
    if (lt == nullptr || p.batch > INT32_MAX || handle.lease<Vendor::kCublasLt>(launch) != Status::kOk ||
        cudaGetDevice(&device) != cudaSuccess)
        return false;
    const RelaxedCapture relaxed;  // kernels are loaded when they are first used
    const size_t bytes = workspace == nullptr ? 0 : library_workspace(p.m, p.n, p.k);
    const LtEpilogue epilogue = epilogue_of(p);
    const HeuristicKey key = key_of(p, epilogue, bytes > 0, device);
    HeuristicEntry entry = heuristics.find(key);
    if (entry.is_known && !entry.is_supported) return false;
    Descriptors of(*lt, p, epilogue);
    if (!of.is_good) return false;
    if (!entry.is_known) {
        entry = query_heuristic(*lt, handle.get(), of, p, bytes);
        heuristics.insert(key, entry);
        if (!entry.is_supported) return false;
    }
    const int32_t result =
        lt->matmul(handle.get(), &of.matmul, p.alpha, p.b.data, &of.a, p.a.data, &of.b, p.beta, p.c.data, &of.c,
                   const_cast<void*>(p.d.data), &of.d, &entry.algo, workspace, bytes, stream_of(launch));
    if (result == 0) return true;
    entry.is_supported = false;
    heuristics.insert(key, entry);
    return false;
}

}  // namespace bk
