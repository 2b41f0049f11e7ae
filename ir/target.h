/* ir/target.h: what code is generated for: an architecture with its suffix and a device class.
 *
 * `sm_90` alone means the class of the table row (132 SMs); a device reports its own numbers. The whole
 * struct is part of every key. Source of the rows: NVIDIA's data sheets and the compute capability tables of
 * the CUDA C++ Programming Guide.
 */
#ifndef KILN_IR_TARGET_H
#define KILN_IR_TARGET_H

#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char arch[16];         /* "sm_80", "sm_90", "sm_90a", "sm_100" ... */
  uint32_t major, minor; /* compute capability */
  uint32_t sm_count;
  uint32_t shared_bytes_per_block; /* opt-in maximum */
  uint32_t shared_bytes_per_sm;
  uint32_t registers_per_sm;
  uint32_t threads_per_sm;
  uint64_t l2_bytes;
  uint64_t memory_bytes;
  uint32_t memory_gb_per_s; /* peak, for cost rules */
} kiln_target_t;

/* UNSUPPORTED when the name is no row of the table; the message lists the rows. */
kiln_status_t kiln_target_parse(const char *name, kiln_target_t *out);
/* Row `index`'s name, NULL past the end: for --help and docs. */
const char *kiln_target_name(size_t index);

/* Blocks of one kernel that an SM holds at once: the least of what each resource allows. A resource that the
 * kernel does not use, or whose use is not known (0 registers), allows as many as the SM may hold. */
typedef struct {
  uint32_t by_registers, by_threads, by_shared, by_blocks;
  uint32_t blocks;
  uint32_t threads; /* of those blocks */
} kiln_occupancy_t;

/* Source: the rules of NVIDIA's occupancy calculator for compute capability 8.0 to 12.1. */
kiln_occupancy_t kiln_target_occupancy(const kiln_target_t *target, uint32_t block_threads,
                                       uint32_t registers_per_thread, uint32_t shared_bytes_per_block);

/* What a request may choose about code; every field is part of the key. */
typedef struct {
  bool excess_precision; /* keep f32 between fused nodes of f16 and bf16 (precision=excess); never the default
                          */
  bool allow_tf32;
  bool unfused; /* every node its own launch: for tests that compare with fusion */
} kiln_options_t;

/* What a compile may assume about symbols, so that wider accesses are legal. The server takes the class from
 * the values of an execution; a plan lists as guards only what its kernels relied on. */
typedef struct {
  int64_t multiple[8]; /* per symbol: 16, 8, 4, 2 or 1 divides it */
  bool wide;           /* some tensor may pass 2^31 elements: 64-bit indices */
} kiln_symbol_class_t;

#endif
