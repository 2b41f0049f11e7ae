/* emulator/ptx_source.h: which line of CUDA C a line of PTX came from, where a module was compiled with
 * -lineinfo.
 *
 * Made at module load from the ".loc" and ".file" directives of its tokens; asked when a fault or a finding
 * is put into words (schedule.c). The name of a file may follow its uses, as NVRTC has it. Immutable
 * afterwards, in the module's arena. Thread: any.
 */
#ifndef KILN_EMULATOR_PTX_SOURCE_H
#define KILN_EMULATOR_PTX_SOURCE_H

#include "emulator/kernel.h"
#include "emulator/ptx_lex.h"

emu_source_map_t *emu_source_map_create(kiln_arena_t *arena, const emu_tokens_t *tokens);

/* Writes ", CUDA line axpy.cu:7" or ", CUDA line axpy.cu:3, inlined at axpy.cu:7"; "" when nothing is known.
 */
void emu_source_describe(const emu_source_map_t *map, uint32_t ptx_line, char *text, size_t capacity);

#endif
