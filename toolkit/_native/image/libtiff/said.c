/* What libtiff says of a damaged file: kept for the thread that asked for it, instead of printed without a file name.
 *
 * The handler belongs to the whole process. For a thread that doesn't listen it does what was done before, so whoever
 * uses libtiff beside us is none the wiser. It runs without the GIL, and touches nothing of Python.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "libtiff.h"

typedef void (*handler)(const char *module, const char *format, va_list values);

static _Atomic(handler) before;
static _Thread_local int listening;
static _Thread_local char said[LIBTIFF_SAID];

static void hear(const char *module, const char *format, va_list values) {
    if (!listening) {
        handler other = atomic_load(&before);
        if (other != NULL)
            other(module, format, values);
        return;
    }
    if (said[0] != '\0') /* the first fault is the reason, the others follow from it */
        return;
    int length = module == NULL ? 0 : snprintf(said, sizeof said, "%s: ", module);
    if (length >= 0 && length < (int)sizeof said)
        vsnprintf(said + length, sizeof said - (size_t)length, format, values);
}

int libtiff_attach(const char *module_path) {
    void *module = dlopen(module_path, RTLD_LAZY | RTLD_NOLOAD);
    if (module == NULL)
        return 0;
    /* Searched in the module and in what it was linked with: the very libtiff that it calls. */
    handler (*set)(handler) = (handler (*)(handler))dlsym(module, "TIFFSetErrorHandler");
    if (set != NULL) {
        handler other = set(hear);
        if (other != hear)
            atomic_store(&before, other);
    }
    dlclose(module);
    return set != NULL;
}

void libtiff_listen(int on) {
    if (on && !listening)
        said[0] = '\0';
    listening = on;
}

void libtiff_take(char *text) {
    memcpy(text, said, sizeof said);
    said[0] = '\0';
}
