/* tests/support/goals.h: graphs and what their kernels may move at most, counted on the emulated device.
 *
 * All goals of a list are compiled as one batch and run with all checkers on. Bounds are factors of the
 * fewest that the tensors' sizes allow: every byte of inputs and outputs once, 32 bytes a sector.
 * KILN_PRINT_COUNTS in the environment prints what was counted for each.
 */
#ifndef KILN_TESTS_SUPPORT_GOALS_H
#define KILN_TESTS_SUPPORT_GOALS_H

#include "tests/support/batch.h"

typedef struct {
  const char *text;
  double bytes, sectors; /* moved, and requested */
  double wavefronts; /* of shared memory, of those that take every input byte in and out, 128 each; 0: none */
  double wide;       /* at least this part of the global accesses has 16 bytes */
} kiln_goal_t;

typedef struct {
  const char *arch;
  const kiln_symbol_class_t *symbol_class; /* NULL: any sizes */
  int64_t symbols[KILN_MAX_SYMBOLS];
  const kiln_pass_run_t *passes; /* NULL: the default ones */
  bool counts_only;              /* values are another test's */
} kiln_goal_run_t;

/* Fails with the first goal that is missed. */
void kiln_goals_check(const kiln_goal_t *goals, uint32_t count, const kiln_goal_run_t *run);

#endif
