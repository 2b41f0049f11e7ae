/* emulator/ptx_registers.c: how many hardware registers a kernel would need, estimated from its PTX.
 *
 * PTX has as many registers as it likes; a compiler for the hardware reuses them. A register is taken to be
 * live from the first to the last instruction that names it, and to the end of a loop that it is live into;
 * the most words live at once, and some for addresses and the ABI, is the estimate. The driver answers
 * occupancy and CU_FUNC_ATTRIBUTE_NUM_REGS with it. Called by ptx_body.c when a kernel is complete.
 */
#include "emulator/ops.h"
#include "emulator/ptx_body.h"

#define RESERVED_REGISTERS 8
#define MOST_REGISTERS 255
#define MOST_WORK 100000000u /* comparisons; a text that needs more gets the estimate without its loops */

/* Values that come into a loop stay live until its backward branch. */
static void extend_over_loops(emu_builder_t *b) {
  uint64_t work = 0;
  for (uint32_t pc = 0; pc < b->code_count && work < MOST_WORK; pc++) {
    const emu_inst_t *i = &b->code[pc];
    if (i->fn != emu_exec_branch || i->target > pc) continue;
    work += b->span_count;
    for (size_t n = 0; n < b->span_count; n++) {
      emu_span_t *span = &b->spans[n];
      if (span->first < i->target && span->last >= i->target && span->last < pc) span->last = pc;
    }
  }
}

uint32_t emu_estimate_registers(emu_builder_t *b) {
  int32_t *change = KILN_NEW_ARRAY(&b->m->arena, int32_t, b->code_count + 2);
  extend_over_loops(b);
  for (size_t n = 0; n < b->span_count; n++) {
    change[b->spans[n].first] += (int32_t)b->spans[n].words;
    change[b->spans[n].last + 1] -= (int32_t)b->spans[n].words;
  }
  int32_t live = 0, most = 0;
  for (size_t pc = 0; pc < b->code_count; pc++) {
    live += change[pc];
    most = live > most ? live : most;
  }
  uint32_t rounded = ((uint32_t)most + RESERVED_REGISTERS + 7) & ~7u;
  return rounded < MOST_REGISTERS ? rounded : MOST_REGISTERS;
}
