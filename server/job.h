/* server/job.h: what the server and a compile worker tell each other: kinds of frames and their bodies.
 *
 *   worker -> GREETING the compiler's identity, as text; or an error, then the worker ends
 *   server -> PLAN     job_target_t, [late verdicts, graph (wire form)]
 *   worker -> PLAN     job_plan_done_t, recipe; or an error
 *   server -> KERNELS  job_target_t, [[key, entry, source]]
 *   worker -> KERNELS  [[key, artifact or nil, error or nil, ns]]
 *
 * A reply that is an error has JOB_ERROR in its flags and the error map as its body. One job at a time per
 * worker.
 */
#ifndef KILN_SERVER_JOB_H
#define KILN_SERVER_JOB_H

#include "ir/target.h"
#include "runtime/compile.h"
#include "server/frame.h"

typedef enum { JOB_GREETING, JOB_PLAN, JOB_KERNELS } job_kind_t;

enum { JOB_ERROR = 1 }; /* flag */

typedef struct {
  kiln_target_t target;
  kiln_options_t options;           /* PLAN */
  kiln_symbol_class_t symbol_class; /* PLAN */
  kiln_image_kind_t image_kind;     /* KERNELS */
} job_target_t;

typedef struct {
  uint64_t plan_ns;
} job_plan_done_t;

#endif
