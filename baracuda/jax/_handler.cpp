// SPDX-License-Identifier: Apache-2.0
// XLA FFI handler for all functions of baracuda.jax. The attributes of a call name the C function and its signature,
// and give the source of each of its arguments; XLA passes buffers and, on CUDA, the stream.
//
// baracuda/jax/_handler.py compiles it against the headers of the installed jaxlib (xla/ffi/api/c_api.h, a versioned C
// API) and generates the table of signatures.

#include <dlfcn.h>

#include <algorithm>
#include <cfenv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace {

// Source of an argument; the comment says what its second word is.
enum Source : int64_t {
    INTEGER,    // the integer
    REAL,       // the bits of a double
    OPERAND,    // position among the input buffers, followed by the result buffers; -1 for NULL
    HOST,       // position of a host array in the attribute `host`
    WORKSPACE,  // position among the result buffers
    STREAM,     // unused
    LIST,       // position in `host` of a count, followed by as many positions as for OPERAND
};

// One C argument: `word` holds an integer or a pointer, `real` a floating-point number.
struct Argument {
    int64_t word;
    double real;

    template <class T>
    T as() const {
        if constexpr (std::is_pointer_v<T>)
            return reinterpret_cast<T>(static_cast<intptr_t>(word));
        else if constexpr (std::is_floating_point_v<T>)
            return static_cast<T>(real);
        else
            return static_cast<T>(word);
    }
};

template <class... P, size_t... K>
int32_t call_with(void* function, const Argument* arguments, std::index_sequence<K...>) {
    return reinterpret_cast<int32_t (*)(P...)>(function)(arguments[K].template as<P>()...);
}

template <class... P>
int32_t call(void* function, const Argument* arguments) {
    return call_with<P...>(function, arguments, std::index_sequence_for<P...>());
}

struct Signature {
    std::string_view name;  // a letter for each parameter
    int32_t (*call)(void* function, const Argument* arguments);
};

// BARACUDA_SIGNATURE("plp", void*, int64_t, void*) ..., in the order of the names.
constexpr Signature signatures[] = {
#define BARACUDA_SIGNATURE(name, ...) {name, call<__VA_ARGS__>},
#include BARACUDA_SIGNATURES
#undef BARACUDA_SIGNATURE
};

constexpr int64_t most_arguments = 64;
void* libraries[2];  // CPU, CUDA

XLA_FFI_Error* error(const XLA_FFI_CallFrame* frame, XLA_FFI_Error_Code code, const char* text) {
    XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, text, code};
    return frame->api->XLA_FFI_Error_Create(&args);
}

// Answers XLA's metadata query, which precedes the first call, with the API version. Calls only launch kernels, and the
// same ones each time, so that XLA may capture them into command buffers (CUDA graphs).
bool answers_metadata_query(XLA_FFI_CallFrame* frame) {
    auto* const extension = frame->extension_start;  // auto: the type's name differs between versions of the header
    if (!extension || extension->type != XLA_FFI_Extension_Metadata) return false;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
    return true;
}

struct Attributes {
    std::string_view symbol, signature;
    const int64_t *sources = nullptr, *host = nullptr;  // pairs of words; words
    int64_t count = 0, host_count = 0;

    explicit Attributes(const XLA_FFI_Attrs& attrs) {
        for (int64_t k = 0; k < attrs.size; ++k) {
            const std::string_view name(attrs.names[k]->ptr, attrs.names[k]->len);
            if (attrs.types[k] == XLA_FFI_AttrType_STRING) {
                const auto* text = static_cast<const XLA_FFI_ByteSpan*>(attrs.attrs[k]);
                (name == "symbol" ? symbol : signature) = {text->ptr, text->len};
            } else if (attrs.types[k] == XLA_FFI_AttrType_ARRAY) {
                const auto* array = static_cast<const XLA_FFI_Array*>(attrs.attrs[k]);
                if (array->dtype != XLA_FFI_DataType_S64) continue;
                const bool is_host = name == "host";
                (is_host ? host : sources) = static_cast<const int64_t*>(array->data);
                (is_host ? host_count : count) = static_cast<int64_t>(array->size) / (is_host ? 1 : 2);
            }
        }
    }
};

// The address of a buffer; for an empty buffer an aligned dummy address, which is not dereferenced.
void* address(const XLA_FFI_CallFrame* frame, int64_t position) {
    alignas(64) static char nothing[64];
    if (position < 0) return nullptr;
    const bool is_given = position < frame->args.size;
    void* found = is_given ? frame->args.args[position] : frame->rets.rets[position - frame->args.size];
    void* data = static_cast<const XLA_FFI_Buffer*>(found)->data;
    return data ? data : nothing;
}

bool is_within(const XLA_FFI_CallFrame* frame, const Attributes& attributes, int64_t source, int64_t value) {
    switch (source) {
        case OPERAND: return value >= -1 && value < frame->args.size + frame->rets.size;
        case WORKSPACE: return value >= 0 && value < frame->rets.size;
        case HOST: return value >= 0 && value < attributes.host_count;
        case LIST: {
            const int64_t* const list = attributes.host + value;
            const int64_t left = attributes.host_count - value - 1;
            return value >= 0 && left >= 0 && list[0] >= 0 && list[0] <= left &&
                   std::all_of(list + 1, list + 1 + list[0],
                               [&](int64_t each) { return is_within(frame, attributes, OPERAND, each); });
        }
        default: return source >= INTEGER && source <= STREAM;
    }
}

// XLA's threads flush subnormal numbers to zero, of which kernels make others, such as the values of narrow floats: the
// default environment does not.
class DefaultFloats {
public:
    DefaultFloats() {
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultFloats() { std::fesetenv(&before_); }
    DefaultFloats(const DefaultFloats&) = delete;
    DefaultFloats& operator=(const DefaultFloats&) = delete;

private:
    std::fenv_t before_;
};

XLA_FFI_Error* run(XLA_FFI_CallFrame* frame, void* library, void* stream) {
    const DefaultFloats scope;
    const Attributes attributes(frame->attrs);
    char text[512];
    const auto* known = std::lower_bound(std::begin(signatures), std::end(signatures), attributes.signature,
                                         [](const Signature& each, std::string_view name) { return each.name < name; });
    if (known == std::end(signatures) || known->name != attributes.signature ||
        attributes.count != static_cast<int64_t>(known->name.size()) || attributes.count > most_arguments)
        return error(frame, XLA_FFI_Error_Code_INTERNAL, "baracuda.jax: a call of an unknown signature");
    std::snprintf(text, sizeof text, "%.*s", static_cast<int>(attributes.symbol.size()), attributes.symbol.data());
    void* function = library ? dlsym(library, text) : nullptr;
    if (!function) {
        char message[640];
        std::snprintf(message, sizeof message, "baracuda.jax: the library has no %s", text);
        return error(frame, XLA_FFI_Error_Code_NOT_FOUND, message);
    }
    Argument arguments[most_arguments];
    std::vector<void*> entries;  // pointers of the list argument, at most one per function
    for (int64_t k = 0; k < attributes.count; ++k) {
        const int64_t source = attributes.sources[2 * k], value = attributes.sources[2 * k + 1];
        if (!is_within(frame, attributes, source, value))
            return error(frame, XLA_FFI_Error_Code_INTERNAL, "baracuda.jax: a call of buffers that it has not");
        Argument& argument = arguments[k];
        argument = {value, 0};
        if (source == REAL) std::memcpy(&argument.real, &value, sizeof value);
        if (source == OPERAND) argument.word = reinterpret_cast<intptr_t>(address(frame, value));
        if (source == WORKSPACE) argument.word = reinterpret_cast<intptr_t>(address(frame, frame->args.size + value));
        if (source == HOST) argument.word = reinterpret_cast<intptr_t>(attributes.host + value);
        if (source == LIST) {
            const int64_t* const list = attributes.host + value;
            for (int64_t entry = 1; entry <= list[0]; ++entry) entries.push_back(address(frame, list[entry]));
            argument.word = reinterpret_cast<intptr_t>(entries.data());
        }
        if (source == STREAM) argument.word = reinterpret_cast<intptr_t>(stream);
    }
    if (const int32_t status = known->call(function, arguments)) {
        const auto last_error = reinterpret_cast<const char* (*)()>(dlsym(library, "baracuda_kernels_last_error"));
        std::snprintf(text, sizeof text, "%s (status %d)", last_error ? last_error() : "baracuda", status);
        return error(frame, status == 5 ? XLA_FFI_Error_Code_INTERNAL : XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
    }
    return nullptr;
}

}  // namespace

#define BARACUDA_EXPORT extern "C" __attribute__((visibility("default")))

// Opens the library of a backend, 0 for the CPU or 1 for CUDA; returns NULL or an error text.
BARACUDA_EXPORT const char* baracuda_jax_open(int32_t backend, const char* path) {
    libraries[backend] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return libraries[backend] ? nullptr : dlerror();
}

BARACUDA_EXPORT XLA_FFI_Error* baracuda_jax_cpu(XLA_FFI_CallFrame* frame) {
    return answers_metadata_query(frame) ? nullptr : run(frame, libraries[0], nullptr);
}

BARACUDA_EXPORT XLA_FFI_Error* baracuda_jax_cuda(XLA_FFI_CallFrame* frame) {
    if (answers_metadata_query(frame)) return nullptr;
    XLA_FFI_Stream_Get_Args args = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, nullptr};
    if (XLA_FFI_Error* failed = frame->api->XLA_FFI_Stream_Get(&args)) return failed;
    return run(frame, libraries[1], args.stream);
}
