// SPDX-License-Identifier: Apache-2.0
// What the C++ functions of baracuda/<family>/<table>.hpp share: element types, statuses, streams and workspaces.
//
// C++17, headers alone; a program links one of the libraries as a C program does. A function has the arguments of the C
// function in their order, typed, and is overloaded by them: baracuda::segment_sum(n, d, segments, x, ids, y) is
// baracuda_kernels_segment_sum_f32_run where x and y point to float and ids to std::int32_t. A last argument that may be left
// out says on which stream it runs and with which workspace: `segment_sum(..., {stream, &scratch})`.
//
// A status that is not OK is thrown as baracuda::error: it is a mistake in the arguments or a launch that failed, nothing that
// a caller decides by, it cannot be overlooked, and its text, which the library keeps until the thread's next failure alone,
// is copied in time. What is decided by, whether a problem can be computed, `segment_sum_can_implement<float, std::int32_t>(n,
// d, segments)` answers by a status and does not throw. Programs without exceptions call the C header.
#ifndef BARACUDA_CORE_HPP
#define BARACUDA_CORE_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "baracuda_kernels.h"

struct CUstream_st;  // CUDA's: a cudaStream_t and a CUstream are pointers to it

namespace baracuda {

// --- Elements --------------------------------------------------------------------------------------------------------

// f32, f64, integers, bool and complex numbers are C++'s own; arrays of std::complex<double> are aligned to 16 bytes. The types
// that C++17 lacks are their bits; baracuda::cast converts arrays.
struct f16 {
    std::uint16_t bits;
};
struct bf16 {
    std::uint16_t bits;
};
struct fp8e4m3 {
    std::uint8_t bits;
};
struct fp8e5m2 {
    std::uint8_t bits;
};
// Two 4-bit integers, the first in the low half.
struct s4x2 {
    std::uint8_t bits;
};
struct u4x2 {
    std::uint8_t bits;
};
static_assert(sizeof(bool) == 1, "a bool is a byte");

namespace detail {
inline std::uint64_t bits_of(std::complex<float> value) noexcept {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}
}  // namespace detail

// Elements of a type of somebody else's and of the same size as ours: elements<baracuda::f16>(p) for a const __half* p.
template <class To, class From>
auto elements(From* p) noexcept {
    static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable<From>::value, "elements are of one size");
    using Element = std::conditional_t<std::is_const<From>::value, const To, To>;
    return reinterpret_cast<Element*>(p);
}

// --- Statuses --------------------------------------------------------------------------------------------------------

enum class status : std::int32_t {
    ok = BARACUDA_STATUS_OK,
    misaligned = BARACUDA_STATUS_MISALIGNED,
    invalid_problem = BARACUDA_STATUS_INVALID_PROBLEM,
    unsupported = BARACUDA_STATUS_UNSUPPORTED,
    workspace_too_small = BARACUDA_STATUS_WORKSPACE_TOO_SMALL,
    internal = BARACUDA_STATUS_INTERNAL,
};

// The text of what() is the library's: "segment_sum_f32: n is -6, must be >= 0".
class error : public std::runtime_error {
public:
    error(status code, const char* text) : std::runtime_error(text), code_(code) {}
    status code() const noexcept { return code_; }

private:
    status code_;
};

// --- Streams and workspaces ------------------------------------------------------------------------------------------

// A stream of the current device, which stays the caller's: the per-thread default stream unless one is given.
class stream {
public:
    stream() noexcept = default;
    stream(CUstream_st* handle) noexcept : handle_(handle) {}
    explicit stream(void* handle) noexcept : handle_(handle) {}
    void* handle() const noexcept { return handle_; }

private:
    void* handle_ = nullptr;
};

// Source of a workspace's memory: device memory for the CUDA library. What was enqueued on the stream may still use
// memory that is released, so release is ordered behind it (cudaFreeAsync) or waits (cudaFree). allocate returns at least
// `bytes` of memory, or NULL, or throws; release does not throw. `context` is handed to both. nvcc wants functions, no lambdas.
struct allocator {
    void* (*allocate)(void* context, std::size_t bytes, stream on);
    void (*release)(void* context, void* memory, std::size_t bytes, stream on);
    void* context = nullptr;
};

namespace detail {
inline void* allocate_on_host(void*, std::size_t bytes, stream) { return ::operator new(bytes); }
inline void release_on_host(void*, void* memory, std::size_t, stream) { ::operator delete(memory); }
}  // namespace detail

// Host memory, for the CPU library.
inline allocator host_allocator() noexcept { return {detail::allocate_on_host, detail::release_on_host}; }

// Memory that calls on one stream, one after the other, work in. It grows to what a call asks for and is released at the end.
class workspace {
public:
    explicit workspace(allocator source) noexcept : source_(source) {}
    // Memory of the caller's, which neither grows nor is released.
    workspace(void* memory, std::size_t bytes) noexcept : memory_(memory), bytes_(bytes) {}
    workspace(workspace&& other) noexcept { swap(other); }
    workspace& operator=(workspace&& other) noexcept {
        workspace(std::move(other)).swap(*this);
        return *this;
    }
    workspace(const workspace&) = delete;
    workspace& operator=(const workspace&) = delete;
    ~workspace() { release(); }

    void* data() const noexcept { return memory_; }
    std::size_t bytes() const noexcept { return bytes_; }

    // Reserves `bytes` or more; content is lost where there were fewer; std::bad_alloc if the allocator has none. The
    // caller's own memory stays as it is, and a call that it is too small for runs as one without a workspace does.
    void reserve(std::size_t bytes, stream on = {}) {
        if (source_.allocate == nullptr || bytes <= bytes_) return;
        release();
        memory_ = source_.allocate(source_.context, bytes, on);
        if (memory_ == nullptr) throw std::bad_alloc();
        bytes_ = bytes;
        on_ = on;
    }

private:
    void swap(workspace& other) noexcept {
        std::swap(source_, other.source_);
        std::swap(memory_, other.memory_);
        std::swap(bytes_, other.bytes_);
        std::swap(on_, other.on_);
    }
    void release() noexcept {
        if (source_.release != nullptr && memory_ != nullptr) source_.release(source_.context, memory_, bytes_, on_);
        memory_ = nullptr;
        bytes_ = 0;
    }

    allocator source_{nullptr, nullptr, nullptr};
    void* memory_ = nullptr;
    std::size_t bytes_ = 0;
    stream on_;
};

// Options of a call. Without a workspace an op takes the path that needs none; ops that have no use for one ignore it.
struct launch {
    baracuda::stream stream = {};
    workspace* scratch = nullptr;
};

// Parts of the functions; not for callers.
namespace detail {

inline void check(std::int32_t code) {
    if (code != BARACUDA_STATUS_OK) throw error(static_cast<status>(code), baracuda_kernels_last_error());
}

struct memory {
    void* data;
    std::size_t bytes;
};

// The workspace of a call, grown to what `size` says that the problem can use.
template <class Size>
memory reserve(const launch& on, Size size) {
    if (on.scratch == nullptr) return {nullptr, 0};
    on.scratch->reserve(size(), on.stream);
    return {on.scratch->data(), on.scratch->bytes()};
}

// Type of a parameter that the arithmetic on T is done with.
template <class T>
struct compute {
    using type = T;
};
template <>
struct compute<f16> {
    using type = float;
};
template <>
struct compute<bf16> {
    using type = float;
};

// The real type of a complex number.
template <class T>
struct real;
template <class T>
struct real<std::complex<T>> {
    using type = T;
};

}  // namespace detail
}  // namespace baracuda

#endif  // BARACUDA_CORE_HPP
