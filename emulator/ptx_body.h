/* emulator/ptx_body.h: the builder of one kernel: its symbols, frame, constants and growing code; its
 * statements' operands.
 *
 * ptx_body.c reads a body's statements and operands with it, the ptx_decode*.c files turn instructions into
 * emu_inst_t with it. Lives as long as one kernel is being read. Thread: the loading one.
 */
#ifndef KILN_EMULATOR_PTX_BODY_H
#define KILN_EMULATOR_PTX_BODY_H

#include "emulator/ptx.h"

#define EMU_MAX_PARTS 20
#define EMU_MAX_OPERANDS 12
#define EMU_MAX_VECTOR 16
#define EMU_MAX_SCOPES 64 /* blocks within blocks */

typedef enum {
  EMU_OPERAND_NONE,      /* "_" */
  EMU_OPERAND_REGISTER,  /* offset, type */
  EMU_OPERAND_IMMEDIATE, /* bits; float_bytes when written as a float */
  EMU_OPERAND_ADDRESS,   /* of a variable: bits, space */
  EMU_OPERAND_SPECIAL,   /* a special register: bits is its index, or EMU_SPECIAL_COUNT + n for the clocks */
  EMU_OPERAND_NAME,      /* a label or function: text */
  EMU_OPERAND_VECTOR,    /* {a, b, ...}: elements */
  EMU_OPERAND_MEMORY,    /* [base + offset]: elements[0] is the base, bits the offset */
  EMU_OPERAND_LIST,      /* (a, b): elements */
} emu_operand_kind_t;

typedef struct emu_operand emu_operand_t;
struct emu_operand {
  emu_operand_kind_t kind;
  bool negated; /* !p */
  uint8_t float_bytes;
  emu_type_t type;
  uint32_t offset;
  uint64_t bits;
  emu_space_t space;
  bool dynamic_shared; /* the address is relative to the end of static shared memory */
  const char *text;    /* the name of a label, function or register */
  uint32_t span;       /* of a register: index of what is known of its use */
  uint32_t *first_use; /* of a register: where its frame offset is kept, if nothing named it before */
  emu_operand_t *elements;
  uint32_t element_count;
  emu_operand_t *second; /* of "p|q" */
};

/* One instruction as written. */
typedef struct {
  const char *parts[EMU_MAX_PARTS]; /* "ld", "global", "f32" */
  uint32_t part_count;
  emu_operand_t operands[EMU_MAX_OPERANDS];
  uint32_t operand_count;
  int8_t guarded;
  uint32_t guard;
  uint32_t line;
} emu_statement_t;

/* A function within the kernel being built. */
typedef struct {
  const emu_function_t *function;
  uint32_t entry;          /* program counter, EMU_UNKNOWN until it is decoded */
  uint32_t return_counter; /* frame offset */
  uint32_t *parameters;    /* offsets in local memory */
  uint32_t *parameter_bytes;
  uint32_t parameter_count, result_count; /* results come first */
} emu_instance_t;

#define EMU_UNKNOWN UINT32_MAX
#define EMU_NO_SPAN UINT32_MAX /* of an operand that the text does not name */

typedef struct {
  uint32_t inst;
  uint32_t index; /* of brx.idx targets, else EMU_UNKNOWN */
  const char *name;
  uint32_t line;
} emu_fixup_t;

/* From the first to the last instruction that names a register. */
typedef struct {
  uint32_t first, last;
  uint32_t words;      /* of 32 bits; a predicate has none */
  uint32_t defined_in; /* number of the basic block that wrote it last, 0 for none */
  bool fixed;          /* the same whenever the launch's instructions read it */
} emu_span_t;

typedef struct {
  emu_module_t *m;
  emu_kernel_t *kernel;
  emu_instance_t *current;

  emu_inst_t *code;
  size_t code_count, code_capacity;
  emu_basic_block_t *blocks;
  size_t block_count, block_capacity;
  bool leader_due;

  emu_constant_t *constants;
  size_t constant_count, constant_capacity;
  kiln_map_t *constant_index;
  uint32_t *dynamic_constants; /* those to which the size of static shared memory is added at the end */
  size_t dynamic_count, dynamic_capacity;

  kiln_map_t *scopes[EMU_MAX_SCOPES]; /* name -> emu_symbol_t */
  uint32_t scope_count;
  kiln_map_t *label_index; /* of the current function: name -> program counter + 1, or list + 1 */
  kiln_map_t *list_index;  /* of the current function: .branchtargets */
  emu_fixup_t *fixups;
  size_t fixup_count, fixup_capacity;
  emu_instance_t *instances[256];
  uint32_t instance_count;
  emu_fixup_t *calls;
  size_t call_count, call_capacity;
  emu_span_t *spans; /* where each register is named, for the estimate of registers */
  size_t span_count, span_capacity;
  kiln_map_t *definitions; /* of the current body: name -> how often it is a result */
  emu_inst_t *setup;       /* loads of parameters that run when a frame is set up */
  size_t setup_count, setup_capacity;
  uint32_t carry; /* frame offset of the carry flags, 0 until used */
} emu_builder_t;

/* Frame space for a register: 8- or 4-byte lanes, or a predicate's mask where `width` is 0. */
uint32_t emu_frame_slot(emu_builder_t *b, uint32_t width);
/* Likewise, for a function that need not be the current one: calls within a cycle keep its slots. */
uint32_t emu_slot_of(emu_builder_t *b, const emu_instance_t *owner, uint32_t width);
/* Frame offset of a vector of `bits` in lanes of `width`; width 0: a predicate that holds everywhere or
 * nowhere. */
uint32_t emu_constant(emu_builder_t *b, uint64_t bits, uint32_t width);
/* Frame offset of the 8-byte vector of the address `offset` behind static shared memory. */
uint32_t emu_dynamic_address(emu_builder_t *b, uint64_t offset, uint32_t width);
uint32_t emu_special(emu_builder_t *b, uint32_t special);

/* Appends an instruction and returns it; valid until the next is appended. Counted in its basic block by
 * i.class. */
emu_inst_t *emu_emit(emu_builder_t *b, emu_inst_t inst);
/* Counts an instruction that was left out. */
void emu_count_instruction(emu_builder_t *b, emu_class_t class, uint32_t line);
uint32_t emu_block_number(const emu_builder_t *b); /* of the next instruction's basic block, from 1 */
/* The next instruction begins a basic block. */
void emu_begin_block(emu_builder_t *b);
uint32_t emu_next_pc(const emu_builder_t *b); /* of the leader of the block begun */

/* Lane bytes of a register of this type: 16, 8, 4, or 0 for a predicate. */
uint32_t emu_lane_bytes(emu_type_t type);

/* --- ptx_values.c --- */

/* Looks through the body that m->at points to for the registers that it writes. */
void emu_count_definitions(emu_builder_t *b);
/* Makes the result of "mov d, a" another name of `a`, whose place `source` gives; false when it must run. */
bool emu_leave_out_move(emu_builder_t *b, const emu_statement_t *s, emu_type_t type,
                        uint32_t (*source)(emu_builder_t *, const emu_statement_t *, const emu_operand_t *,
                                           uint32_t));
/* Has `load`, of a kernel parameter, run when frames are set up; false when it must run in its place. */
bool emu_leave_out_load(emu_builder_t *b, const emu_statement_t *s, emu_type_t type, const emu_inst_t *load);

/* An estimate of the hardware registers a thread needs: the most that are live at once (ptx_registers.c). */
uint32_t emu_estimate_registers(emu_builder_t *b);

/* Decodes one instruction; fails for what the emulator does not know. */
void emu_decode(emu_builder_t *b, emu_statement_t *s);
/* A call's target within this kernel, decoded later. */
emu_instance_t *emu_instance(emu_builder_t *b, const char *name, uint32_t line);

#endif
