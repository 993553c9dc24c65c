/* Which set of loops is in use. */
#ifndef TOOLKIT_IMAGE_CHOICE_H
#define TOOLKIT_IMAGE_CHOICE_H

#include "kernels.h"

const img_kernels *img_current_kernels(void);
/* Chooses a set by name, "" = the best of this machine. Returns 0, or -1 when it is unknown or cannot run here. */
int img_choose_kernels(const char *name);

#endif
