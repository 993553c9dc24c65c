/* Turning hues. */
#ifndef TOOLKIT_IMAGE_OPS_HUE_H
#define TOOLKIT_IMAGE_OPS_HUE_H

#include "image/program/plan.h"

/* torchvision's adjust_hue of PIL images, through PIL's HSV, by a factor of -0.5 .. 0.5. Returns a status. */
int img_plan_hue(img_builder *b, double factor);

#endif
