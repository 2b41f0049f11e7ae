/* emulator/exec_memory.h: one memory request of a warp, shared by loads, stores, atomics, asynchronous copies
 * and ldmatrix. Called by exec_*.c. Thread: the worker that owns the warp's block. */
#ifndef KILN_EMULATOR_EXEC_MEMORY_H
#define KILN_EMULATOR_EXEC_MEMORY_H

#include "emulator/machine.h"

typedef enum { EMU_ACCESS_READ, EMU_ACCESS_WRITE, EMU_ACCESS_ATOMIC } emu_access_t;

/* How the addresses of a request lie. */
typedef enum {
  EMU_PATTERN_ANY,
  EMU_PATTERN_ROW,  /* all 32 lanes, one element behind the other */
  EMU_PATTERN_SAME, /* all 32 lanes at one address */
} emu_pattern_t;

typedef struct {
  uint64_t addresses[32];      /* lanes that are off have that of one that is on */
  uint64_t low, high;          /* of the addresses */
  uint64_t bits;               /* that any of them has */
  unsigned char *pointers[32]; /* of the active lanes */
  const emu_range_t
      *range; /* that all lanes' addresses lie in; NULL when it is not global memory, or several */
  emu_space_t space;
  emu_access_t access;
  emu_pattern_t pattern;
} emu_request_t;

/* Resolves, checks and counts the access of i->bytes * i->vector bytes per lane at the addresses in the frame
 * vector `operand` (i->width bytes each) plus i->offset; false after a fault. */
bool emu_request(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_access_t access,
                 emu_request_t *out_request);

/* A request of a whole warp that was found to be simple, by the handlers of lanes_rows.h. */
typedef struct {
  uint64_t address;      /* of lane 0 */
  uint32_t bytes;        /* of all lanes together */
  unsigned char *memory; /* where they are */
  emu_access_t access;
  emu_pattern_t pattern; /* a row, or the same */
} emu_row_t;

/* Checks and counts a row; false, with nothing done, when it must be looked at lane by lane. */
bool emu_watch_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row);

void emu_count_request(emu_warp_t *w, const emu_inst_t *i, const emu_request_t *r);
void emu_count_row(emu_warp_t *w, const emu_inst_t *i, const emu_row_t *row);

/* Where one lane's bytes are, or NULL when the access is out of bounds or misaligned; a generic *space is
 * resolved. */
unsigned char *emu_lane_memory(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t address,
                               uint32_t bytes, emu_space_t *space);
/* Faults with the reason why emu_lane_memory gave NULL. */
const emu_inst_t *emu_bad_access(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t address,
                                 emu_space_t space, uint32_t bytes, emu_access_t access);

#endif
