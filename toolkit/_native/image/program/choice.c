/* The choice of the loops: the best that this machine runs, unless a test wants others. */
#include "choice.h"

#include <string.h>

static const img_kernels *current;

int img_choose_kernels(const char *name) {
    const img_kernels *chosen = NULL;
#if defined(__x86_64__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    int avx512 = avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
                 __builtin_cpu_supports("avx512vnni");
    if (avx512 && (name[0] == 0 || strcmp(name, "avx512") == 0))
        chosen = &img_avx512_kernels;
    else if (avx2 && (name[0] == 0 || strcmp(name, "avx2") == 0))
        chosen = &img_avx2_kernels;
#endif
    if (chosen == NULL && (name[0] == 0 || strcmp(name, "generic") == 0))
        chosen = &img_generic_kernels;
    if (chosen == NULL)
        return -1;
    __atomic_store_n(&current, chosen, __ATOMIC_RELEASE);
    return 0;
}

const img_kernels *img_current_kernels(void) { return __atomic_load_n(&current, __ATOMIC_ACQUIRE); }
