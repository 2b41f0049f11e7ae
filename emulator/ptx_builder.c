/* emulator/ptx_builder.c: the growing kernel: frame slots, constants, instructions and the basic blocks that
 * they form. Called by ptx_body.c and the decoders; see ptx_body.h. */
#include "emulator/ops.h"
#include "emulator/ptx_body.h"

/* --- frame --- */

uint32_t emu_lane_bytes(emu_type_t type) {
  return type.kind == EMU_T_PRED ? 0 : type.bytes >= 8 ? type.bytes : 4;
}

static uint32_t place_slot(emu_builder_t *b, uint32_t width) {
  uint32_t bytes = width ? 32 * width : 4, align = width ? 64 : 4;
  uint32_t offset = (b->kernel->frame_bytes + align - 1) & ~(align - 1);
  if (offset + bytes > EMU_MAX_FRAME_BYTES)
    emu_ptx_fail(b->m, emu_ptx_peek(b->m)->line, "too many registers");
  b->kernel->frame_bytes = offset + bytes;
  return offset;
}

uint32_t emu_slot_of(emu_builder_t *b, const emu_instance_t *owner, uint32_t width) {
  emu_saved_t *saved = &b->kernel->saved;
  emu_saved_slot_t slot = {place_slot(b, width), width};
  if (!owner || !owner->function->recursive) return slot.offset;
  if (width < 16) {
    KILN_PUSH(&b->m->arena, saved->slots, saved->slot_count, saved->slot_capacity, slot);
    return slot.offset;
  }
  for (uint32_t half = 0; half < 2; half++) {
    emu_saved_slot_t part = {slot.offset + half * EMU_WIDE_HALF, 8};
    KILN_PUSH(&b->m->arena, saved->slots, saved->slot_count, saved->slot_capacity, part);
  }
  return slot.offset;
}

uint32_t emu_frame_slot(emu_builder_t *b, uint32_t width) { return emu_slot_of(b, b->current, width); }

static uint32_t new_constant(emu_builder_t *b, uint64_t bits, uint32_t width) {
  emu_constant_t constant = {place_slot(b, width), width, bits};
  KILN_PUSH(&b->m->arena, b->constants, b->constant_count, b->constant_capacity, constant);
  return constant.offset;
}

uint32_t emu_constant(emu_builder_t *b, uint64_t bits, uint32_t width) {
  if (width == 4) bits &= UINT32_MAX;
  uint64_t key[2] = {bits, width};
  bool added;
  uint64_t *offset = kiln_map_put(b->constant_index, key, sizeof key, &added);
  if (added) *offset = new_constant(b, bits, width);
  return (uint32_t)*offset;
}

uint32_t emu_dynamic_address(emu_builder_t *b, uint64_t offset, uint32_t width) {
  uint32_t index = (uint32_t)b->constant_count, place = new_constant(b, offset, width);
  KILN_PUSH(&b->m->arena, b->dynamic_constants, b->dynamic_count, b->dynamic_capacity, index);
  return place;
}

uint32_t emu_special(emu_builder_t *b, uint32_t special) {
  uint32_t *offset = &b->kernel->special_offset[special];
  if (!*offset) *offset = place_slot(b, 4);
  return *offset;
}

/* --- code --- */

void emu_begin_block(emu_builder_t *b) { b->leader_due = true; }

uint32_t emu_next_pc(const emu_builder_t *b) { return (uint32_t)b->code_count; }

static void push_inst(emu_builder_t *b, emu_inst_t inst) {
  if (b->code_count >= EMU_MAX_INSTRUCTIONS) emu_ptx_fail(b->m, inst.line, "too many instructions");
  KILN_PUSH(&b->m->arena, b->code, b->code_count, b->code_capacity, inst);
}

static void push_leader(emu_builder_t *b, uint32_t line) {
  emu_basic_block_t block = {.first = (uint32_t)b->code_count};
  push_inst(b, (emu_inst_t){.fn = emu_exec_leader, .target = (uint32_t)b->block_count, .line = line});
  KILN_PUSH(&b->m->arena, b->blocks, b->block_count, b->block_capacity, block);
  b->leader_due = false;
}

uint32_t emu_block_number(const emu_builder_t *b) { return (uint32_t)b->block_count + b->leader_due; }

void emu_count_instruction(emu_builder_t *b, emu_class_t class, uint32_t line) {
  if (b->leader_due) push_leader(b, line);
  emu_basic_block_t *block = &b->blocks[b->block_count - 1];
  block->instructions += class != EMU_CLASS_NONE;
  block->of_class[class] += class != EMU_CLASS_NONE;
}

emu_inst_t *emu_emit(emu_builder_t *b, emu_inst_t inst) {
  emu_count_instruction(b, inst.class, inst.line);
  push_inst(b, inst);
  return &b->code[b->code_count - 1];
}
