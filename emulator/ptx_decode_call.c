/* emulator/ptx_decode_call.c: decodes calls of functions, by name or through a pointer; see ptx_decode.h.
 *
 * A function's registers, parameters and locals have fixed places in its kernel, so a call copies arguments
 * there, jumps, and copies results back. Where caller and callee are in a cycle of calls, the caller's are
 * kept on a stack meanwhile. A call through a pointer is one guarded call by name for each function of the
 * module whose address is taken and that has as many arguments and results.
 */
#include "emulator/ptx_decode.h"

#include <string.h>

static void put_copy(emu_builder_t *b, const emu_statement_t *s, uint32_t to, uint32_t from, uint32_t bytes) {
  emu_put(b, s, (emu_inst_t){.fn = emu_exec_copy_local, .offset = to, .target = from, .arg = {bytes}});
}

static uint32_t call_variable(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *operand) {
  if (operand->kind != EMU_OPERAND_ADDRESS || operand->space != EMU_SPACE_LOCAL)
    emu_ptx_fail(b->m, s->line, "an argument of a call is no .param variable");
  return (uint32_t)operand->bits;
}

/* What a call passes; NULL for nothing. */
typedef struct {
  const emu_operand_t *results, *arguments;
} passed_t;

static uint32_t count_of(const emu_operand_t *list) { return list ? list->element_count : 0; }

static bool fits(const emu_instance_t *callee, passed_t passed) {
  return count_of(passed.results) == callee->result_count &&
         count_of(passed.arguments) == callee->parameter_count;
}

/* Copies the arguments and jumps. */
static void put_jump(emu_builder_t *b, const emu_statement_t *s, const emu_instance_t *callee,
                     passed_t passed) {
  uint32_t results = callee->result_count;
  for (uint32_t n = 0; n < callee->parameter_count; n++)
    put_copy(b, s, callee->parameters[results + n], call_variable(b, s, &passed.arguments->elements[n]),
             callee->parameter_bytes[results + n]);
  emu_put_control(b, s, (emu_inst_t){.fn = emu_exec_call, .arg = {callee->return_counter}});
  emu_fixup_t call = {(uint32_t)b->code_count - 1, EMU_UNKNOWN, callee->function->name, s->line};
  KILN_PUSH(&b->m->arena, b->calls, b->call_count, b->call_capacity, call);
}

/* Takes the caller's registers and memory back, and the results. args: where to, where from, how many bytes.
 */
static void put_pop(emu_builder_t *b, const emu_statement_t *s, const emu_instance_t *callee,
                    passed_t passed) {
  uint32_t results = callee->result_count, total = 0;
  uint32_t *args = KILN_NEW_ARRAY(&b->m->arena, uint32_t, 3 * results + 1);
  for (uint32_t n = 0; n < results; n++) {
    args[3 * n] = call_variable(b, s, &passed.results->elements[n]);
    args[3 * n + 1] = callee->parameters[n];
    args[3 * n + 2] = callee->parameter_bytes[n];
    total += callee->parameter_bytes[n];
  }
  if (total > b->kernel->saved.result_bytes) b->kernel->saved.result_bytes = total;
  emu_put(b, s, (emu_inst_t){.fn = emu_exec_pop, .args = args, .arg_count = results});
}

/* A guard's register may be another's after the call, so lanes without the guard branch around it. */
static void put_recursive_call(emu_builder_t *b, const emu_statement_t *s, const emu_instance_t *callee,
                               passed_t passed) {
  uint32_t around = EMU_UNKNOWN;
  emu_statement_t always = *s;
  if (s->guarded) {
    always.guarded = (int8_t)-s->guarded;
    emu_put_control(b, &always, (emu_inst_t){.fn = emu_exec_branch});
    around = (uint32_t)b->code_count - 1;
    always.guarded = 0;
  }
  emu_put(b, &always, (emu_inst_t){.fn = emu_exec_push});
  put_jump(b, &always, callee, passed);
  put_pop(b, &always, callee, passed);
  if (!s->guarded) return;
  emu_begin_block(b);
  b->code[around].target = emu_next_pc(b);
}

static void put_call(emu_builder_t *b, const emu_statement_t *s, const emu_instance_t *callee,
                     passed_t passed) {
  uint32_t results = callee->result_count;
  if (b->current && b->current->function->recursive && callee->function->recursive) {
    put_recursive_call(b, s, callee, passed);
    return;
  }
  put_jump(b, s, callee, passed);
  for (uint32_t n = 0; n < results; n++)
    put_copy(b, s, call_variable(b, s, &passed.results->elements[n]), callee->parameters[n],
             callee->parameter_bytes[n]);
}

/* A predicate for lanes that need no function (any more): at first those whose guard does not hold. */
static uint32_t put_served(emu_builder_t *b, const emu_statement_t *s) {
  uint32_t served = emu_frame_slot(b, 0), from = s->guarded ? s->guard : emu_constant(b, 0, 0);
  emu_inst_t inst = {.fn = emu_exec_mov_pred, .arg = {served, from}, .line = s->line};
  if (s->guarded > 0) {
    inst.fn = emu_exec_logic_pred;
    inst.kind = 3; /* not */
  }
  emu_emit(b, inst);
  return served;
}

/* call (results), register, (arguments), prototype: for each function that it may be, (1) p = the pointer is
 * its address and the lane is not served, (2) @p call, (3) served |= p. Who is not served in the end faults.
 */
static void put_pointer_call(emu_builder_t *b, const emu_statement_t *s, const emu_operand_t *pointer,
                             passed_t passed) {
  uint32_t served = put_served(b, s), address = emu_source(b, s, pointer, 8);
  for (size_t n = 0; n < b->m->function_count; n++) {
    const emu_function_t *function = &b->m->functions[n];
    if (!function->addressed || function->is_entry) continue;
    const emu_instance_t *callee = emu_instance(b, function->name, s->line);
    if (!fits(callee, passed)) continue;
    uint64_t own = emu_ptx_function_address(b->m, function->name, strlen(function->name));
    uint32_t p = emu_frame_slot(b, 0);
    emu_emit(b, (emu_inst_t){.fn = emu_lane_op_find("setp_eq_b64")->fn,
                             .class = EMU_CLASS_INTEGER,
                             .kind = 1, /* and */
                             .mode = 1, /* not */
                             .arg = {p, 0, address, emu_constant(b, own, 8), served},
                             .line = s->line});
    emu_statement_t guarded = *s;
    guarded.guarded = 1;
    guarded.guard = p;
    put_call(b, &guarded, callee, passed);
    emu_emit(b,
             (emu_inst_t){
                 .fn = emu_exec_logic_pred, .kind = 1, .arg = {served, served, p}, .line = s->line}); /* or */
  }
  emu_statement_t lost = *s;
  lost.guarded = -1;
  lost.guard = served;
  emu_put(b, &lost, (emu_inst_t){.fn = emu_exec_lost_call, .class = EMU_CLASS_CONTROL, .arg = {address}});
}

static void decode_call(emu_builder_t *b, emu_statement_t *s) {
  emu_take(s, "uni");
  uint32_t at = 0;
  passed_t passed = {0};
  if (s->part_count != 1) emu_unknown(b, s);
  if (at < s->operand_count && s->operands[at].kind == EMU_OPERAND_LIST) passed.results = &s->operands[at++];
  if (at == s->operand_count) emu_unknown(b, s);
  const emu_operand_t *target = &s->operands[at++];
  if (at < s->operand_count && s->operands[at].kind == EMU_OPERAND_LIST)
    passed.arguments = &s->operands[at++];
  if (target->kind == EMU_OPERAND_REGISTER) {
    put_pointer_call(b, s, target, passed);
    return;
  }
  if (target->kind != EMU_OPERAND_NAME || at != s->operand_count) emu_unknown(b, s);
  if (emu_decode_builtin_call(b, s, target->text, passed.results, passed.arguments)) return;
  emu_instance_t *callee = emu_instance(b, target->text, s->line);
  if (!fits(callee, passed))
    emu_ptx_fail(b->m, s->line, "'%s' is called with %u arguments for %u results", target->text,
                 count_of(passed.arguments), count_of(passed.results));
  put_call(b, s, callee, passed);
}

const emu_decoder_row_t emu_call_decoders[] = {{"call", decode_call}, {NULL, NULL}};
