/* tests/support/scale_plan.h: a plan by hand: y = 3 * (T * x) with x: f32[T], in two launches of one kernel
 * with a temporary between. It has a symbol, a constraint, a guard and parameters of every size. */
#ifndef KILN_TESTS_SUPPORT_SCALE_PLAN_H
#define KILN_TESTS_SUPPORT_SCALE_PLAN_H

#include "ir/plan.h"
#include "runtime/compile.h"

/* y[i] = k * x[i] for i < n. */
#define KILN_SCALE_SOURCE                                                                                    \
  "extern \"C\" __global__ void scale(const float *x, float *y, int n, long long k) {\n"                     \
  "  int i = blockIdx.x * 128 + threadIdx.x;\n"                                                              \
  "  if (i < n) y[i] = (float)k * x[i];\n"                                                                   \
  "}\n"

/* The plan points into the struct, which stays where it was made. Tests change parts of it. */
typedef struct {
  kiln_plan_t plan;
  kiln_plan_tensor_t input, output;
  kiln_plan_slot_t slot;
  kiln_dim_t slot_bytes;
  uint32_t temp_slot;
  kiln_slot_t params[2][4];
  kiln_launch_t launches[2];
  kiln_constraint_t constraint;
  kiln_guard_t guard;
  kiln_kernel_artifact_t artifacts[2];
  kiln_dim_t t, four_t;
  kiln_term_t t_term, four_t_term;
  kiln_dim_t shape[1];
} kiln_scale_plan_t;

/* With PTX that only a fake driver takes; launches 0 and 1 share kernel key and image. */
void kiln_scale_plan_make(kiln_scale_plan_t *plan);

#endif
