/* The steps of enhance.c, for others that do the same by a factor of their own. */
#ifndef TOOLKIT_IMAGE_OPS_ENHANCE_H
#define TOOLKIT_IMAGE_OPS_ENHANCE_H

#include "image/program/plan.h"

/* PIL's ImageEnhance.Brightness, Contrast and Color by a factor of 0 .. 1e6. All return a status. */
int img_plan_brightness(img_builder *b, double factor);
int img_plan_contrast(img_builder *b, double factor);
int img_plan_saturation(img_builder *b, double factor);

#endif
