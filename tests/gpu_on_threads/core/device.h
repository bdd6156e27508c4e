// SPDX-License-Identifier: Apache-2.0
// A device for kernels on fibers: memory that the host cannot read, streams that run only when waited for, graphs.
// Without device memory (programs that test one skeleton) work runs at once.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/fibers.h"

namespace device {

using Task = std::function<void()>;
using Graph = std::vector<Task>;

enum Error { kOk = 0, kInvalidHandle = 400, kNotReady = 600, kNotInCapture = 900 };

// Accessible only while a task runs, so that host code that dereferences device memory crashes there.
struct Memory {
    char* begin = nullptr;
    size_t bytes = 0;
    std::mutex access;
    int open = 0;

    void enter() {
        const std::lock_guard<std::mutex> lock(access);
        if (open++ == 0 && bytes != 0) mprotect(begin, bytes, PROT_READ | PROT_WRITE);
    }
    void leave() {
        const std::lock_guard<std::mutex> lock(access);
        if (--open == 0 && bytes != 0) mprotect(begin, bytes, PROT_NONE);
    }
};
inline Memory memory;

struct Step {
    Task task;
    const volatile uint32_t* word = nullptr;  // the stream waits until the word has this value
    uint32_t value = 0;
};

struct Stream {
    bool is_blocking;    // synchronises with the legacy stream
    std::mutex access;   // protects steps
    std::mutex running;  // held by the thread that runs steps
    std::deque<Step> steps;
    std::unique_ptr<Graph> capture;
};

constexpr uintptr_t kLegacy = 1, kPerThread = 2, kFirstOther = 0x1000;

inline std::mutex registry;
inline std::map<std::pair<uintptr_t, std::thread::id>, std::shared_ptr<Stream>> streams;
inline uintptr_t next_stream = kFirstOther;

inline std::shared_ptr<Stream> find(uintptr_t handle) {
    const bool is_own = handle == kPerThread;
    const std::pair<uintptr_t, std::thread::id> key{handle, is_own ? std::this_thread::get_id() : std::thread::id()};
    const std::lock_guard<std::mutex> lock(registry);
    const auto found = streams.find(key);
    if (found != streams.end()) return found->second;
    if (handle != kPerThread && handle != kLegacy) return nullptr;
    return streams[key] = std::shared_ptr<Stream>(new Stream{true, {}, {}, {}, nullptr});
}

inline uintptr_t make_stream(bool is_blocking) {
    const std::lock_guard<std::mutex> lock(registry);
    const uintptr_t handle = next_stream += 16;
    streams[{handle, std::thread::id()}] = std::shared_ptr<Stream>(new Stream{is_blocking, {}, {}, {}, nullptr});
    return handle;
}

inline void run(const Task& task) {
    memory.enter();
    task();
    memory.leave();
}

inline Step* first_step(Stream& stream) {
    const std::lock_guard<std::mutex> lock(stream.access);
    return stream.steps.empty() ? nullptr : &stream.steps.front();
}

// Runs all steps of a stream, waiting where it waits; without `waits`, stops there and returns false.
inline bool finish(Stream& stream, bool waits = true) {
    std::unique_lock<std::mutex> alone(stream.running, std::defer_lock);
    if (waits)
        alone.lock();
    else if (!alone.try_lock())
        return false;
    while (Step* const step = first_step(stream)) {
        for (; step->word != nullptr && *step->word != step->value; usleep(100))
            if (!waits) return false;
        if (step->word == nullptr) run(step->task);
        const std::lock_guard<std::mutex> lock(stream.access);
        stream.steps.pop_front();
    }
    return true;
}

inline void finish_all(bool blocking_alone) {
    std::vector<std::shared_ptr<Stream>> all;
    {
        const std::lock_guard<std::mutex> lock(registry);
        for (const auto& entry : streams)
            if (entry.second->is_blocking || !blocking_alone) all.push_back(entry.second);
    }
    for (const auto& stream : all) finish(*stream);
}

// Appends a step. The legacy stream first finishes all blocking streams, and those finish it.
inline Error enqueue(uintptr_t handle, Step step) {
    const std::shared_ptr<Stream> stream = find(handle);
    if (stream == nullptr) return kInvalidHandle;
    if (stream->capture != nullptr) {
        stream->capture->push_back(std::move(step.task));
        return kOk;
    }
    if (handle == kLegacy)
        finish_all(true);
    else if (stream->is_blocking)
        finish(*find(kLegacy));
    const std::lock_guard<std::mutex> lock(stream->access);
    stream->steps.push_back(std::move(step));
    return kOk;
}

// Runs a task in stream order (NULL: the per-thread stream), or at once without device memory.
inline Error submit(void* stream, Task task) {
    if (memory.bytes == 0) {
        task();
        return kOk;
    }
    return enqueue(stream == nullptr ? kPerThread : reinterpret_cast<uintptr_t>(stream), {std::move(task)});
}

}  // namespace device
