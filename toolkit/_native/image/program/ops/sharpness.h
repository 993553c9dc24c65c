/* The sharpness step, for others that do the same by a factor of their own. */
#ifndef TOOLKIT_IMAGE_OPS_SHARPNESS_H
#define TOOLKIT_IMAGE_OPS_SHARPNESS_H

#include "image/program/plan.h"

/* PIL's ImageEnhance.Sharpness by a factor: below 1 smoother, above 1 sharper. Returns a status. */
int img_plan_sharpness(img_builder *b, double factor);

#endif
