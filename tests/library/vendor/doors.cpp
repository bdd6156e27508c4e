// SPDX-License-Identifier: Apache-2.0
// Calls native/core/vendor/vendor.h as an op would, over stubs of NVIDIA's libraries and of CUDA. usage: doors CASE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/vendor/vendor.h"
#include "given_folders.h"

namespace {

thread_local char text[512];

}  // namespace

namespace bk {

Status fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return status;
}

}  // namespace bk

using namespace bk;

#define REQUIRE(condition)                                                                   \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: not %s; last text: %s\n", __LINE__, #condition, text); \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

#if BK_CUDA
namespace {

std::atomic<cudaStream_t> captured{nullptr};
thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
void* driver = nullptr;

}  // namespace

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = stream == captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* other) {
    std::swap(mode, *other);
    return cudaSuccess;
}

namespace {

struct StubHandle {
    int users;
    void* stream;
};

struct New {
    int (*function)(int);
    static constexpr Vendor kLibrary = Vendor::kCublasLt;
    static constexpr const char* kSymbols[] = {"stub_new_function"};
};

Launch on(intptr_t stream) { return {nullptr, 0, reinterpret_cast<void*>(stream)}; }

void open_driver() {
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver != nullptr);
}

void* library_of(const char* soname) {
    void* const library = dlopen(soname, RTLD_NOW);
    REQUIRE(library != nullptr);
    return library;
}

template <class T>
T& variable(void* library, const char* name) {
    void* const address = dlsym(library, name);
    REQUIRE(address != nullptr);
    return *static_cast<T*>(address);
}

unsigned long long& current_context() {
    return *static_cast<unsigned long long*>(dlsym(driver, "stub_context"));  // of the calling thread
}

template <Vendor library = Vendor::kCublasLt>
void* lease(intptr_t stream) {
    VendorHandle handle;
    REQUIRE(handle.lease<library>(on(stream)) == Status::kOk);
    return handle.get();
}

Status status_of_lease(intptr_t stream) {
    VendorHandle handle;
    return handle.lease<Vendor::kCublasLt>(on(stream));
}

// Prints what an op would leave for its caller.
void missing() {
    const New* table = nullptr;
    const Status status = vendor_functions(&table);
    printf("%d %s\n", static_cast<int>(status), status == Status::kOk ? "" : text);
    REQUIRE(status_of_lease(16) == status || status == Status::kUnsupported);
    if (status == Status::kOk) REQUIRE(table->function(41) == 42);
}

// A library that is loaded after a call that missed it serves the next call.
void late() {
    const New* table = nullptr;
    REQUIRE(vendor_functions(&table) == Status::kUnsupported && table == nullptr);
    REQUIRE(dlopen(getenv("LATE_LIBRARY"), RTLD_NOW | RTLD_GLOBAL) != nullptr);
    REQUIRE(vendor_functions(&table) == Status::kOk && table->function(41) == 42);
    const New* again = nullptr;
    REQUIRE(vendor_functions(&again) == Status::kOk && again == table);
}

// A loaded library is preferred to a newer one.
void loaded_first() {
    library_of("libcublasLt.so.12");
    missing();
}

void streams() {
    void* const first = lease(16);
    REQUIRE(lease(32) != first && lease(16) == first);
    void* const own = lease(0);
    REQUIRE(lease(0) == own && lease(2) == own);
    std::thread([own] { REQUIRE(lease(0) != own); }).join();
    VendorHandle one, two;
    REQUIRE(one.lease<Vendor::kCublasLt>(on(16)) == Status::kOk && two.lease<Vendor::kCublasLt>(on(16)) == Status::kOk);
    REQUIRE(one.get() != two.get());
}

void contexts() {
    void* const first = lease(16);
    current_context() = 2;
    void* const second = lease(16);
    REQUIRE(first != second && lease(16) == second);
    current_context() = 1;
    REQUIRE(lease(16) == first);
}

void most() {
    std::set<void*> seen;
    for (intptr_t stream = 1; stream <= 10 * kMaxVendorHandles; ++stream) {
        void* const handle = lease<Vendor::kCusolver>(16 * stream);
        REQUIRE(static_cast<StubHandle*>(handle)->stream == reinterpret_cast<void*>(16 * stream));
        seen.insert(handle);
    }
    REQUIRE(static_cast<int>(seen.size()) == kMaxVendorHandles);
    std::vector<VendorHandle> all(kMaxVendorHandles + 1);  // in use at once: the bound is for idle ones
    for (VendorHandle& handle : all) REQUIRE(handle.lease<Vendor::kCusolver>(on(16)) == Status::kOk);
}

void capture() {
    captured = reinterpret_cast<cudaStream_t>(48);
    REQUIRE(status_of_lease(48) == Status::kUnsupported);
    puts(text);
    static cudaStreamCaptureMode seen;
    variable<void (*)()>(library_of("libcusolver.so.12"), "stub_on_create") = [] { seen = mode; };
    void* const warm = lease<Vendor::kCusolver>(16);
    REQUIRE(seen == cudaStreamCaptureModeRelaxed && mode == cudaStreamCaptureModeGlobal);
    REQUIRE(lease<Vendor::kCusolver>(48) == warm);
    REQUIRE(static_cast<StubHandle*>(warm)->stream == reinterpret_cast<void*>(48));
    current_context() = 2;
    VendorHandle handle;
    REQUIRE(handle.lease<Vendor::kCusolver>(on(48)) == Status::kUnsupported);
}

void failing() {
    int& answer = variable<int>(library_of("libcublasLt.so.13"), "stub_failing");
    answer = 3;
    REQUIRE(status_of_lease(16) == Status::kInternal);
    puts(text);
    REQUIRE(mode == cudaStreamCaptureModeGlobal);
    answer = 0;
    REQUIRE(status_of_lease(16) == Status::kOk);
}

// A handle that could not be given a stream is idle again, and gets one by the next call.
void failing_stream() {
    int& answer = variable<int>(library_of("libcusolver.so.12"), "stub_failing");
    StubHandle* const stub = static_cast<StubHandle*>(lease<Vendor::kCusolver>(16));
    stub->stream = nullptr;
    answer = 7;
    {
        VendorHandle handle;
        REQUIRE(handle.lease<Vendor::kCusolver>(on(16)) == Status::kInternal);
        puts(text);
    }
    answer = 0;
    REQUIRE(lease<Vendor::kCusolver>(16) == stub && stub->stream == reinterpret_cast<void*>(16));
}

void threads() {
    std::vector<std::thread> all;
    for (int t = 0; t < 8; ++t)
        all.emplace_back([t] {
            const New* table = nullptr;
            REQUIRE(vendor_functions(&table) == Status::kOk);
            for (int k = 0; k < 2000; ++k) {
                VendorHandle handle;
                REQUIRE(handle.lease<Vendor::kCublasLt>(on(16 + 16 * ((t + k) % 3))) == Status::kOk);
                StubHandle* const stub = static_cast<StubHandle*>(handle.get());
                REQUIRE(__atomic_add_fetch(&stub->users, 1, __ATOMIC_RELAXED) == 1);
                if (k % 64 == 0) std::this_thread::yield();
                REQUIRE(__atomic_sub_fetch(&stub->users, 1, __ATOMIC_RELAXED) == 0);
            }
        });
    for (std::thread& thread : all) thread.join();
}

// While one thread is inside NVIDIA's `create`, another one makes calls.
void unlocked() {
    lease(16);
    variable<void (*)()>(library_of("libcublasLt.so.13"), "stub_on_create") = [] { std::thread([] { lease(16); }).join(); };
    lease(32);
}

int in_child(void (*function)()) {
    const pid_t child = fork();
    if (child == 0) {
        function();
        exit(0);  // as a program does, handlers included
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

void forks() {
    static void* parents = nullptr;
    parents = lease(16);
    REQUIRE(in_child([] { REQUIRE(lease(16) != parents); }) == 0);
    REQUIRE(in_child([] {}) == 0);
    REQUIRE(lease(16) == parents);
}

// A fork while other threads take and give back handles.
void forks_amid_threads() {
    std::atomic<bool> is_over{false};
    std::vector<std::thread> all;
    for (int t = 0; t < 2; ++t)
        all.emplace_back([&is_over] {
            while (!is_over) lease(16);
        });
    for (int k = 0; k < 200; ++k) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            lease(16);
            _exit(0);
        }
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = true;
    for (std::thread& thread : all) thread.join();
}

// The second library comes after the handler for the first: its destructor must find its handles gone, too.
void exits() {
    lease(16);
    lease<Vendor::kCusolver>(16);
    current_context() = 2;
    lease(16);
    current_context() = 1;
}

void exits_in_use() {
    static VendorHandle handle;
    REQUIRE(handle.lease<Vendor::kCublasLt>(on(16)) == Status::kOk);
}

void exits_without_driver() {
    lease(16);
    atexit([] { variable<int>(driver, "stub_is_gone") = 1; });
}

void no_driver() {
    variable<int>(driver, "stub_is_gone") = 1;
    REQUIRE(status_of_lease(16) == Status::kInternal);
    puts(text);
}

const struct {
    const char* name;
    void (*run)();
} kCases[] = {{"missing", missing},
              {"late", late},
              {"loaded_first", loaded_first},
              {"streams", streams},
              {"contexts", contexts},
              {"most", most},
              {"capture", capture},
              {"failing", failing},
              {"failing_stream", failing_stream},
              {"threads", threads},
              {"unlocked", unlocked},
              {"forks", forks},
              {"forks_amid_threads", forks_amid_threads},
              {"exits", exits},
              {"exits_in_use", exits_in_use},
              {"exits_without_driver", exits_without_driver},
              {"no_driver", no_driver}};

}  // namespace

int main(int, char** arguments) {
    setvbuf(stdout, nullptr, _IOLBF, 0);  // the stubs write past it
    open_driver();
    for (const auto& one : kCases)
        if (std::string(arguments[1]) == one.name) {
            one.run();
            return 0;
        }
    return 2;
}
#else
int main() {
    VendorHandle handle;
    REQUIRE(handle.lease<Vendor::kCublasLt>(Launch{}) == Status::kUnsupported);
    puts(text);
    const char* const symbol = "cudnnCreate";
    void* address = nullptr;
    REQUIRE(find_symbols(Vendor::kCudnn, &symbol, 1, &address) == Status::kUnsupported);
    puts(text);
}
#endif
