// SPDX-License-Identifier: Apache-2.0
// dlopen() for a program that is to find the libraries of the folders of LD_LIBRARY_PATH alone, not those that the machine has
// installed. Included once.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace given_folders {

inline thread_local std::string error;

// Found before the first error, as dlsym() forgets what dlerror() has to tell.
inline const auto next_dlopen = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
inline const auto next_dlerror = reinterpret_cast<char* (*)()>(dlsym(RTLD_NEXT, "dlerror"));

inline bool have(const char* soname) {
    const char* const paths = getenv("LD_LIBRARY_PATH");
    std::istringstream folders(paths == nullptr ? "" : paths);
    for (std::string folder; std::getline(folders, folder, ':');)
        if (access((folder + "/" + soname).c_str(), F_OK) == 0) return true;
    return false;
}

}  // namespace given_folders

extern "C" void* dlopen(const char* file, int mode) noexcept {
    const bool is_given = file == nullptr || strchr(file, '/') != nullptr || given_folders::have(file);
    if (is_given) return given_folders::next_dlopen(file, mode);
    if (void* const loaded = given_folders::next_dlopen(file, mode | RTLD_NOLOAD)) return loaded;
    if ((mode & RTLD_NOLOAD) == 0) given_folders::error = std::string(file) + ": cannot open shared object file";
    return nullptr;
}

extern "C" char* dlerror() noexcept {
    static thread_local std::string told;
    char* const text = given_folders::next_dlerror();
    if (given_folders::error.empty()) return text;
    told.swap(given_folders::error);
    given_folders::error.clear();
    return told.data();
}
