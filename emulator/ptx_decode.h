/* emulator/ptx_decode.h: what the decoders of instruction families share. A decoder turns one statement into
 * one emu_inst_t, and helpers before or behind it where register widths differ. Called by emu_decode
 * (ptx_decode.c). Thread: the loading one. */
#ifndef KILN_EMULATOR_PTX_DECODE_H
#define KILN_EMULATOR_PTX_DECODE_H

#include "emulator/lanes.h"
#include "emulator/ops.h"
#include "emulator/ptx_body.h"

typedef void (*emu_decoder_t)(emu_builder_t *b, emu_statement_t *s);

/* Rows of decoders by the first part of the opcode; ends with a NULL name. */
typedef struct {
  const char *name;
  emu_decoder_t decode;
} emu_decoder_row_t;

extern const emu_decoder_row_t emu_async_decoders[];
extern const emu_decoder_row_t emu_atomic_decoders[];
extern const emu_decoder_row_t emu_call_decoders[];
extern const emu_decoder_row_t emu_compare_decoders[];
extern const emu_decoder_row_t emu_memory_decoders[];
extern const emu_decoder_row_t emu_move_decoders[];
extern const emu_decoder_row_t emu_tensor_decoders[];
extern const emu_decoder_row_t emu_warp_decoders[];

_Noreturn void emu_unknown(emu_builder_t *b, const emu_statement_t *s);
/* Takes the modifier away when the statement has it. */
bool emu_take(emu_statement_t *s, const char *part);
bool emu_has(const emu_statement_t *s, const char *part);
/* The last part as a type; fails when it is none. */
emu_type_t emu_last_type(emu_builder_t *b, const emu_statement_t *s, uint32_t from_end);
void emu_operands(emu_builder_t *b, const emu_statement_t *s, uint32_t least, uint32_t most);

/* Frame offset of a source operand in lanes of `width` bytes (0: predicate), converting where needed. */
uint32_t emu_source(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand, uint32_t width);
/* Frame offset to write a result of `type` to; emu_written must follow once the instruction is emitted. */
typedef struct {
  uint32_t offset;
  uint32_t widen_to; /* register that wants the result in 8-byte lanes, or 0 */
  uint32_t narrow_to;
  bool is_signed;
} emu_result_t;
emu_result_t emu_result(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                        emu_type_t type);
void emu_written(emu_builder_t *b, const emu_statement_t *s, const emu_result_t *result);

typedef struct {
  emu_rounding_t rounding;
  bool integral; /* .rni and the like */
  bool flush, saturate;
} emu_modes_t;
/* Takes rounding, .ftz and .sat away; what is left is the key of an operation. */
emu_modes_t emu_take_modes(emu_statement_t *s);
/* The operation that the statement's parts name, with `last` for the last of them; NULL when there is none.
 */
const emu_lane_op_t *emu_find_op(const emu_statement_t *s, const char *last);
const char *emu_bits_name(emu_type_t type);
bool emu_is_half(emu_type_t type);
/* Frame offset of a half operand with its denormals flushed. */
uint32_t emu_flushed_source(emu_builder_t *b, const emu_statement_t *s, uint32_t offset, emu_type_t type);
/* An instruction that is an operation of lanes.def. */
void emu_decode_lanes(emu_builder_t *b, emu_statement_t *s);

/* Appends `inst` with the statement's line and guard. */
emu_inst_t *emu_put(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst);
/* Appends a control transfer: it tests its guard itself and ends its basic block. */
void emu_put_control(emu_builder_t *b, const emu_statement_t *s, emu_inst_t inst);
/* Takes the state space away; EMU_SPACE_GENERIC when there is none. Constant memory is global memory here. */
emu_space_t emu_take_space(emu_statement_t *s);
/* Takes what changes when others see data, not what it is, away. */
void emu_take_hints(emu_statement_t *s);
/* Takes memory orders away; whether there was one: others may wait for what the instruction writes. */
bool emu_take_order(emu_statement_t *s);
/* Element n of a vector operand of `count`; an operand without braces is a vector of one. */
const emu_operand_t *emu_element(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                                 uint32_t count, uint32_t n);
/* Fills in what an address operand gives: offset, width, memory site, and the frame offset of its base. */
void emu_address(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand, emu_inst_t *inst,
                 uint32_t *out_offset);

/* Takes the operation of an atomic away, and fills in what it does to a value, or element of a vector, of
 * `type`; false when there is no such operation. */
bool emu_atomic_operation(emu_statement_t *s, emu_type_t type, bool vector, emu_inst_t *inst);

/* Calls of functions that no PTX defines: vprintf, __assertfail. False when `name` is none of them. */
bool emu_decode_builtin_call(emu_builder_t *b, emu_statement_t *s, const char *name,
                             const emu_operand_t *results, const emu_operand_t *arguments);
/* A copy of `count` operands that lives as long as the module. */
const uint32_t *emu_args(emu_builder_t *b, const uint32_t *args, uint32_t count);

#endif
