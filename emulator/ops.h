/* emulator/ops.h: the handlers of PTX instructions that are more than work on each lane by itself.
 *
 * Defined in exec_*.c, put into instructions by ptx_decode.c and its siblings, called by the warp run loop
 * (schedule.c). Each comment gives the operands in the order of emu_inst_t's arg.
 * Thread: the worker that owns the warp's block.
 */
#ifndef KILN_EMULATOR_OPS_H
#define KILN_EMULATOR_OPS_H

#include "emulator/machine.h"

/* exec_control.c */
const emu_inst_t *emu_exec_leader(emu_warp_t *w,
                                  const emu_inst_t *i); /* begins a basic block: target; arg: its program
                                                           counter, its instructions */
const emu_inst_t *emu_exec_guarded(emu_warp_t *w,
                                   const emu_inst_t *i); /* runs i->base for lanes with the predicate */
const emu_inst_t *emu_exec_branch(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_branch_index(emu_warp_t *w,
                                        const emu_inst_t *i); /* brx.idx; arg 0: index; args: targets */
const emu_inst_t *emu_exec_exit(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_call(emu_warp_t *w, const emu_inst_t *i); /* arg 0: the callee's return counter */
const emu_inst_t *emu_exec_lost_call(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_return(emu_warp_t *w,
                                  const emu_inst_t *i); /* arg 0: the callee's return counter */
const emu_inst_t *emu_exec_trap(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_nothing(emu_warp_t *w, const emu_inst_t *i); /* fences, prefetches, sleeps */
const emu_inst_t *emu_exec_mov_pred(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_logic_pred(emu_warp_t *w,
                                      const emu_inst_t *i);           /* kind: 0 and, 1 or, 2 xor, 3 not */
const emu_inst_t *emu_exec_clock(emu_warp_t *w, const emu_inst_t *i); /* mode: an emu_clock_t */
const emu_inst_t *emu_exec_pack(emu_warp_t *w,
                                const emu_inst_t *i); /* mov.b64 d, {a, b}; mode: bits of a part */
const emu_inst_t *emu_exec_unpack(emu_warp_t *w,
                                  const emu_inst_t *i); /* mov.b64 {a, b}, d; mode: bits of a part */
const emu_inst_t *emu_exec_widen(emu_warp_t *w, const emu_inst_t *i);  /* 4-byte lanes to 8; is_signed */
const emu_inst_t *emu_exec_narrow(emu_warp_t *w, const emu_inst_t *i); /* 8-byte lanes to 4 */

/* exec_recursion.c */
const emu_inst_t *emu_exec_push(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_pop(emu_warp_t *w, const emu_inst_t *i);

/* exec_barrier.c */
const emu_inst_t *emu_exec_barrier(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_warp_barrier(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_cluster_barrier(emu_warp_t *w, const emu_inst_t *i); /* mode: 0 arrive, 1 wait */

/* exec_memory.c; arg 0: the address or, for ld, the first result; see there */
const emu_inst_t *emu_exec_load(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_load_param(emu_warp_t *w,
                                      const emu_inst_t *i); /* of the kernel, at a constant offset */
const emu_inst_t *emu_exec_store(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_copy_local(emu_warp_t *w, const emu_inst_t *i); /* call arguments and results */
const emu_inst_t *emu_exec_to_generic(emu_warp_t *w, const emu_inst_t *i); /* cvta */
const emu_inst_t *emu_exec_from_generic(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_is_space(emu_warp_t *w, const emu_inst_t *i);

/* exec_warp.c; see there for the operands */
const emu_inst_t *emu_exec_shuffle(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_vote(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_match(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_redux(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_elect(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_active_mask(emu_warp_t *w, const emu_inst_t *i);

/* exec_atomic.c, exec_async.c, exec_bulk.c, exec_mbarrier.c; see there for the operands */
const emu_inst_t *emu_exec_atomic(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_atomic_vector(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_atomic_wide(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_copy_async(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_copy_commit(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_copy_wait(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_copy_arrive(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_bulk(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_bulk_commit(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_bulk_wait(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_mbarrier(emu_warp_t *w, const emu_inst_t *i);

/* exec_wmma.c */
const emu_inst_t *emu_exec_wmma(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_wmma_load(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_wmma_store(emu_warp_t *w, const emu_inst_t *i);
/* exec_tensor.c */
const emu_inst_t *emu_exec_mma(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_mma_quads(emu_warp_t *w, const emu_inst_t *i); /* exec_mma_quads.c */
const emu_inst_t *emu_exec_load_matrix(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_store_matrix(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_move_matrix(emu_warp_t *w, const emu_inst_t *i);

/* exec_print.c */
const emu_inst_t *emu_exec_printf(emu_warp_t *w, const emu_inst_t *i);
const emu_inst_t *emu_exec_assert(emu_warp_t *w, const emu_inst_t *i);

#endif
