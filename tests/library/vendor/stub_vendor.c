/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for one of NVIDIA's libraries: PREFIX names its functions, VERSION is its version. Says on standard output what
 * becomes of its handles; a handle counts its users, and a program may be called back from within `create`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define NAME(suffix) PASTE(PREFIX, suffix)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

struct handle {
    int users;
    void* stream;
    long owner;
};

int stub_failing = 0;         /* what `create` and `set_stream` then answer */
void (*stub_on_create)(void); /* called by `create` */

static void say(const char* what) {
    char text[64];
    ssize_t done = write(1, text, (size_t)snprintf(text, sizeof text, "%s %s\n", TEXT(PREFIX), what));
    (void)done;
}

size_t PASTE(LIBRARY, GetVersion)(void) { return VERSION; }

int NAME(Create)(void** out) {
    if (stub_on_create) stub_on_create();
    if (stub_failing) return stub_failing;
    struct handle* made = calloc(1, sizeof *made);
    made->owner = (long)getpid();
    *out = made;
    say("create");
    return 0;
}

int NAME(SetStream)(void* handle, void* stream) {
    if (stub_failing) return stub_failing;
    ((struct handle*)handle)->stream = stream;
    return 0;
}

int NAME(Destroy)(void* handle) {
    say(((struct handle*)handle)->owner == (long)getpid() ? "destroy" : "destroy of another process's");
    free(handle);
    return 0;
}

#if VERSION >= 130000
int stub_new_function(int x) { return x + 1; }
#endif

/* Registered when the library is loaded, as the destructors of a C++ library are. */
static void unload(void) { say("unloaded"); }
__attribute__((constructor)) static void load(void) { atexit(unload); }
