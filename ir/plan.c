/* ir/plan.c: questions about plans. */
#include "ir/plan.h"

bool kiln_plan_guards_hold(const kiln_plan_t *plan, const int64_t *symbols) {
  for (uint32_t i = 0; i < plan->guard_count; i++) {
    const kiln_guard_t *guard = &plan->guards[i];
    int64_t value;
    if (!kiln_dim_eval(guard->dim, symbols, &value)) return false;
    if (guard->kind == KILN_GUARD_MULTIPLE ? value % guard->bound != 0 : value >= guard->bound) return false;
  }
  return true;
}

/* --- tables -------------------------------------------------------------------------------------------- */

static uint32_t aligned(uint32_t bytes) { return (bytes + 7) / 8 * 8; }

uint32_t kiln_cell_bytes(kiln_slot_kind_t kind) { return kind == KILN_SLOT_DIM32 ? 4 : 8; }

uint32_t kiln_table_row_bytes(const kiln_table_t *table) {
  uint32_t bytes = 0;
  for (uint32_t i = 0; i < table->column_count; i++) bytes += kiln_cell_bytes(table->cells[i].kind);
  return aligned(bytes);
}

uint32_t kiln_table_rows_at(uint32_t capacity) {
  return aligned((capacity + 2) * (uint32_t)sizeof(uint32_t));
}

uint32_t kiln_table_value_bytes(const kiln_table_t *table) {
  return kiln_table_rows_at(table->capacity) + table->capacity * kiln_table_row_bytes(table);
}
