/* emulator/ptx_decode_async.c: decodes asynchronous copies and what waits for them: cp.async, bulk copies and
 * reductions, mbarrier; and what is about caches and clusters only: createpolicy, mapa, getctarank. See
 * ptx_decode.h. A cluster is one block, whose shared memory shared::cluster is, too. */
#include "emulator/mbarrier.h"
#include "emulator/ptx_decode.h"

#include <string.h>

static const emu_type_t b64_type = {"b64", EMU_T_BITS, 8};
static const emu_type_t b32_type = {"b32", EMU_T_BITS, 4};
static const emu_type_t predicate_type = {"pred", EMU_T_PRED, 0};

/* --- cp.async --- */

/* Bytes to read: a number, or none where the predicate "ignore the source" holds. */
static uint32_t source_bytes(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand,
                             uint64_t all) {
  bool is_predicate = operand->kind == EMU_OPERAND_REGISTER && operand->type.kind == EMU_T_PRED;
  if (!is_predicate) return emu_source(b, s, operand, 4);
  uint32_t slot = emu_frame_slot(b, 4), none = emu_constant(b, 0, 4), bytes = emu_constant(b, all, 4);
  emu_inst_t select = {.fn = emu_lane_op_find("selp_b32")->fn};
  select.arg[0] = slot;
  select.arg[1] = operand->negated ? bytes : none;
  select.arg[2] = operand->negated ? none : bytes;
  select.arg[3] = emu_source(b, s, operand, 0);
  emu_put(b, s, select);
  return slot;
}

/* cp.async.ca.shared.global [d], [a], size{, source size or ignore}{, policy} */
static void put_copy_async(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  bool has_policy = emu_has(s, "L2::cache_hint");
  bool all_levels = emu_has(s, "ca");
  emu_take_hints(s);
  bool to_shared = emu_take(s, "shared") || emu_take(s, "shared::cta");
  if (!to_shared || !emu_take(s, "global") || s->part_count != 1) emu_unknown(b, &original);
  emu_operands(b, &original, 3, 5);
  const emu_operand_t *size = &s->operands[2];
  bool known = size->kind == EMU_OPERAND_IMMEDIATE &&
               (size->bits == 16 || (all_levels && (size->bits == 4 || size->bits == 8)));
  if (!known) emu_ptx_fail(b->m, s->line, "cp.async copies 16 bytes, or with .ca 4 or 8");
  emu_inst_t *read = KILN_NEW(&b->m->arena, emu_inst_t);
  emu_inst_t inst = {.fn = emu_exec_copy_async,
                     .class = EMU_CLASS_MEMORY,
                     .space = EMU_SPACE_SHARED,
                     .bytes = (uint8_t)size->bits,
                     .vector = 1,
                     .other = read};
  *read = (emu_inst_t){.space = EMU_SPACE_GLOBAL, .bytes = inst.bytes, .vector = 1, .line = s->line};
  emu_address(b, s, &s->operands[0], &inst, &inst.arg[0]);
  emu_address(b, s, &s->operands[1], read, &inst.arg[1]);
  if (s->operand_count > 3u + has_policy) inst.arg[2] = source_bytes(b, s, &s->operands[3], size->bits);
  emu_put(b, s, inst);
}

static uint64_t group_count(emu_builder_t *b, const emu_statement_t *s) {
  emu_operands(b, s, 1, 1);
  if (s->operands[0].kind != EMU_OPERAND_IMMEDIATE || s->operands[0].bits > 255) emu_unknown(b, s);
  return s->operands[0].bits;
}

/* cp.async.mbarrier.arrive{.noinc}{.shared}.b64 [barrier] */
static void put_copy_arrive(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_inst_t inst = {.fn = emu_exec_copy_arrive, .class = EMU_CLASS_MEMORY, .bytes = 8, .vector = 1};
  inst.mode = !emu_take(s, "noinc");
  inst.space = (uint8_t)emu_take_space(s);
  if (!emu_take(s, "arrive") || !emu_take(s, "b64") || s->part_count != 1) emu_unknown(b, &original);
  emu_operands(b, &original, 1, 1);
  emu_address(b, s, &s->operands[0], &inst, &inst.arg[0]);
  emu_put(b, s, inst);
}

/* --- bulk copies and reductions --- */

/* Takes ".shared::cluster.global" and the like: the destination's space, then the source's. */
static bool take_bulk_spaces(emu_statement_t *s, emu_inst_t *to, emu_inst_t *from) {
  bool to_cluster = emu_take(s, "shared::cluster"), block = emu_take(s, "shared::cta"),
       global = emu_take(s, "global");
  if (to_cluster + block + global != 2) return false;
  /* Two of three are named; shared::cta comes first only before global. */
  bool to_global = block && global && s->part_count && !to_cluster && emu_take(s, "bulk_group");
  to->space = (uint8_t)(to_global ? EMU_SPACE_GLOBAL : EMU_SPACE_SHARED);
  from->space = (uint8_t)(to_global || !global ? EMU_SPACE_SHARED : EMU_SPACE_GLOBAL);
  return to_global || emu_take(s, "mbarrier::complete_tx::bytes");
}

/* cp.async.bulk.<to>.<from>.<completion> [d], [a], bytes{, [barrier]}{, policy}; cp.reduce.async.bulk has an
 * operation and a type behind. */
static void put_bulk(emu_builder_t *b, emu_statement_t *s, bool reduces) {
  emu_statement_t original = *s;
  emu_type_t type = reduces ? emu_last_type(b, s, 0) : b32_type;
  emu_inst_t *source = KILN_NEW(&b->m->arena, emu_inst_t);
  emu_inst_t inst = {.fn = emu_exec_bulk, .class = EMU_CLASS_MEMORY, .other = source, .arg_count = reduces};
  *source = (emu_inst_t){.line = s->line};
  emu_take_hints(s);
  emu_take(s, "noftz");
  bool right = take_bulk_spaces(s, &inst, source);
  if (reduces) {
    bool halves = emu_is_half(type) && type.bytes == 2;
    emu_statement_t as_vector = *s;
    right &= emu_atomic_operation(s, type, false, &inst) ||
             (halves && emu_atomic_operation(&as_vector, type, true, &inst));
    if (halves && s->part_count != 2) *s = as_vector;
    right &= s->part_count == 2;
  } else {
    right &= s->part_count == 1;
  }
  if (!right) emu_unknown(b, &original);
  bool tells = inst.space == EMU_SPACE_SHARED;
  emu_operands(b, &original, 3u + tells, 4u + tells);
  uint32_t args[4] = {0};
  emu_address(b, s, &s->operands[0], &inst, &args[0]);
  emu_address(b, s, &s->operands[1], source, &args[1]);
  args[2] = emu_source(b, s, &s->operands[2], 4);
  if (tells) {
    emu_inst_t *told = KILN_NEW(&b->m->arena, emu_inst_t);
    *told = (emu_inst_t){.line = s->line, .space = EMU_SPACE_SHARED};
    emu_address(b, s, &s->operands[3], told, &args[3]);
    source->other = told;
  }
  inst.args = emu_args(b, args, 4);
  emu_put(b, s, inst);
}

static void decode_bulk(emu_builder_t *b, emu_statement_t *s) {
  if (emu_take(s, "commit_group")) {
    emu_put(b, s, (emu_inst_t){.fn = emu_exec_bulk_commit, .class = EMU_CLASS_CONTROL});
  } else if (emu_take(s, "wait_group")) {
    emu_put(b, s,
            (emu_inst_t){
                .fn = emu_exec_bulk_wait, .class = EMU_CLASS_CONTROL, .offset = (int64_t)group_count(b, s)});
  } else if (emu_take(s, "prefetch")) {
    emu_put(b, s, (emu_inst_t){.fn = emu_exec_nothing, .class = EMU_CLASS_CONTROL});
  } else {
    put_bulk(b, s, false);
  }
}

static void decode_cp(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  bool reduces = emu_take(s, "reduce");
  if (!emu_take(s, "async") || (reduces && !emu_take(s, "bulk"))) emu_unknown(b, &original);
  if (reduces) {
    put_bulk(b, s, true);
  } else if (emu_take(s, "bulk")) {
    decode_bulk(b, s);
  } else if (emu_take(s, "mbarrier")) {
    put_copy_arrive(b, s);
  } else if (emu_take(s, "commit_group")) {
    emu_put(b, s, (emu_inst_t){.fn = emu_exec_copy_commit, .class = EMU_CLASS_CONTROL});
  } else if (emu_take(s, "wait_all")) {
    emu_put(b, s, (emu_inst_t){.fn = emu_exec_copy_wait, .class = EMU_CLASS_CONTROL, .mode = 1});
  } else if (emu_take(s, "wait_group")) {
    emu_put(b, s,
            (emu_inst_t){
                .fn = emu_exec_copy_wait, .class = EMU_CLASS_CONTROL, .offset = (int64_t)group_count(b, s)});
  } else {
    put_copy_async(b, s);
  }
}

/* --- mbarrier --- */

static bool take_mbarrier_op(emu_statement_t *s, emu_inst_t *inst) {
  static const struct {
    const char *name;
    emu_mbarrier_op_t op;
  } rows[] = {{"init", EMU_MBARRIER_INIT},        {"inval", EMU_MBARRIER_INVALIDATE},
              {"arrive", EMU_MBARRIER_ARRIVE},    {"arrive_drop", EMU_MBARRIER_DROP},
              {"test_wait", EMU_MBARRIER_TEST},   {"try_wait", EMU_MBARRIER_TEST},
              {"expect_tx", EMU_MBARRIER_EXPECT}, {"complete_tx", EMU_MBARRIER_COMPLETE}};
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    if (!emu_take(s, rows[n].name)) continue;
    inst->kind = (uint8_t)rows[n].op;
    return true;
  }
  return false;
}

/* mbarrier.pending_count.b64 d, state: the low bits of a state. */
static void put_pending_count(emu_builder_t *b, emu_statement_t *s) {
  uint32_t low = emu_frame_slot(b, 4);
  emu_operands(b, s, 2, 2);
  emu_put(b, s, (emu_inst_t){.fn = emu_exec_narrow, .arg = {low, emu_source(b, s, &s->operands[1], 8)}});
  emu_result_t result = emu_result(b, s, &s->operands[0], b32_type);
  emu_put(b, s,
          (emu_inst_t){.fn = emu_lane_op_find("and_b32")->fn,
                       .class = EMU_CLASS_INTEGER,
                       .arg = {result.offset, low, emu_constant(b, 0xfffff, 4)}});
  emu_written(b, s, &result);
}

/* The operands behind the address: a count, bytes, a state or a parity, and a time to wait. */
static void mbarrier_operands(emu_builder_t *b, emu_statement_t *s, emu_inst_t *inst, uint32_t at,
                              bool expects) {
  bool tests = inst->kind == EMU_MBARRIER_TEST, has = at < s->operand_count;
  bool needs = tests || expects || inst->kind == EMU_MBARRIER_INIT || inst->kind == EMU_MBARRIER_EXPECT ||
               inst->kind == EMU_MBARRIER_COMPLETE;
  emu_operands(b, s, at + needs, at + (inst->kind != EMU_MBARRIER_INVALIDATE) + tests);
  if (has) inst->arg[expects ? 3 : 2] = emu_source(b, s, &s->operands[at], tests && !inst->mode ? 8 : 4);
}

/* mbarrier.init [a], n; mbarrier.arrive state, [a]{, n}; mbarrier.test_wait p, [a], state */
static void decode_mbarrier(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  if (emu_take(s, "pending_count")) {
    put_pending_count(b, s);
    return;
  }
  emu_inst_t inst = {.fn = emu_exec_mbarrier, .class = EMU_CLASS_MEMORY, .bytes = 8, .vector = 1};
  if (!take_mbarrier_op(s, &inst)) emu_unknown(b, &original);
  bool arrives = inst.kind == EMU_MBARRIER_ARRIVE || inst.kind == EMU_MBARRIER_DROP;
  bool tests = inst.kind == EMU_MBARRIER_TEST, expects = arrives && emu_take(s, "expect_tx");
  inst.mode = tests && emu_take(s, "parity");
  emu_take(s, "noComplete");
  emu_take_order(s);
  inst.space = (uint8_t)emu_take_space(s);
  emu_take_hints(s);
  if (!emu_take(s, "b64") || s->part_count != 1) emu_unknown(b, &original);
  uint32_t at = arrives || tests;
  emu_operands(b, &original, at + 1, at + 3);
  emu_address(b, s, &s->operands[at], &inst, &inst.arg[1]);
  mbarrier_operands(b, s, &inst, at + 1, expects);
  if (at && (tests || s->operands[0].kind != EMU_OPERAND_NONE))
    inst.arg[0] = emu_result(b, s, &s->operands[0], tests ? predicate_type : b64_type).offset;
  emu_put(b, s, inst);
}

/* --- caches and clusters --- */

static void put_zero(emu_builder_t *b, emu_statement_t *s, emu_type_t type) {
  emu_result_t result = emu_result(b, s, &s->operands[0], type);
  emu_put(b, s,
          (emu_inst_t){.fn = emu_lane_op_find(type.bytes == 8 ? "mov_b64" : "mov_b32")->fn,
                       .class = EMU_CLASS_INTEGER,
                       .arg = {result.offset, emu_constant(b, 0, type.bytes)}});
  emu_written(b, s, &result);
}

/* A policy is for caches, which are not modelled. */
static void decode_createpolicy(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 1, 4);
  put_zero(b, s, b64_type);
}

static void decode_getctarank(emu_builder_t *b, emu_statement_t *s) {
  emu_operands(b, s, 2, 2);
  put_zero(b, s, b32_type);
}

/* mapa{.shared::cluster}.u32 d, a, block */
static void decode_mapa(emu_builder_t *b, emu_statement_t *s) {
  emu_statement_t original = *s;
  emu_take(s, "shared::cluster");
  emu_type_t type = emu_last_type(b, s, 0);
  const emu_lane_op_t *op = emu_find_op(s, type.name);
  if (!op) emu_unknown(b, &original);
  emu_operands(b, s, 3, 3);
  emu_inst_t inst = {.fn = op->fn, .class = op->class};
  inst.arg[1] = emu_source(b, s, &s->operands[1], type.bytes);
  inst.arg[2] = emu_source(b, s, &s->operands[2], 4);
  emu_result_t result = emu_result(b, s, &s->operands[0], type);
  inst.arg[0] = result.offset;
  emu_put(b, s, inst);
  emu_written(b, s, &result);
}

const emu_decoder_row_t emu_async_decoders[] = {
    {"cp", decode_cp},     {"mbarrier", decode_mbarrier},     {"createpolicy", decode_createpolicy},
    {"mapa", decode_mapa}, {"getctarank", decode_getctarank}, {NULL, NULL}};
