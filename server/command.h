/* server/command.h: what the server and a device process tell each other: kinds of frames and their bodies.
 *
 *   device -> GREETING  kiln_device_info_t; or an error, then the process ends
 *   server -> LOAD      command_load_t, launch kernels (u32 each), plan, then per artifact its size (u64) and
 * its bytes server -> EXECUTE   command_execute_t, symbols (i64), input sizes, output sizes (u64), the
 * inputs' bytes device -> EXECUTE  command_result_t, the outputs' bytes, the counters' text server -> UNLOAD
 *
 * The frame's id is the variant's. Only EXECUTE has a reply, in the order of the commands: a LOAD that fails
 * is told by the executions that need it, with COMMAND_LOAD_FAILED. A reply that is an error has
 * COMMAND_ERROR in its flags.
 */
#ifndef KILN_SERVER_COMMAND_H
#define KILN_SERVER_COMMAND_H

#include "runtime/device.h"
#include "server/frame.h"

typedef enum { COMMAND_GREETING, COMMAND_LOAD, COMMAND_EXECUTE, COMMAND_UNLOAD } command_kind_t;

enum { COMMAND_ERROR = 1, COMMAND_LOAD_FAILED = 2, COMMAND_COUNT = 4 }; /* flags; COUNT asks for counters */

typedef struct {
  uint64_t plan_bytes;
  uint32_t launch_count, artifact_count;
} command_load_t;

typedef struct {
  uint32_t symbol_count, input_count, output_count, reserved;
} command_execute_t;

typedef struct {
  kiln_execution_timings_t timings;
  uint64_t counters_bytes;
} command_result_t;

#endif
