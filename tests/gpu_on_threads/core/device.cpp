// SPDX-License-Identifier: Apache-2.0
// C interface of the fiber device, to which the Python modules in ../device give CUDA's names. Stream 1 is the legacy
// default stream, 2 the per-thread one.
#include "core/device.h"

#include <cstring>

using namespace device;

#define BK_DEVICE_API extern "C" __attribute__((visibility("default")))

BK_DEVICE_API void baracuda_kernels_device_memory(void* begin, size_t bytes) {
    memory.begin = static_cast<char*>(begin);
    memory.bytes = bytes;
}

BK_DEVICE_API uintptr_t baracuda_kernels_device_stream(int is_blocking) { return make_stream(is_blocking != 0); }

BK_DEVICE_API int baracuda_kernels_device_close(uintptr_t handle) {
    const std::shared_ptr<Stream> stream = find(handle);
    if (stream == nullptr || handle <= kPerThread) return kInvalidHandle;
    finish(*stream);
    const std::lock_guard<std::mutex> lock(registry);
    streams.erase({handle, std::thread::id()});
    return kOk;
}

BK_DEVICE_API int baracuda_kernels_device_set(uintptr_t stream, void* at, int value, size_t bytes) {
    return enqueue(stream, {[=] { memset(at, value, bytes); }});
}

BK_DEVICE_API int baracuda_kernels_device_copy(uintptr_t stream, void* to, const void* from, size_t bytes) {
    return enqueue(stream, {[=] { memmove(to, from, bytes); }});
}

BK_DEVICE_API int baracuda_kernels_device_await(uintptr_t stream, const uint32_t* word, uint32_t value) {
    return enqueue(stream, {nullptr, word, value});
}

BK_DEVICE_API int baracuda_kernels_device_synchronize(uintptr_t handle) {
    const std::shared_ptr<Stream> stream = find(handle);
    if (stream == nullptr) return kInvalidHandle;
    if (stream->capture != nullptr) return kNotInCapture;
    if (handle == kLegacy) finish_all(true);
    finish(*stream);
    return kOk;
}

BK_DEVICE_API void baracuda_kernels_device_synchronize_all() { finish_all(false); }

BK_DEVICE_API int baracuda_kernels_device_query(uintptr_t handle) {
    const std::shared_ptr<Stream> stream = find(handle);
    if (stream == nullptr) return kInvalidHandle;
    return finish(*stream, false) ? kOk : kNotReady;
}

BK_DEVICE_API int baracuda_kernels_device_begin(uintptr_t handle) {
    const std::shared_ptr<Stream> stream = find(handle);
    if (stream == nullptr) return kInvalidHandle;
    if (handle == kLegacy || stream->capture != nullptr) return kNotInCapture;
    stream->capture.reset(new Graph);
    return kOk;
}

BK_DEVICE_API Graph* baracuda_kernels_device_end(uintptr_t handle) {
    const std::shared_ptr<Stream> stream = find(handle);
    return stream == nullptr ? nullptr : stream->capture.release();
}

BK_DEVICE_API int baracuda_kernels_device_is_capturing(uintptr_t handle) {
    const std::shared_ptr<Stream> stream = find(handle);
    return stream != nullptr && stream->capture != nullptr;
}

BK_DEVICE_API Graph* baracuda_kernels_device_instance(const Graph* graph) { return new Graph(*graph); }

BK_DEVICE_API int baracuda_kernels_device_launch(const Graph* graph, uintptr_t stream) {
    for (const Task& task : *graph)
        if (const Error error = enqueue(stream, {task})) return error;
    return kOk;
}

BK_DEVICE_API void baracuda_kernels_device_drop(Graph* graph) { delete graph; }
