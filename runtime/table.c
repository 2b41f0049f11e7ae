/* runtime/table.c: the tables of grouped kernels: what each member of a launch has for itself.
 *
 * A table is laid out once, when a plan is loaded; dimensions, prefixes and the grid are written when symbols
 * change (prepare.c), addresses when buffers move (memory.c), always for the launch at hand. A table that is
 * a parameter is copied by the driver as it launches. Tables in device memory share one allocation and one
 * pinned copy on the host, which is uploaded on the stream before the first launch when something in it
 * changed: no copy stands between launches. Layout: ir/plan.h.
 */
#include "runtime/device_state.h"

#include <limits.h>
#include <string.h>

static const kiln_table_t *table_of(const kiln_executable_t *executable, uint32_t launch) {
  return executable->plan->launches[launch].table;
}

/* --- loading ----------------------------------------------------------------------------------- */

static uint64_t bytes_in_memory(const kiln_table_t *table) {
  uint64_t rows = (uint64_t)table->row_count * kiln_table_row_bytes(table);
  uint64_t bytes = rows + ((uint64_t)table->row_count + 1) * sizeof(uint32_t);
  return (bytes + KILN_PLACE_ALIGN_BYTES - 1) / KILN_PLACE_ALIGN_BYTES * KILN_PLACE_ALIGN_BYTES;
}

/* The rows of both forms, and their prefixes. */
static void lay_out(const kiln_table_t *table, uint8_t *bytes, kiln_prepared_table_t *out) {
  out->bytes = bytes;
  out->rows = table->capacity ? bytes + kiln_table_rows_at(table->capacity) : bytes;
  out->first = table->capacity
                   ? (uint32_t *)bytes + 1
                   : (uint32_t *)(bytes + (uint64_t)table->row_count * kiln_table_row_bytes(table));
  if (table->capacity) *(uint32_t *)bytes = table->row_count;
}

static kiln_status_t allocate(kiln_device_t *device, kiln_executable_t *executable) {
  for (uint32_t i = 0; i < executable->plan->launch_count; i++) {
    const kiln_table_t *table = table_of(executable, i);
    if (table && !table->capacity) executable->table_bytes += bytes_in_memory(table);
  }
  if (!executable->table_bytes) return NULL;
  KILN_CUDA_TRY(&device->cuda, cuMemAlloc_v2, &executable->tables, executable->table_bytes);
  KILN_CUDA_TRY(&device->cuda, cuMemHostAlloc, &executable->table_staging, executable->table_bytes, 0);
  memset(executable->table_staging, 0, executable->table_bytes);
  return NULL;
}

/* Parameters that name the table: its bytes, or where it lies. */
static void set_parameters(const kiln_launch_t *launch, CUdeviceptr address, kiln_prepared_launch_t *out) {
  const kiln_table_t *table = launch->table;
  for (uint32_t k = 0; k < launch->slot_count; k++) {
    switch (launch->slots[k].kind) {
    case KILN_SLOT_TABLE:
      out->params[k] = out->table.bytes;
      break;
    case KILN_SLOT_TABLE_ROWS:
      out->values[k] = address;
      break;
    case KILN_SLOT_TABLE_FIRST:
      out->values[k] = address + (uint64_t)table->row_count * kiln_table_row_bytes(table);
      break;
    case KILN_SLOT_TABLE_COUNT:
      out->values[k] = table->row_count;
      break;
    default:
      break;
    }
  }
}

static void set_constants(const kiln_executable_t *executable, const kiln_table_t *table,
                          const kiln_prepared_table_t *prepared) {
  uint8_t *at = prepared->rows;
  for (uint32_t row = 0; row < table->row_count; row++, at += kiln_table_row_bytes(table)) {
    uint32_t place = 0;
    for (uint32_t k = 0; k < table->column_count; k++) {
      const kiln_slot_t *cell = &table->cells[row * table->column_count + k];
      uint64_t address = executable->constants;
      if (cell->kind == KILN_SLOT_CONSTANT) {
        address += executable->constant_offsets[cell->buffer.index];
        memcpy(at + place, &address, sizeof address);
      }
      place += kiln_cell_bytes(cell->kind);
    }
  }
}

kiln_status_t kiln_tables_create(kiln_device_t *device, kiln_executable_t *executable) {
  KILN_TRY(allocate(device, executable));
  uint64_t offset = 0;
  for (uint32_t i = 0; i < executable->plan->launch_count; i++) {
    const kiln_table_t *table = table_of(executable, i);
    kiln_prepared_table_t *prepared = &executable->launches[i].table;
    if (!table) continue;
    uint8_t *bytes = table->capacity
                         ? KILN_NEW_ARRAY(&executable->arena, uint8_t, kiln_table_value_bytes(table))
                         : (uint8_t *)executable->table_staging + offset;
    lay_out(table, bytes, prepared);
    prepared->offsets =
        KILN_NEW_ARRAY(&executable->arena, uint64_t, (size_t)table->row_count * table->column_count);
    set_parameters(&executable->plan->launches[i], executable->tables + offset, &executable->launches[i]);
    set_constants(executable, table, prepared);
    if (!table->capacity) offset += bytes_in_memory(table);
  }
  return NULL;
}

void kiln_tables_free(kiln_device_t *device, kiln_executable_t *executable) {
  if (executable->tables) device->cuda.cuMemFree_v2(executable->tables);
  if (executable->table_staging) device->cuda.cuMemFreeHost(executable->table_staging);
}

/* --- for these symbols ------------------------------------------------------------------------- */

static kiln_status_t too_large(const kiln_launch_t *launch, const char *what) {
  return kiln_error(KILN_TOO_LARGE, "%s of kernel %s", what, launch->entry);
}

static kiln_status_t prepare_row(const kiln_launch_t *launch, uint32_t row, const int64_t *symbols,
                                 const kiln_prepared_table_t *out) {
  const kiln_table_t *table = launch->table;
  uint8_t *at = out->rows + (uint64_t)row * kiln_table_row_bytes(table);
  for (uint32_t k = 0; k < table->column_count; k++) {
    size_t number = (size_t)row * table->column_count + k;
    const kiln_slot_t *cell = &table->cells[number];
    uint32_t bytes = kiln_cell_bytes(cell->kind);
    int64_t value = 0;
    if (cell->kind != KILN_SLOT_CONSTANT && !kiln_dim_eval(cell->dim, symbols, &value))
      return too_large(launch, "a dimension leaves 64 bits in the table");
    if (cell->kind == KILN_SLOT_DIM32 && (value < INT32_MIN || value > INT32_MAX))
      return kiln_guard_broken("a dimension leaves 32 bits");
    if (cell->kind == KILN_SLOT_PLACE) out->offsets[number] = (uint64_t)value;
    if (bytes == 4 || cell->kind == KILN_SLOT_DIM64) memcpy(at, &value, bytes); /* little-endian hosts */
    at += bytes;
  }
  return NULL;
}

static kiln_status_t count_blocks(const kiln_launch_t *launch, uint32_t row, const int64_t *symbols,
                                  int64_t *out) {
  const kiln_extent_t *extents = &launch->table->blocks[3 * (size_t)row];
  *out = 1;
  for (int axis = 0; axis < 3; axis++) {
    int64_t extent, divisor = extents[axis].divisor;
    if (!kiln_dim_eval(extents[axis].dim, symbols, &extent) || extent < 0 ||
        __builtin_mul_overflow(*out, extent / divisor + (extent % divisor != 0), out))
      return too_large(launch, "the blocks of a member");
  }
  return NULL;
}

kiln_status_t kiln_table_prepare(const kiln_device_t *device, kiln_executable_t *executable, uint32_t index,
                                 const int64_t *symbols) {
  const kiln_launch_t *launch = &executable->plan->launches[index];
  kiln_prepared_launch_t *out = &executable->launches[index];
  int64_t total = 0, blocks, most = device->max_grid[0] < INT32_MAX ? device->max_grid[0] : INT32_MAX;
  for (uint32_t row = 0; row < launch->table->row_count; row++) {
    KILN_TRY(prepare_row(launch, row, symbols, &out->table));
    KILN_TRY(count_blocks(launch, row, symbols, &blocks));
    out->table.first[row] = (uint32_t)total;
    if (blocks > most - total) return too_large(launch, "the blocks of all members");
    total += blocks;
  }
  out->table.first[launch->table->row_count] = (uint32_t)total;
  bool is_limited = launch->table->most_blocks && total > launch->table->most_blocks;
  out->grid[0] = is_limited ? launch->table->most_blocks : (uint32_t)total;
  out->skip = !total;
  executable->tables_changed = true;
  return NULL;
}

/* --- for these buffers ------------------------------------------------------------------------- */

static void bind(const kiln_executable_t *executable, const kiln_table_t *table,
                 const kiln_prepared_table_t *prepared) {
  for (uint32_t row = 0; row < table->row_count; row++) {
    uint8_t *at = prepared->rows + (uint64_t)row * kiln_table_row_bytes(table);
    for (uint32_t k = 0; k < table->column_count; k++) {
      size_t number = (size_t)row * table->column_count + k;
      const kiln_slot_t *cell = &table->cells[number];
      if (cell->kind == KILN_SLOT_PLACE) {
        uint64_t address = executable->places[kiln_place_index(executable->plan, cell->buffer)].address +
                           prepared->offsets[number];
        memcpy(at, &address, sizeof address);
      }
      at += kiln_cell_bytes(cell->kind);
    }
  }
}

void kiln_tables_bind(kiln_executable_t *executable) {
  for (uint32_t i = 0; i < executable->plan->launch_count; i++) {
    if (table_of(executable, i)) bind(executable, table_of(executable, i), &executable->launches[i].table);
  }
  executable->tables_changed = true;
}

kiln_status_t kiln_tables_upload(const kiln_device_t *device, kiln_executable_t *executable) {
  if (!executable->table_bytes || !executable->tables_changed) return NULL;
  KILN_CUDA_TRY(&device->cuda, cuMemcpyHtoDAsync_v2, executable->tables, executable->table_staging,
                executable->table_bytes, device->stream);
  executable->tables_changed = false;
  return NULL;
}
