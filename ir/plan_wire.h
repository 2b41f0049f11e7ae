/* ir/plan_wire.h: what the two files that encode and decode plans share. Inside ir/ only. */
#ifndef KILN_IR_PLAN_WIRE_H
#define KILN_IR_PLAN_WIRE_H

#include "ir/mpack_path.h"
#include "ir/plan.h"

typedef struct {
  kiln_arena_t *arena;
  kiln_plan_t *plan;
} kiln_plan_decoder_t;

static inline kiln_path_t kiln_plan_step(const kiln_path_t *outer, const char *key) {
  return (kiln_path_t){outer, key, 0};
}

static inline kiln_path_t kiln_plan_item(const kiln_path_t *outer, size_t index) {
  return (kiln_path_t){outer, NULL, index};
}

void kiln_plan_put_dim(kiln_buffer_t *out, kiln_dim_t dim);
kiln_status_t kiln_plan_get_dim(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *value, kiln_dim_t *out);

/* plan_wire_launch.c */
void kiln_plan_put_launch(kiln_buffer_t *out, const kiln_launch_t *launch);
/* After inputs, outputs, temporaries and constants, which launches refer to. */
kiln_status_t kiln_plan_get_launches(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                     const kiln_mpack_t *list);

#endif
