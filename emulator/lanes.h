/* emulator/lanes.h: finds the handler of a PTX operation that works on each lane by itself.
 *
 * lanes.def has one row per operation: arithmetic, logic, compares, selects, moves, conversions.
 * lanes_loops.h turns the rows into loops over 32 lanes; lanes_plain.c and lanes_avx2.c compile those loops
 * for one instruction set each, and the table for the best one that this CPU has is chosen here. The decoder
 * (ptx_decode.c) asks by key: the mnemonic without rounding, .ftz and .sat, such as "add.s32",
 * "mul.wide.u16", "setp.lt.f32", "cvt.f32.f16". Thread: any; the tables are constant.
 */
#ifndef KILN_EMULATOR_LANES_H
#define KILN_EMULATOR_LANES_H

#include "emulator/exec_memory.h"
#include "emulator/shadow.h"

typedef struct {
  const char *key; /* with '_' for '.' */
  emu_exec_t fn;
  uint8_t class; /* emu_class_t */
  uint8_t args;  /* operands, results included */
} emu_lane_op_t;

/* Memory requests of whole warps, see lanes_rows.h, and their checks. */
#define EMU_TENSOR_ROWS 4u
struct emu_row_ops {
  emu_exec_t load, store;
  void (*survey)(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_request_t *out_request);
  /* See lanes_stamps.h: lanes, or false, where there is something suspicious. */
  uint32_t (*warp_reads)(const emu_stamps_t *stamps, uint32_t lanes, const uint32_t *offsets, uint32_t bytes,
                         uint32_t now, uint32_t bound);
  uint32_t (*warp_writes)(const emu_stamps_t *stamps, uint32_t lanes, const uint32_t *offsets, uint32_t bytes,
                          uint32_t now, uint32_t bound);
  bool (*block_reads)(const uint32_t *written, uint32_t *read, uint32_t count, uint32_t now);
  bool (*block_writes)(uint32_t *written, const uint32_t *read, uint32_t count, uint32_t now);
  /* Adds the products of four rows of a, `stride` apart, with b to the sums. */
  void (*tensor_rows)(const double *a, uint32_t stride, const double (*b)[8], uint32_t depth,
                      double (*sum)[8]);
};

typedef struct {
  const emu_lane_op_t *ops;
  uint32_t count;
  emu_row_ops_t rows;
} emu_lane_table_t;

extern const emu_lane_table_t emu_lanes_plain;
#ifdef __x86_64__
extern const emu_lane_table_t emu_lanes_avx2;
#endif

/* The handler of `key`, or NULL when PTX has no such operation or the emulator does not know it. */
const emu_lane_op_t *emu_lane_op_find(const char *key);

/* Those for this CPU. */
const emu_row_ops_t *emu_row_ops(void);

/* Runs i->inner under the rounding mode and flushing that `i` asks for, and clamps a saturated float result.
 */
const emu_inst_t *emu_exec_rounded(emu_warp_t *w, const emu_inst_t *i);

#endif
