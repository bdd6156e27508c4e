// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries that ops may load: sonames, packages to install, and version and handle functions.
#pragma once

#include <cstddef>

namespace bk {

enum class Vendor { kCublasLt, kCudnn, kCufft, kCusolver, kNccl };

struct VendorEntry {
    const char* name;
    const char* key;         // in cuda.pathfinder and in baracuda_kernels_build_info
    const char* sonames[2];  // newest first, those of CUDA 13 and 12; the second is null where both use one
    const char* package_13;  // on PyPI, for CUDA 13 and for CUDA 12
    const char* package_12;
    const char* get_version;
    int major_unit;           // the version is major * major_unit + minor * 100 + patch
    bool version_by_pointer;  // int get_version(int*), else size_t get_version()
    // int create(handle*), int set_stream(handle, stream), int destroy(handle). Without `create` it has no handles; without
    // `set_stream` each call takes a stream; without `destroy` handles are left to the driver.
    const char* create;
    const char* set_stream;
    const char* destroy;
};

// cuDNN loads sub-libraries on first use. At exit their destructors run before those of libraries loaded earlier, so
// its handles must not be destroyed then; the driver reclaims the process's resources.
constexpr VendorEntry kVendors[] = {
    {"cuBLASLt",
     "cublasLt",
     {"libcublasLt.so.13", "libcublasLt.so.12"},
     "nvidia-cublas",
     "nvidia-cublas-cu12",
     "cublasLtGetVersion",
     10000,
     false,
     "cublasLtCreate",
     nullptr,
     "cublasLtDestroy"},
    {"cuDNN",
     "cudnn",
     {"libcudnn.so.9", nullptr},
     "nvidia-cudnn-cu13",
     "nvidia-cudnn-cu12",
     "cudnnGetVersion",
     10000,
     false,
     "cudnnCreate",
     "cudnnSetStream",
     nullptr},
    {"cuFFT",
     "cufft",
     {"libcufft.so.12", "libcufft.so.11"},
     "nvidia-cufft",
     "nvidia-cufft-cu12",
     "cufftGetVersion",
     1000,
     true,
     nullptr,
     nullptr,
     nullptr},
    {"cuSOLVER",
     "cusolver",
     {"libcusolver.so.12", "libcusolver.so.11"},
     "nvidia-cusolver",
     "nvidia-cusolver-cu12",
     "cusolverGetVersion",
     1000,
     true,
     "cusolverDnCreate",
     "cusolverDnSetStream",
     "cusolverDnDestroy"},
    {"NCCL",
     "nccl",
     {"libnccl.so.2", nullptr},
     "nvidia-nccl-cu13",
     "nvidia-nccl-cu12",
     "ncclGetVersion",
     10000,
     true,
     nullptr,
     nullptr,
     nullptr},
};
constexpr size_t kVendorCount = sizeof(kVendors) / sizeof(kVendors[0]);

constexpr const VendorEntry& entry_of(Vendor library) { return kVendors[static_cast<size_t>(library)]; }

}  // namespace bk
