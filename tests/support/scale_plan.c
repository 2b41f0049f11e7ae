/* tests/support/scale_plan.c: see scale_plan.h. */
#include "tests/support/scale_plan.h"

#include <string.h>

static kiln_slot_t buffer_slot(kiln_buffer_kind_t kind) {
  return (kiln_slot_t){.kind = KILN_SLOT_BUFFER, .buffer = {kind, 0}};
}

void kiln_scale_plan_make(kiln_scale_plan_t *s) {
  *s = (kiln_scale_plan_t){.t_term = {1, 1}, .four_t_term = {1, 4}};
  s->t = (kiln_dim_t){.terms = &s->t_term, .term_count = 1};
  s->four_t = (kiln_dim_t){.terms = &s->four_t_term, .term_count = 1};
  s->shape[0] = s->t;
  s->input = (kiln_plan_tensor_t){.align_bytes = 16};
  s->input.type.dtype = KILN_DTYPE_f32;
  s->input.type.rank = 1;
  memcpy(s->input.type.dims, s->shape, sizeof s->shape);
  s->input.strides[0] = kiln_dim_constant(1);
  s->output = s->input;
  s->slot_bytes = s->four_t;
  s->slot = (kiln_plan_slot_t){&s->slot_bytes, 1};
  const kiln_slot_t size = {.kind = KILN_SLOT_DIM32, .dim = s->t};
  const kiln_slot_t by_t = {.kind = KILN_SLOT_DIM64, .dim = s->t};
  const kiln_slot_t by_three = {.kind = KILN_SLOT_DIM64, .dim = kiln_dim_constant(3)};
  const kiln_slot_t params[2][4] = {
      {buffer_slot(KILN_BUFFER_INPUT), buffer_slot(KILN_BUFFER_TEMP), size, by_t},
      {buffer_slot(KILN_BUFFER_TEMP), buffer_slot(KILN_BUFFER_OUTPUT), size, by_three}};
  memcpy(s->params, params, sizeof params);
  for (int i = 0; i < 2; i++) {
    s->launches[i] =
        (kiln_launch_t){.kernel = kiln_sha256("scale", 5),
                        .entry = "scale",
                        .grid = {{s->t, 128}, {kiln_dim_constant(1), 1}, {kiln_dim_constant(1), 1}},
                        .block = {128, 1, 1},
                        .slots = s->params[i],
                        .slot_count = 4};
    s->artifacts[i] = (kiln_kernel_artifact_t){.kind = KILN_IMAGE_PTX,
                                               .image = ".version 8.0 scale",
                                               .image_bytes = 19,
                                               .ptx = ".version 8.0 scale",
                                               .entry = "scale",
                                               .arch = "sm_90"};
  }
  s->constraint = (kiln_constraint_t){s->t, kiln_dim_constant(0), false, "T is a size"};
  s->guard = (kiln_guard_t){KILN_GUARD_BELOW, s->t, 100000000};
  s->plan = (kiln_plan_t){.symbol_count = 1,
                          .inputs = &s->input,
                          .input_count = 1,
                          .outputs = &s->output,
                          .output_count = 1,
                          .slots = &s->slot,
                          .slot_count = 1,
                          .temp_slots = &s->temp_slot,
                          .temp_count = 1,
                          .launches = s->launches,
                          .launch_count = 2,
                          .constraints = &s->constraint,
                          .constraint_count = 1,
                          .guards = &s->guard,
                          .guard_count = 1};
}
