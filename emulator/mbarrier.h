/* emulator/mbarrier.h: what one mbarrier instruction does; shared by its decoder (ptx_decode_async.c) and its
 * handler (exec_mbarrier.c). */
#ifndef KILN_EMULATOR_MBARRIER_H
#define KILN_EMULATOR_MBARRIER_H

typedef enum {
  EMU_MBARRIER_INIT,
  EMU_MBARRIER_INVALIDATE,
  EMU_MBARRIER_EXPECT,
  EMU_MBARRIER_COMPLETE,
  EMU_MBARRIER_ARRIVE,
  EMU_MBARRIER_DROP,
  EMU_MBARRIER_TEST,
} emu_mbarrier_op_t;

#endif
