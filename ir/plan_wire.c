/* ir/plan_wire.c: plans as MessagePack: what cache entries, artifacts and worker replies hold.
 *
 * A map with string keys and a format name, so that a reader without this source can see what it has. A
 * dimension is an integer, or the pairs (powers, coefficient) of its terms in a flat array. Decoding checks
 * every index and range; that the bytes are the ones that encoding gives is checked by encoding once more.
 */
#include "ir/plan_wire.h"

#include <string.h>

static const char format_name[] = "kiln plan 2";

/* --- encoding ------------------------------------------------------------------------------------------- */

void kiln_plan_put_dim(kiln_buffer_t *out, kiln_dim_t dim) {
  if (kiln_dim_is_constant(dim)) {
    kiln_mpack_int(out, dim.constant);
    return;
  }
  kiln_mpack_array(out, 2 * (size_t)dim.term_count);
  for (uint32_t i = 0; i < dim.term_count; i++) {
    kiln_mpack_uint(out, dim.terms[i].powers);
    kiln_mpack_int(out, dim.terms[i].coefficient);
  }
}

static void put_dims(kiln_buffer_t *out, const kiln_dim_t *dims, uint32_t count) {
  kiln_mpack_array(out, count);
  for (uint32_t i = 0; i < count; i++) kiln_plan_put_dim(out, dims[i]);
}

/* [dtype, shape, strides, align] */
static void put_tensors(kiln_buffer_t *out, const char *key, const kiln_plan_tensor_t *tensors,
                        uint32_t count) {
  kiln_mpack_str(out, key);
  kiln_mpack_array(out, count);
  for (uint32_t i = 0; i < count; i++) {
    kiln_mpack_array(out, 4);
    kiln_mpack_str(out, kiln_dtype_name(tensors[i].type.dtype));
    put_dims(out, tensors[i].type.dims, tensors[i].type.rank);
    put_dims(out, tensors[i].strides, tensors[i].type.rank);
    kiln_mpack_uint(out, tensors[i].align_bytes);
  }
}

static void put_temporaries(kiln_buffer_t *out, const kiln_plan_t *plan) {
  kiln_mpack_str(out, "arena");
  kiln_mpack_array(out, plan->slot_count);
  for (uint32_t i = 0; i < plan->slot_count; i++) put_dims(out, plan->slots[i].bytes, plan->slots[i].count);
  kiln_mpack_str(out, "temporaries");
  kiln_mpack_array(out, plan->temp_count);
  for (uint32_t i = 0; i < plan->temp_count; i++) kiln_mpack_uint(out, plan->temp_slots[i]);
}

/* Constraints are [left, right, equal, message], guards [kind, dim, bound]. */
static void put_conditions(kiln_buffer_t *out, const kiln_plan_t *plan) {
  kiln_mpack_str(out, "constraints");
  kiln_mpack_array(out, plan->constraint_count);
  for (uint32_t i = 0; i < plan->constraint_count; i++) {
    kiln_mpack_array(out, 4);
    kiln_plan_put_dim(out, plan->constraints[i].left);
    kiln_plan_put_dim(out, plan->constraints[i].right);
    kiln_mpack_bool(out, plan->constraints[i].equal);
    kiln_mpack_str(out, plan->constraints[i].message);
  }
  kiln_mpack_str(out, "guards");
  kiln_mpack_array(out, plan->guard_count);
  for (uint32_t i = 0; i < plan->guard_count; i++) {
    kiln_mpack_array(out, 3);
    kiln_mpack_uint(out, plan->guards[i].kind);
    kiln_plan_put_dim(out, plan->guards[i].dim);
    kiln_mpack_int(out, plan->guards[i].bound);
  }
}

void kiln_plan_encode(const kiln_plan_t *plan, kiln_buffer_t *out) {
  kiln_mpack_map(out, 10);
  kiln_mpack_str(out, "format");
  kiln_mpack_str(out, format_name);
  kiln_mpack_str(out, "symbols");
  kiln_mpack_uint(out, plan->symbol_count);
  put_tensors(out, "inputs", plan->inputs, plan->input_count);
  put_tensors(out, "outputs", plan->outputs, plan->output_count);
  put_temporaries(out, plan);
  kiln_mpack_str(out, "launches");
  kiln_mpack_array(out, plan->launch_count);
  for (uint32_t i = 0; i < plan->launch_count; i++) kiln_plan_put_launch(out, &plan->launches[i]);
  kiln_mpack_str(out, "constants");
  kiln_mpack_array(out, plan->constant_count);
  for (uint32_t i = 0; i < plan->constant_count; i++) {
    kiln_mpack_bin(out, plan->constants[i].data, plan->constants[i].size);
  }
  put_conditions(out, plan);
}

/* --- decoding: dims and tensors ------------------------------------------------------------------------- */

/* Are these the terms of a dimension in normal form, over the plan's symbols? */
static bool is_normal(const kiln_plan_decoder_t *decoder, kiln_dim_t dim) {
  if (!dim.term_count || dim.term_count > KILN_MAX_TERMS || !dim.terms[0].powers) return false;
  for (uint32_t i = 0; i < dim.term_count; i++) {
    if (!dim.terms[i].coefficient || (i && dim.terms[i].powers >= dim.terms[i - 1].powers)) return false;
  }
  return !(kiln_dim_symbols(dim) >> decoder->plan->symbol_count);
}

kiln_status_t kiln_plan_get_dim(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *value, kiln_dim_t *out) {
  *out = kiln_dim_constant(0);
  if (kiln_mpack_get_int(value, &out->constant)) return NULL;
  uint32_t count;
  KILN_TRY(kiln_path_array(at, value, &count));
  kiln_term_t *terms = KILN_NEW_ARRAY(decoder->arena, kiln_term_t, count / 2);
  bool numbers = count % 2 == 0;
  for (uint32_t i = 0; numbers && i < count / 2; i++) {
    numbers = kiln_mpack_get_uint(kiln_mpack_item(value, 2 * i), &terms[i].powers) &&
              kiln_mpack_get_int(kiln_mpack_item(value, 2 * i + 1), &terms[i].coefficient);
  }
  *out = (kiln_dim_t){.terms = terms, .term_count = count / 2};
  return numbers && is_normal(decoder, *out) ? NULL : kiln_path_error(at, "is no dimension");
}

static kiln_status_t get_dims(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                              kiln_dim_t *out) {
  for (uint32_t i = 0; i < kiln_mpack_count(value); i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(kiln_plan_get_dim(decoder, &here, kiln_mpack_item(value, i), &out[i]));
  }
  return NULL;
}

static kiln_status_t get_dtype(const kiln_path_t *at, const kiln_mpack_t *value, kiln_dtype_t *out) {
  const char *name;
  size_t length;
  bool known = kiln_mpack_get_str(value, &name, &length) && kiln_dtype_parse(name, length, out);
  return known ? NULL : kiln_path_error(at, "is no dtype");
}

static kiln_status_t get_tensor(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *value, kiln_plan_tensor_t *out) {
  kiln_path_t dtype_at = kiln_plan_item(at, 0), shape_at = kiln_plan_item(at, 1),
              strides_at = kiln_plan_item(at, 2), align_at = kiln_plan_item(at, 3);
  KILN_TRY(kiln_path_array_of(at, value, 4));
  KILN_TRY(get_dtype(&dtype_at, kiln_mpack_item(value, 0), &out->type.dtype));
  KILN_TRY(kiln_path_array(&shape_at, kiln_mpack_item(value, 1), &out->type.rank));
  if (out->type.rank > KILN_MAX_RANK) return kiln_path_error(&shape_at, "has too many dimensions");
  KILN_TRY(get_dims(decoder, &shape_at, kiln_mpack_item(value, 1), out->type.dims));
  KILN_TRY(kiln_path_array_of(&strides_at, kiln_mpack_item(value, 2), out->type.rank));
  KILN_TRY(get_dims(decoder, &strides_at, kiln_mpack_item(value, 2), out->strides));
  KILN_TRY(kiln_path_u32(&align_at, kiln_mpack_item(value, 3), 1, 4096, &out->align_bytes));
  return out->align_bytes & (out->align_bytes - 1) ? kiln_path_error(&align_at, "is no power of two") : NULL;
}

static kiln_status_t get_tensors(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                 const kiln_mpack_t *list, const kiln_plan_tensor_t **out,
                                 uint32_t *out_count) {
  KILN_TRY(kiln_path_array(at, list, out_count));
  kiln_plan_tensor_t *tensors = KILN_NEW_ARRAY(decoder->arena, kiln_plan_tensor_t, *out_count);
  for (uint32_t i = 0; i < *out_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(get_tensor(decoder, &here, kiln_mpack_item(list, i), &tensors[i]));
  }
  *out = tensors;
  return NULL;
}

/* --- decoding: the rest --------------------------------------------------------------------------------- */

static kiln_status_t get_arena(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                               const kiln_mpack_t *list) {
  kiln_plan_t *plan = decoder->plan;
  KILN_TRY(kiln_path_array(at, list, &plan->slot_count));
  kiln_plan_slot_t *slots = KILN_NEW_ARRAY(decoder->arena, kiln_plan_slot_t, plan->slot_count);
  for (uint32_t i = 0; i < plan->slot_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(kiln_path_array(&here, kiln_mpack_item(list, i), &slots[i].count));
    kiln_dim_t *bytes = KILN_NEW_ARRAY(decoder->arena, kiln_dim_t, slots[i].count);
    KILN_TRY(get_dims(decoder, &here, kiln_mpack_item(list, i), bytes));
    slots[i].bytes = bytes;
  }
  plan->slots = slots;
  return NULL;
}

static kiln_status_t get_temporaries(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                     const kiln_mpack_t *list) {
  kiln_plan_t *plan = decoder->plan;
  KILN_TRY(kiln_path_array(at, list, &plan->temp_count));
  uint32_t *slots = KILN_NEW_ARRAY(decoder->arena, uint32_t, plan->temp_count);
  for (uint32_t i = 0; i < plan->temp_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(kiln_path_u32(&here, kiln_mpack_item(list, i), 0, UINT32_MAX, &slots[i]));
    if (slots[i] >= plan->slot_count) return kiln_path_error(&here, "names a slot that the arena has not");
  }
  plan->temp_slots = slots;
  return NULL;
}

static kiln_status_t get_constants(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                   const kiln_mpack_t *list) {
  kiln_plan_t *plan = decoder->plan;
  KILN_TRY(kiln_path_array(at, list, &plan->constant_count));
  kiln_plan_constant_t *constants =
      KILN_NEW_ARRAY(decoder->arena, kiln_plan_constant_t, plan->constant_count);
  for (uint32_t i = 0; i < plan->constant_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    const void *data;
    size_t size;
    if (!kiln_mpack_get_bin(kiln_mpack_item(list, i), &data, &size))
      return kiln_path_error(&here, "must be binary");
    constants[i] = (kiln_plan_constant_t){kiln_arena_copy(decoder->arena, data, size), size};
  }
  plan->constants = constants;
  return NULL;
}

static kiln_status_t get_constraint(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                    const kiln_mpack_t *value, kiln_constraint_t *out) {
  KILN_TRY(kiln_path_array_of(at, value, 4));
  KILN_TRY(kiln_plan_get_dim(decoder, at, kiln_mpack_item(value, 0), &out->left));
  KILN_TRY(kiln_plan_get_dim(decoder, at, kiln_mpack_item(value, 1), &out->right));
  KILN_TRY(kiln_path_bool(at, kiln_mpack_item(value, 2), &out->equal));
  return kiln_path_str(at, kiln_mpack_item(value, 3), decoder->arena, &out->message);
}

static kiln_status_t get_constraints(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                     const kiln_mpack_t *list) {
  kiln_plan_t *plan = decoder->plan;
  KILN_TRY(kiln_path_array(at, list, &plan->constraint_count));
  kiln_constraint_t *constraints = KILN_NEW_ARRAY(decoder->arena, kiln_constraint_t, plan->constraint_count);
  for (uint32_t i = 0; i < plan->constraint_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(get_constraint(decoder, &here, kiln_mpack_item(list, i), &constraints[i]));
  }
  plan->constraints = constraints;
  return NULL;
}

static kiln_status_t get_guard(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                               kiln_guard_t *out) {
  uint32_t kind = 0;
  KILN_TRY(kiln_path_array_of(at, value, 3));
  KILN_TRY(kiln_path_u32(at, kiln_mpack_item(value, 0), 0, KILN_GUARD_BELOW, &kind));
  out->kind = kind;
  KILN_TRY(kiln_plan_get_dim(decoder, at, kiln_mpack_item(value, 1), &out->dim));
  return kiln_path_int(at, kiln_mpack_item(value, 2), 1, INT64_MAX, &out->bound);
}

static kiln_status_t get_guards(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *list) {
  kiln_plan_t *plan = decoder->plan;
  KILN_TRY(kiln_path_array(at, list, &plan->guard_count));
  kiln_guard_t *guards = KILN_NEW_ARRAY(decoder->arena, kiln_guard_t, plan->guard_count);
  for (uint32_t i = 0; i < plan->guard_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(get_guard(decoder, &here, kiln_mpack_item(list, i), &guards[i]));
  }
  plan->guards = guards;
  return NULL;
}

static kiln_status_t get_inputs(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *list) {
  return get_tensors(decoder, at, list, &decoder->plan->inputs, &decoder->plan->input_count);
}

static kiln_status_t get_outputs(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                 const kiln_mpack_t *list) {
  return get_tensors(decoder, at, list, &decoder->plan->outputs, &decoder->plan->output_count);
}

static kiln_status_t get_format(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *value) {
  (void)decoder;
  return kiln_mpack_is_str(value, format_name) ? NULL : kiln_path_error(at, "must be '%s'", format_name);
}

static kiln_status_t get_symbols(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                 const kiln_mpack_t *value) {
  return kiln_path_u32(at, value, 0, KILN_MAX_SYMBOLS, &decoder->plan->symbol_count);
}

/* --- the whole ------------------------------------------------------------------------------------------ */

/* In this order: what a member refers to stands before it. */
static const struct {
  const char *key;
  kiln_status_t (*get)(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value);
} members[] = {
    {"format", get_format},
    {"symbols", get_symbols},
    {"inputs", get_inputs},
    {"outputs", get_outputs},
    {"arena", get_arena},
    {"temporaries", get_temporaries},
    {"constants", get_constants},
    {"launches", kiln_plan_get_launches},
    {"constraints", get_constraints},
    {"guards", get_guards},
};

/* Are the bytes the very ones that the decoded plan gives? */
static kiln_status_t check_bytes(kiln_arena_t *arena, const kiln_plan_t *plan, const void *bytes,
                                 size_t size) {
  kiln_buffer_t *again = kiln_buffer_in_arena(arena);
  kiln_plan_encode(plan, again);
  if (again->failed) return kiln_error(KILN_OUT_OF_MEMORY, "out of memory while decoding a plan");
  bool same = again->size == size && !memcmp(again->data, bytes, size);
  return same ? NULL : kiln_path_error(&(kiln_path_t){NULL, "plan", 0}, "is not encoded as it should be");
}

kiln_status_t kiln_plan_decode(kiln_arena_t *arena, const void *bytes, size_t size,
                               const kiln_plan_t **out_plan) {
  const kiln_mpack_t *map, *value;
  kiln_path_t at = kiln_plan_step(NULL, "plan");
  kiln_status_t status = kiln_mpack_decode(arena, bytes, size, &map);
  if (kiln_status_code(status) == KILN_PROTOCOL_ERROR) {
    kiln_status_free(status);
    return kiln_path_error(&at, "is no MessagePack");
  }
  if (status) return status;
  kiln_plan_decoder_t decoder = {arena, KILN_NEW(arena, kiln_plan_t)};
  for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
    kiln_path_t here = kiln_plan_step(&at, members[i].key);
    KILN_TRY(kiln_path_need(&at, map, members[i].key, &value));
    KILN_TRY(members[i].get(&decoder, &here, value));
  }
  KILN_TRY(check_bytes(arena, decoder.plan, bytes, size));
  *out_plan = decoder.plan;
  return NULL;
}
