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
