/* runtime/prepare.c: a plan for given symbols: sizes and offsets of buffers, grids, parameters that are
 * dimensions.
 *
 * The first step of an execution (execute.c). It is the work that depends on the symbols alone, so its result
 * is kept in the executable, and an execution with the same symbols as the last finds it done. Every check of
 * what a client chose by choosing symbols is here; the other steps compute with numbers that are known to
 * fit.
 */
#include "runtime/device_state.h"

#include <limits.h>
#include <string.h>

static const uint64_t max_buffer_bytes = INT64_MAX / 4;

/* --- buffers ----------------------------------------------------------------------------------- */

typedef struct {
  int64_t sizes[KILN_MAX_RANK];
  int64_t strides[KILN_MAX_RANK];
  int64_t storage_elements;
} layout_t;

static kiln_status_t evaluate_layout(const kiln_plan_tensor_t *tensor, const int64_t *symbols,
                                     layout_t *out) {
  KILN_TRY(kiln_type_sizes(&tensor->type, symbols, out->sizes));
  for (uint32_t axis = 0; axis < tensor->type.rank; axis++) {
    if (!kiln_dim_eval(tensor->strides[axis], symbols, &out->strides[axis]) || out->strides[axis] < 0) {
      return kiln_error(KILN_INVALID_ARGUMENT, "the stride of dimension %u is negative or leaves 64 bits",
                        axis);
    }
  }
  out->storage_elements = kiln_storage_elements(tensor->type.rank, out->sizes, out->strides);
  return NULL;
}

static kiln_status_t storage_bytes(const kiln_plan_tensor_t *tensor, const layout_t *layout,
                                   uint64_t *out_bytes) {
  uint64_t bytes;
  bool fits = !__builtin_mul_overflow((uint64_t)layout->storage_elements,
                                      kiln_dtype_bytes(tensor->type.dtype), &bytes);
  if (!fits || bytes > max_buffer_bytes)
    return kiln_error(KILN_TOO_LARGE, "a tensor's storage leaves 61 bits");
  *out_bytes = bytes;
  return NULL;
}

kiln_status_t kiln_plan_tensor_bytes(const kiln_plan_tensor_t *tensor, const int64_t *symbols,
                                     uint64_t *out_bytes) {
  layout_t layout;
  KILN_TRY(evaluate_layout(tensor, symbols, &layout));
  return storage_bytes(tensor, &layout, out_bytes);
}

/* Elements of an output do not overlap, so its storage has gaps exactly when it has more elements than the
 * tensor. */
static bool has_gaps(const kiln_plan_tensor_t *tensor, const layout_t *layout) {
  int64_t elements = 1;
  for (uint32_t axis = 0; axis < tensor->type.rank; axis++) {
    if (__builtin_mul_overflow(elements, layout->sizes[axis], &elements)) return false;
  }
  return layout->storage_elements > elements;
}

static kiln_status_t place_tensor(const kiln_plan_tensor_t *tensor, const int64_t *symbols, bool is_output,
                                  kiln_place_t *out) {
  layout_t layout;
  uint64_t bytes;
  KILN_TRY(evaluate_layout(tensor, symbols, &layout));
  KILN_TRY(storage_bytes(tensor, &layout, &bytes));
  uint64_t align =
      tensor->align_bytes > KILN_PLACE_ALIGN_BYTES ? tensor->align_bytes : KILN_PLACE_ALIGN_BYTES;
  *out = (kiln_place_t){
      .bytes = bytes, .align_bytes = align, .has_gaps = is_output && has_gaps(tensor, &layout)};
  if (tensor->align_bytes < KILN_PLACE_ALIGN_BYTES) out->declared_align_bytes = tensor->align_bytes;
  return NULL;
}

static kiln_status_t place_slot(const kiln_plan_slot_t *slot, const int64_t *symbols, kiln_place_t *out) {
  *out = (kiln_place_t){.align_bytes = KILN_PLACE_ALIGN_BYTES};
  for (uint32_t i = 0; i < slot->count; i++) {
    int64_t bytes;
    if (!kiln_dim_eval(slot->bytes[i], symbols, &bytes) || bytes < 0 || (uint64_t)bytes > max_buffer_bytes) {
      return kiln_error(KILN_TOO_LARGE, "a temporary's size is negative or leaves 61 bits");
    }
    if ((uint64_t)bytes > out->bytes) out->bytes = (uint64_t)bytes;
  }
  return NULL;
}

/* The launches come one after the other, so the largest need is what the plan needs. */
static kiln_status_t size_scratch(kiln_executable_t *executable, const int64_t *symbols, kiln_place_t *out) {
  const kiln_plan_t *plan = executable->plan;
  *out = (kiln_place_t){.align_bytes = KILN_PLACE_ALIGN_BYTES};
  executable->counter_bytes = 0;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const kiln_scratch_t *scratch = &plan->launches[i].scratch;
    int64_t bytes, counters;
    if (!kiln_dim_eval(scratch->workspace_bytes, symbols, &bytes) || bytes < 0 ||
        (uint64_t)bytes > max_buffer_bytes || !kiln_dim_eval(scratch->counters, symbols, &counters) ||
        counters < 0 || (uint64_t)counters > max_buffer_bytes / sizeof(uint32_t)) {
      return kiln_error(KILN_TOO_LARGE, "the workspace of kernel %s is negative or leaves 61 bits",
                        plan->launches[i].entry);
    }
    if ((uint64_t)bytes > out->bytes) out->bytes = (uint64_t)bytes;
    uint64_t counter_bytes = (uint64_t)counters * sizeof(uint32_t);
    if (counter_bytes > executable->counter_bytes) executable->counter_bytes = counter_bytes;
  }
  return NULL;
}

static kiln_status_t place_all(kiln_executable_t *executable, const int64_t *symbols) {
  const kiln_plan_t *plan = executable->plan;
  kiln_place_t *place = executable->places;
  for (uint32_t i = 0; i < plan->input_count; i++) {
    kiln_status_t status = place_tensor(&plan->inputs[i], symbols, false, place++);
    if (status) return kiln_error_note(status, "sizing input %u", i);
  }
  for (uint32_t i = 0; i < plan->output_count; i++) {
    kiln_status_t status = place_tensor(&plan->outputs[i], symbols, true, place++);
    if (status) return kiln_error_note(status, "sizing output %u", i);
  }
  for (uint32_t i = 0; i < plan->slot_count; i++) KILN_TRY(place_slot(&plan->slots[i], symbols, place++));
  return size_scratch(executable, symbols, place);
}

/* One after the other, each aligned relative to the first byte, which is aligned to the largest alignment. */
static kiln_status_t lay_out_pool(kiln_executable_t *executable) {
  uint64_t end = 0, largest = KILN_PLACE_ALIGN_BYTES;
  for (uint32_t i = 0; i < executable->place_count; i++) {
    kiln_place_t *place = &executable->places[i];
    if (place->align_bytes > largest) largest = place->align_bytes;
    place->offset = (end + place->align_bytes - 1) / place->align_bytes * place->align_bytes;
    end = place->offset + place->bytes;
    if (end > max_buffer_bytes) return kiln_error(KILN_TOO_LARGE, "the buffers together leave 61 bits");
  }
  executable->pool_align = largest;
  executable->pool_bytes = end + largest - KILN_PLACE_ALIGN_BYTES;
  executable->bound_base = 0;
  return NULL;
}

/* --- launches ---------------------------------------------------------------------------------- */

static kiln_status_t prepare_grid(const kiln_device_t *device, const kiln_launch_t *launch,
                                  const int64_t *symbols, kiln_prepared_launch_t *out) {
  out->skip = false;
  for (int axis = 0; axis < 3; axis++) {
    int64_t extent, divisor = launch->grid[axis].divisor;
    if (!kiln_dim_eval(launch->grid[axis].dim, symbols, &extent) || extent < 0) {
      return kiln_error(KILN_INVALID_ARGUMENT, "grid axis %d of kernel %s is negative or leaves 64 bits",
                        axis, launch->entry);
    }
    int64_t blocks = extent / divisor + (extent % divisor != 0);
    if (blocks > device->max_grid[axis]) {
      return kiln_error(KILN_TOO_LARGE, "kernel %s needs %lld blocks along axis %d, the device takes %u",
                        launch->entry, (long long)blocks, axis, device->max_grid[axis]);
    }
    out->grid[axis] = (uint32_t)blocks;
    if (!blocks) out->skip = true;
  }
  return NULL;
}

kiln_status_t kiln_guard_broken(const char *what) {
  kiln_status_t status =
      kiln_error(KILN_INVALID_ARGUMENT, "the plan was not made for these symbols: %s", what);
  return kiln_error_detail(status, "rule", "guard");
}

static kiln_status_t prepare_parameters(const kiln_launch_t *launch, const int64_t *symbols,
                                        kiln_prepared_launch_t *out) {
  for (uint32_t k = 0; k < launch->slot_count; k++) {
    const kiln_slot_t *slot = &launch->slots[k];
    if (slot->kind != KILN_SLOT_DIM32 && slot->kind != KILN_SLOT_DIM64) continue;
    int64_t value;
    if (!kiln_dim_eval(slot->dim, symbols, &value)) {
      return kiln_error(KILN_INVALID_ARGUMENT, "parameter %u of kernel %s leaves 64 bits", k, launch->entry);
    }
    if (slot->kind == KILN_SLOT_DIM32 && (value < INT32_MIN || value > INT32_MAX)) {
      return kiln_guard_broken("a dimension leaves 32 bits");
    }
    out->values[k] =
        (uint64_t)value; /* the driver reads the low 4 or all 8 bytes: little-endian hosts only */
  }
  return NULL;
}

/* --- all of it --------------------------------------------------------------------------------- */

kiln_status_t kiln_executable_prepare(const kiln_device_t *device, kiln_executable_t *executable,
                                      const int64_t *symbols) {
  const kiln_plan_t *plan = executable->plan;
  const size_t symbols_bytes = plan->symbol_count * sizeof *symbols;
  if (executable->prepared && (!symbols_bytes || !memcmp(symbols, executable->symbols, symbols_bytes)))
    return NULL;
  executable->prepared = false;
  kiln_constraints_t constraints = {(kiln_constraint_t *)plan->constraints, plan->constraint_count,
                                    plan->constraint_count};
  KILN_TRY(kiln_constraints_check(&constraints, symbols));
  if (!kiln_plan_guards_hold(plan, symbols)) return kiln_guard_broken("a guard does not hold");
  KILN_TRY(place_all(executable, symbols));
  KILN_TRY(lay_out_pool(executable));
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    KILN_TRY(prepare_grid(device, &plan->launches[i], symbols, &executable->launches[i]));
    KILN_TRY(prepare_parameters(&plan->launches[i], symbols, &executable->launches[i]));
    if (plan->launches[i].table) KILN_TRY(kiln_table_prepare(device, executable, i, symbols));
  }
  if (symbols_bytes) memcpy(executable->symbols, symbols, symbols_bytes);
  executable->prepared = true;
  return NULL;
}
