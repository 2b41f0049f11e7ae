/* base/fault.h: named places where a test makes something fail, hang or die.
 *
 * One table (base/faults.def) lists them all. They are armed by KILN_FAULTS="name[:count[:argument]],..." in
 * the environment of a daemon started with --test-hooks and cost one branch otherwise.
 */
#ifndef KILN_BASE_FAULT_H
#define KILN_BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
#define KILN_FAULT(name, what) KILN_FAULT_##name,
#include "base/faults.def"
#undef KILN_FAULT
  KILN_FAULT_COUNT
} kiln_fault_point_t;

typedef struct {
  struct {
    int64_t remaining; /* how often it still fires; 0: off; negative: for ever */
    int64_t argument;
  } points[KILN_FAULT_COUNT];
} kiln_faults_t;

/* Reads a specification (NULL or "": nothing armed). False when a name is unknown. */
bool kiln_faults_parse(kiln_faults_t *faults, const char *specification);
/* True when the point fires now; out_argument may be NULL. faults may be NULL. */
bool kiln_fault(kiln_faults_t *faults, kiln_fault_point_t point, int64_t *out_argument);

#endif
