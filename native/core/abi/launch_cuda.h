// SPDX-License-Identifier: Apache-2.0
// Kernel launches. Errors come from the launch call itself: an older unread error of the caller is neither reported nor
// cleared.
#pragma once

#include <cstdint>

#include "core/abi/launch.h"
#include "core/abi/status.h"
#include "core/platform.h"
#include "core/reference_chip.h"
#include "core/types/pack.h"

namespace bk {

inline cudaStream_t stream_of(const Launch& launch) {
    return launch.stream == nullptr ? cudaStreamPerThread : static_cast<cudaStream_t>(launch.stream);
}

// Converts a CUDA result to a status; `clean` says that no error was pending before the call that returned it.
inline Status from_cuda(cudaError_t error, bool clean, const char* what) {
    if (error == cudaSuccess) return Status::kOk;
    if (clean) cudaGetLastError();
    return fail(Status::kInternal, "%s failed: %s (%s)", what, cudaGetErrorString(error), cudaGetErrorName(error));
}

inline bool no_pending_error() { return cudaPeekAtLastError() == cudaSuccess; }

struct Grid {
    dim3 blocks;
    dim3 threads;
    unsigned cluster = 1;   // blocks of a cluster, along x; needs sm_90
    unsigned shared = 0;    // dynamic shared memory of a block in bytes, at most max_shared_bytes()
    bool overlaps = false;  // starts before the kernel in front of it has ended: see core/intrinsics/dependent_launch.cuh
};

// Shared memory of a block in bytes, static and dynamic together. Beyond kDefaultSharedBytes a kernel has to opt in. A launch
// opts in above kSmallSharedBytes of dynamic memory, since only the compiler knows the static memory, here at most 32 KiB.
constexpr unsigned kDefaultSharedBytes = 48 << 10, kSmallSharedBytes = 16 << 10;
inline int64_t max_shared_bytes(int arch) {
    const bool is_large = arch == 80 || arch == 87, is_largest = arch >= 90 && arch < 120;
    return (is_largest ? 227 : is_large ? 163 : 99) << 10;
}

// `arguments` points to the kernel's arguments, each of its parameter's type.
inline Status launch_with(const Launch& launch, const Grid& grid, const void* kernel, void** arguments) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = grid.shared;
    config.stream = stream_of(launch);
    cudaLaunchAttribute attributes[2]{};
    config.attrs = attributes;
    if (grid.cluster > 1) {
        cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = grid.cluster;
        attribute.val.clusterDim.y = 1;
        attribute.val.clusterDim.z = 1;
    }
    if (grid.overlaps) {
        cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    const bool clean = no_pending_error();
    if (grid.shared > kSmallSharedBytes)
        BK_TRY(
            from_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared)),
                      clean, "cudaFuncSetAttribute"));
    return from_cuda(cudaLaunchKernelExC(&config, kernel, arguments), clean, "kernel launch");
}

template <class... P, size_t... I>
Status launch_pack(const Launch& launch, const Grid& grid, void (*kernel)(P...), Pack<P...> arguments,
                   std::index_sequence<I...>) {
    void* pointers[] = {&get<I>(arguments)...};
    return launch_with(launch, grid, reinterpret_cast<const void*>(kernel), pointers);
}

template <class... P, class... A>
Status launch_kernel(const Launch& launch, const Grid& grid, void (*kernel)(P...), const A&... arguments) {
    return launch_pack(launch, grid, kernel, Pack<P...>{{{static_cast<P>(arguments)}...}}, std::index_sequence_for<P...>{});
}

inline Status fill_bytes(const Launch& launch, void* destination, int value, size_t bytes) {
    const bool clean = no_pending_error();
    return from_cuda(cudaMemsetAsync(destination, value, bytes, stream_of(launch)), clean, "cudaMemsetAsync");
}

// Properties of a device that launches depend on; all 0 without a device.
struct DeviceTraits {
    int16_t arch, sms;  // compute capability times ten, number of SMs

    static DeviceTraits query(int device) {
        int major = 0, minor = 0, sms = 0;
        const bool clean = no_pending_error();
        cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
        if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
        if (error == cudaSuccess) error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
        if (error == cudaSuccess) return {static_cast<int16_t>(major * 10 + minor), static_cast<int16_t>(sms)};
        if (clean) cudaGetLastError();
        return {0, 0};
    }
};

// Traits of the current device, cached per device.
inline DeviceTraits device_traits() {
    constexpr int kMaxDevices = 64;
    static uint32_t known[kMaxDevices];
    int device = 0;
    const bool clean = no_pending_error();
    if (cudaGetDevice(&device) != cudaSuccess) {
        if (clean) cudaGetLastError();
        return {0, 0};
    }
    if (device >= kMaxDevices) return DeviceTraits::query(device);
    if (const uint32_t word = __atomic_load_n(&known[device], __ATOMIC_RELAXED))
        return {static_cast<int16_t>(word >> 16), static_cast<int16_t>(word & 0xffff)};
    const DeviceTraits traits = DeviceTraits::query(device);
    __atomic_store_n(&known[device], static_cast<uint32_t>(traits.arch) << 16 | static_cast<uint32_t>(traits.sms),
                     __ATOMIC_RELAXED);
    return traits;
}

inline int device_arch() { return device_traits().arch; }
inline bool has_shared(int64_t bytes) { return bytes <= max_shared_bytes(device_arch()); }  // a block, on this device
inline int64_t device_sms() { return device_traits().sms; }

constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int64_t kMaxGridY = 65535;

}  // namespace bk
