// SPDX-License-Identifier: Apache-2.0
// Products by native/gemm/cublaslt/cublaslt.cu over a stub of cuBLASLt, against loops over row-major matrices. usage: cublaslt
// CASE
#include "gemm/cublaslt/cublaslt.h"

#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "core/vendor/vendor.h"
#include "given_folders.h"

using namespace bk;

namespace {

thread_local char text[512] = "";
bool is_capturing = false;

#define REQUIRE(condition)                                              \
    do {                                                                \
        if (!(condition)) {                                             \
            fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
            exit(1);                                                    \
        }                                                               \
    } while (0)

// Integers that f32 adds exactly.
template <class S>
struct Operand {
    std::vector<S> data;
    LibraryMatrix matrix;

    Operand(int64_t count, int64_t rows, int64_t columns, int64_t gap, bool is_transposed, int seed) {
        const int64_t pitch = columns + gap, step = count > 1 ? rows * pitch + 8 : 0;
        for (int64_t i = 0; i < rows * pitch + (count - 1) * step; ++i) data.push_back(static_cast<S>((i * 7 + seed) % 11 - 5));
        matrix = {data.data(), pitch, step, is_transposed};
    }
    S at(int64_t g, int64_t i, int64_t j) const {
        return data[static_cast<size_t>(g * matrix.step +
                                        (matrix.is_transposed ? j * matrix.pitch + i : i * matrix.pitch + j))];
    }
};

template <class S>
void multiply(bool a_transposed, bool b_transposed, int64_t batch, bool has_bias, S alpha, S beta, void* workspace,
              bool expected = true) {
    const int64_t m = 6, n = 5, k = sizeof(S) == 8 ? 1024 : 9;  // from K = 1024 on a workspace is of use
    Operand<S> a(batch, a_transposed ? k : m, a_transposed ? m : k, 3, a_transposed, 1);
    Operand<S> b(batch, b_transposed ? n : k, b_transposed ? k : n, 2, b_transposed, 2);
    Operand<S> c(batch, m, n, 1, false, 3), d(batch, m, n, 4, false, 4);
    std::vector<S> bias;
    for (int64_t j = 0; j < n; ++j) bias.push_back(static_cast<S>(10 * j - 20));
    const std::vector<S> before = d.data;
    const LibraryType type = sizeof(S) == 8 ? LibraryType::kF64 : LibraryType::kF32;
    const LibraryMatmul problem{
        type, type, m, n, k, batch, a.matrix, b.matrix, c.matrix, d.matrix, has_bias ? bias.data() : nullptr, &alpha, &beta};
    REQUIRE(matmul_by_library({nullptr, 0, nullptr}, problem, workspace) == expected);
    std::vector<S> wanted = before;
    for (int64_t g = 0; expected && g < batch; ++g)
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                S z = 0;
                for (int64_t l = 0; l < k; ++l) z += a.at(g, i, l) * b.at(g, l, j);
                z = alpha * z + beta * c.at(g, i, j) + (has_bias ? bias[static_cast<size_t>(j)] : 0);
                wanted[static_cast<size_t>(g * d.matrix.step + i * d.matrix.pitch + j)] = z;
            }
    REQUIRE(d.data == wanted);
}

void plain(bool expected = true) { multiply<float>(false, false, 1, false, 1, 0, nullptr, expected); }

alignas(256) char scratch[256];

}  // namespace

extern "C" const char* baracuda_kernels_last_error(void) { return text; }

namespace bk {

Status fail(Status status, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return status;
}

int device_arch() { return 90; }

}  // namespace bk

cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
    *status = is_capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}

int main(int, char** arguments) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    const char* const name = arguments[1];
    REQUIRE(dlopen("libcuda.so.1", RTLD_NOW) != nullptr);
    snprintf(text, sizeof(text), "an older failure");
    const auto stub = [](const char* variable) {
        void* const library = dlopen("libcublasLt.so.13", RTLD_NOW);
        return static_cast<int*>(dlsym(library, variable));
    };
    if (!strcmp(name, "layouts")) {
        for (const bool a_transposed : {false, true})
            for (const bool b_transposed : {false, true})
                for (const int64_t batch : {1, 3})
                    for (const bool has_bias : {false, true}) {
                        multiply<float>(a_transposed, b_transposed, batch, has_bias, 2, 0, nullptr);
                        multiply<double>(a_transposed, b_transposed, batch, has_bias, 3, -2, scratch);
                    }
    } else if (!strcmp(name, "once")) {
        for (int i = 0; i < 3; ++i) plain();
    } else if (!strcmp(name, "refused")) {
        *stub("stub_refusing") = 15;
        for (int i = 0; i < 3; ++i) plain(false);
    } else if (!strcmp(name, "failing")) {
        *stub("stub_failing") = 13;
        for (int i = 0; i < 3; ++i) plain(false);
    } else if (!strcmp(name, "missing")) {
        plain(false);
        if (getenv("LATE_LIBRARY") != nullptr) {
            REQUIRE(dlopen(getenv("LATE_LIBRARY"), RTLD_NOW) != nullptr);
            plain();
        }
    } else if (!strcmp(name, "capture")) {
        is_capturing = true;
        plain(false);
        is_capturing = false;
        plain();
        is_capturing = true;
        plain();
    } else if (!strcmp(name, "threads")) {
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t)
            threads.emplace_back([] {
                for (int i = 0; i < 50; ++i) multiply<float>(i % 2 == 0, i % 3 == 0, 1 + i % 5, false, 1, 0, nullptr);
            });
        for (std::thread& thread : threads) thread.join();
    }
    REQUIRE(!strcmp(text, "an older failure"));
    return 0;
}
