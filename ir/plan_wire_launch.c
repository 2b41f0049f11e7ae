/* ir/plan_wire_launch.c: the launches of a plan as MessagePack: parameters, scratch memory, tables.
 *
 * Of what a launch refers to (buffers, constants, its table) all is checked to be there. Called by
 * plan_wire.c.
 */
#include "ir/plan_wire.h"

#include <string.h>

/* How many items a slot's array has. */
static uint32_t slot_items(kiln_slot_kind_t kind) {
  switch (kind) {
  case KILN_SLOT_PLACE:
    return 4;
  case KILN_SLOT_BUFFER:
    return 3;
  case KILN_SLOT_DIM32:
  case KILN_SLOT_DIM64:
  case KILN_SLOT_CONSTANT:
    return 2;
  default:
    return 1;
  }
}

/* [kind, buffer kind, buffer index], the same with an offset, [kind, dim], [kind, constant] or [kind] */
static void put_slot(kiln_buffer_t *out, const kiln_slot_t *slot) {
  kiln_mpack_array(out, slot_items(slot->kind));
  kiln_mpack_uint(out, slot->kind);
  switch (slot->kind) {
  case KILN_SLOT_BUFFER:
  case KILN_SLOT_PLACE:
    kiln_mpack_uint(out, slot->buffer.kind);
    kiln_mpack_uint(out, slot->buffer.index);
    if (slot->kind == KILN_SLOT_PLACE) kiln_plan_put_dim(out, slot->dim);
    break;
  case KILN_SLOT_DIM32:
  case KILN_SLOT_DIM64:
    kiln_plan_put_dim(out, slot->dim);
    break;
  case KILN_SLOT_CONSTANT:
    kiln_mpack_uint(out, slot->buffer.index);
    break;
  default:
    break;
  }
}

/* [columns, capacity, most blocks, cells, blocks]; []: none */
static void put_table(kiln_buffer_t *out, const kiln_table_t *table) {
  kiln_mpack_array(out, table ? 5 : 0);
  if (!table) return;
  kiln_mpack_uint(out, table->column_count);
  kiln_mpack_uint(out, table->capacity);
  kiln_mpack_uint(out, table->most_blocks);
  kiln_mpack_array(out, (size_t)table->row_count * table->column_count);
  for (size_t i = 0; i < (size_t)table->row_count * table->column_count; i++) put_slot(out, &table->cells[i]);
  kiln_mpack_array(out, 6 * (size_t)table->row_count);
  for (size_t i = 0; i < 3 * (size_t)table->row_count; i++) {
    kiln_plan_put_dim(out, table->blocks[i].dim);
    kiln_mpack_uint(out, table->blocks[i].divisor);
  }
}

void kiln_plan_put_launch(kiln_buffer_t *out, const kiln_launch_t *launch) {
  kiln_mpack_map(out, 9);
  kiln_mpack_str(out, "kernel");
  kiln_mpack_bin(out, launch->kernel.bytes, sizeof launch->kernel.bytes);
  kiln_mpack_str(out, "entry");
  kiln_mpack_str(out, launch->entry);
  kiln_mpack_str(out, "grid");
  kiln_mpack_array(out, 6);
  for (int i = 0; i < 3; i++) {
    kiln_plan_put_dim(out, launch->grid[i].dim);
    kiln_mpack_uint(out, launch->grid[i].divisor);
  }
  kiln_mpack_str(out, "block");
  kiln_mpack_array(out, 3);
  for (int i = 0; i < 3; i++) kiln_mpack_uint(out, launch->block[i]);
  kiln_mpack_str(out, "shared");
  kiln_mpack_uint(out, launch->shared_bytes);
  kiln_mpack_str(out, "workspace");
  kiln_plan_put_dim(out, launch->scratch.workspace_bytes);
  kiln_mpack_str(out, "counters");
  kiln_plan_put_dim(out, launch->scratch.counters);
  kiln_mpack_str(out, "slots");
  kiln_mpack_array(out, launch->slot_count);
  for (uint32_t i = 0; i < launch->slot_count; i++) put_slot(out, &launch->slots[i]);
  kiln_mpack_str(out, "table");
  put_table(out, launch->table);
}

/* --- decoding: launches --------------------------------------------------------------------------------- */

static kiln_status_t get_buffer(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                const kiln_mpack_t *value, kiln_buffer_ref_t *out) {
  const kiln_plan_t *plan = decoder->plan;
  const uint32_t counts[] = {
      [KILN_BUFFER_INPUT] = plan->input_count,
      [KILN_BUFFER_OUTPUT] = plan->output_count,
      [KILN_BUFFER_TEMP] = plan->temp_count,
  };
  uint32_t kind = 0;
  KILN_TRY(kiln_path_u32(at, kiln_mpack_item(value, 1), 0, KILN_BUFFER_TEMP, &kind));
  KILN_TRY(kiln_path_u32(at, kiln_mpack_item(value, 2), 0, UINT32_MAX, &out->index));
  out->kind = kind;
  return out->index < counts[kind] ? NULL : kiln_path_error(at, "names a buffer that the plan has not");
}

static kiln_status_t get_constant_slot(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                       const kiln_mpack_t *value, kiln_slot_t *out) {
  KILN_TRY(kiln_path_u32(at, kiln_mpack_item(value, 1), 0, UINT32_MAX, &out->buffer.index));
  bool exists = out->buffer.index < decoder->plan->constant_count;
  return exists ? NULL : kiln_path_error(at, "names a constant that the plan has not");
}

static kiln_status_t check_need(const kiln_path_t *at, kiln_dim_t need, const char *what) {
  return kiln_dim_is(need, 0) ? kiln_path_error(at, "names %s that the launch does not ask for", what) : NULL;
}

/* What kinds a slot may have: of a cell, or of a parameter of this launch. */
static bool is_allowed(const kiln_launch_t *launch, kiln_slot_kind_t kind) {
  const kiln_table_t *table = launch->table;
  bool is_cell_only = kind == KILN_SLOT_PLACE;
  if (kind < KILN_SLOT_PLACE) return true;
  return !is_cell_only && table && (kind == KILN_SLOT_TABLE) == (table->capacity > 0);
}

static bool is_cell(kiln_slot_kind_t kind) {
  return kind == KILN_SLOT_PLACE || kind == KILN_SLOT_CONSTANT || kind == KILN_SLOT_DIM32 ||
         kind == KILN_SLOT_DIM64;
}

/* launch: whose parameter it is; NULL for a cell. */
static kiln_status_t get_slot(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                              const kiln_launch_t *launch, kiln_slot_t *out) {
  uint32_t count, kind = 0;
  KILN_TRY(kiln_path_array(at, value, &count));
  if (!count) return kiln_path_error(at, "is no slot");
  KILN_TRY(kiln_path_u32(at, kiln_mpack_item(value, 0), 0, KILN_SLOT_TABLE_COUNT, &kind));
  out->kind = kind;
  out->dim = kiln_dim_constant(0);
  KILN_TRY(kiln_path_array_of(at, value, slot_items(out->kind)));
  if (launch ? !is_allowed(launch, out->kind) : !is_cell(out->kind))
    return kiln_path_error(at, "is of a kind that has no meaning here");
  switch (out->kind) {
  case KILN_SLOT_PLACE:
    KILN_TRY(get_buffer(decoder, at, value, &out->buffer));
    return kiln_plan_get_dim(decoder, at, kiln_mpack_item(value, 3), &out->dim);
  case KILN_SLOT_BUFFER:
    return get_buffer(decoder, at, value, &out->buffer);
  case KILN_SLOT_DIM32:
  case KILN_SLOT_DIM64:
    return kiln_plan_get_dim(decoder, at, kiln_mpack_item(value, 1), &out->dim);
  case KILN_SLOT_CONSTANT:
    return get_constant_slot(decoder, at, value, out);
  case KILN_SLOT_WORKSPACE:
    return check_need(at, launch->scratch.workspace_bytes, "a workspace");
  case KILN_SLOT_COUNTERS:
    return check_need(at, launch->scratch.counters, "counters");
  default: /* the table's */
    return NULL;
  }
}

/* Columns have one kind each, those of 8 bytes first. */
static kiln_status_t check_columns(const kiln_path_t *at, const kiln_table_t *table) {
  for (uint32_t row = 0; row < table->row_count; row++) {
    const kiln_slot_t *cells = &table->cells[(size_t)row * table->column_count];
    for (uint32_t k = 0; k < table->column_count; k++) {
      if (cells[k].kind != table->cells[k].kind) return kiln_path_error(at, "has columns of several kinds");
      if (k && kiln_cell_bytes(cells[k].kind) > kiln_cell_bytes(cells[k - 1].kind))
        return kiln_path_error(at, "has a wide column behind a narrow one");
    }
  }
  return NULL;
}

static kiln_status_t get_cells(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *list,
                               kiln_table_t *table) {
  uint32_t count;
  KILN_TRY(kiln_path_array(at, list, &count));
  kiln_slot_t *cells = KILN_NEW_ARRAY(decoder->arena, kiln_slot_t, count);
  table->row_count = count / table->column_count;
  table->cells = cells;
  if (count % table->column_count) return kiln_path_error(at, "has no whole rows");
  if (table->capacity && table->row_count > table->capacity)
    return kiln_path_error(at, "has more rows than its capacity");
  for (uint32_t i = 0; i < count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(get_slot(decoder, &here, kiln_mpack_item(list, i), NULL, &cells[i]));
  }
  return check_columns(at, table);
}

static kiln_status_t get_blocks(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *list,
                                kiln_table_t *table) {
  uint32_t count;
  KILN_TRY(kiln_path_array(at, list, &count));
  if (count != 6 * (uint64_t)table->row_count)
    return kiln_path_error(at, "must have three extents for each row");
  kiln_extent_t *blocks = KILN_NEW_ARRAY(decoder->arena, kiln_extent_t, count / 2);
  for (uint32_t i = 0; i < count / 2; i++) {
    KILN_TRY(kiln_plan_get_dim(decoder, at, kiln_mpack_item(list, 2 * i), &blocks[i].dim));
    KILN_TRY(kiln_path_u32(at, kiln_mpack_item(list, 2 * i + 1), 1, UINT32_MAX, &blocks[i].divisor));
  }
  table->blocks = blocks;
  return NULL;
}

static kiln_status_t get_table(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *value,
                               const kiln_table_t **out) {
  enum { MOST_COLUMNS = 1024, MOST_CAPACITY = 512 };
  *out = NULL;
  uint32_t count;
  KILN_TRY(kiln_path_array(at, value, &count));
  if (!count) return NULL;
  kiln_table_t *table = KILN_NEW(decoder->arena, kiln_table_t);
  kiln_path_t columns_at = kiln_plan_item(at, 0), capacity_at = kiln_plan_item(at, 1),
              most_at = kiln_plan_item(at, 2);
  kiln_path_t cells_at = kiln_plan_item(at, 3), blocks_at = kiln_plan_item(at, 4);
  KILN_TRY(kiln_path_array_of(at, value, 5));
  KILN_TRY(kiln_path_u32(&columns_at, kiln_mpack_item(value, 0), 1, MOST_COLUMNS, &table->column_count));
  KILN_TRY(kiln_path_u32(&capacity_at, kiln_mpack_item(value, 1), 0, MOST_CAPACITY, &table->capacity));
  KILN_TRY(kiln_path_u32(&most_at, kiln_mpack_item(value, 2), 0, INT32_MAX, &table->most_blocks));
  KILN_TRY(get_cells(decoder, &cells_at, kiln_mpack_item(value, 3), table));
  KILN_TRY(get_blocks(decoder, &blocks_at, kiln_mpack_item(value, 4), table));
  *out = table;
  return table->row_count ? NULL : kiln_path_error(at, "has no row");
}

static kiln_status_t get_slots(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *list,
                               kiln_launch_t *out) {
  KILN_TRY(kiln_path_array(at, list, &out->slot_count));
  kiln_slot_t *slots = KILN_NEW_ARRAY(decoder->arena, kiln_slot_t, out->slot_count);
  for (uint32_t i = 0; i < out->slot_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(get_slot(decoder, &here, kiln_mpack_item(list, i), out, &slots[i]));
  }
  out->slots = slots;
  return NULL;
}

static kiln_status_t get_kernel(const kiln_path_t *at, const kiln_mpack_t *value, kiln_digest_t *out) {
  const void *bytes;
  size_t size;
  if (!kiln_mpack_get_bin(value, &bytes, &size) || size != sizeof out->bytes)
    return kiln_path_error(at, "is no key");
  memcpy(out->bytes, bytes, size);
  return NULL;
}

static kiln_status_t get_shape_of_launch(kiln_plan_decoder_t *decoder, const kiln_path_t *grid_at,
                                         const kiln_mpack_t *grid, const kiln_path_t *block_at,
                                         const kiln_mpack_t *block, kiln_launch_t *out) {
  KILN_TRY(kiln_path_array_of(grid_at, grid, 6));
  KILN_TRY(kiln_path_array_of(block_at, block, 3));
  for (size_t i = 0; i < 3; i++) {
    KILN_TRY(kiln_plan_get_dim(decoder, grid_at, kiln_mpack_item(grid, 2 * i), &out->grid[i].dim));
    KILN_TRY(kiln_path_u32(grid_at, kiln_mpack_item(grid, 2 * i + 1), 1, UINT32_MAX, &out->grid[i].divisor));
    KILN_TRY(kiln_path_u32(block_at, kiln_mpack_item(block, i), 1, 1024, &out->block[i]));
  }
  return NULL;
}

static kiln_status_t get_launch(kiln_plan_decoder_t *decoder, const kiln_path_t *at, const kiln_mpack_t *map,
                                kiln_launch_t *out) {
  static const char *const keys[] = {"kernel", "entry",     "grid",     "block", "shared",
                                     "slots",  "workspace", "counters", "table", NULL};
  kiln_path_t kernel_at = kiln_plan_step(at, "kernel"), entry_at = kiln_plan_step(at, "entry"),
              grid_at = kiln_plan_step(at, "grid");
  kiln_path_t block_at = kiln_plan_step(at, "block"), shared_at = kiln_plan_step(at, "shared"),
              slots_at = kiln_plan_step(at, "slots");
  kiln_path_t workspace_at = kiln_plan_step(at, "workspace"), counters_at = kiln_plan_step(at, "counters");
  kiln_path_t table_at = kiln_plan_step(at, "table");
  const kiln_mpack_t *values[9];
  KILN_TRY(kiln_path_map(at, map, keys));
  for (int i = 0; i < 9; i++) KILN_TRY(kiln_path_need(at, map, keys[i], &values[i]));
  KILN_TRY(get_kernel(&kernel_at, values[0], &out->kernel));
  KILN_TRY(kiln_path_str(&entry_at, values[1], decoder->arena, &out->entry));
  KILN_TRY(get_shape_of_launch(decoder, &grid_at, values[2], &block_at, values[3], out));
  KILN_TRY(kiln_path_u32(&shared_at, values[4], 0, UINT32_MAX, &out->shared_bytes));
  KILN_TRY(kiln_plan_get_dim(decoder, &workspace_at, values[6], &out->scratch.workspace_bytes));
  KILN_TRY(kiln_plan_get_dim(decoder, &counters_at, values[7], &out->scratch.counters));
  KILN_TRY(get_table(decoder, &table_at, values[8], &out->table));
  return get_slots(decoder, &slots_at, values[5], out);
}

kiln_status_t kiln_plan_get_launches(kiln_plan_decoder_t *decoder, const kiln_path_t *at,
                                     const kiln_mpack_t *list) {
  kiln_plan_t *plan = decoder->plan;
  KILN_TRY(kiln_path_array(at, list, &plan->launch_count));
  kiln_launch_t *launches = KILN_NEW_ARRAY(decoder->arena, kiln_launch_t, plan->launch_count);
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    kiln_path_t here = kiln_plan_item(at, i);
    KILN_TRY(get_launch(decoder, &here, kiln_mpack_item(list, i), &launches[i]));
  }
  plan->launches = launches;
  return NULL;
}
