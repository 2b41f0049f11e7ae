/* emulator/ptx_body.c: reads the bodies of a kernel and of the functions it calls: declarations, labels,
 * operands.
 *
 * Called by ptx_module.c for each entry; hands each instruction to emu_decode. When all bodies are read,
 * branches get their targets and the frame its constants. See ptx_body.h and ptx.h.
 */
#include "emulator/ptx_body.h"

#include <stdlib.h>
#include <string.h>

/* --- symbols --- */

static void push_scope(emu_builder_t *b) {
  if (b->scope_count == sizeof b->scopes / sizeof b->scopes[0])
    emu_ptx_fail(b->m, emu_ptx_peek(b->m)->line, "blocks nest too deep");
  b->scopes[b->scope_count++] = kiln_map_create(&b->m->arena);
}

static emu_symbol_t *define(emu_builder_t *b, const char *name, emu_symbol_t symbol) {
  emu_symbol_t *stored = kiln_arena_copy(&b->m->arena, &symbol, sizeof symbol);
  bool added;
  *kiln_map_put(b->scopes[b->scope_count - 1], name, strlen(name), &added) = (uint64_t)(uintptr_t)stored;
  return stored;
}

static emu_symbol_t *lookup_exact(const emu_builder_t *b, const char *name, size_t length) {
  for (uint32_t n = b->scope_count; n-- > 0;) {
    uint64_t *found = kiln_map_find(b->scopes[n], name, length);
    if (found) return (emu_symbol_t *)(uintptr_t)*found;
  }
  return NULL;
}

/* A register by name: "%r12" is the 13th of the family "%r<57>". */
static emu_symbol_t *lookup(const emu_builder_t *b, const char *name, uint32_t *out_index) {
  size_t length = strlen(name), stem = length;
  *out_index = 0;
  emu_symbol_t *symbol = lookup_exact(b, name, length);
  if (symbol && symbol->kind != EMU_SYMBOL_FAMILY) return symbol;
  while (stem > 0 && name[stem - 1] >= '0' && name[stem - 1] <= '9') stem--;
  if (stem == length || length - stem > 9) return NULL;
  symbol = lookup_exact(b, name, stem);
  *out_index = (uint32_t)strtoul(name + stem, NULL, 10);
  return symbol && symbol->kind == EMU_SYMBOL_FAMILY && *out_index < symbol->count ? symbol : NULL;
}

/* ".reg .b32 %r<57>, a, b;" */
static void read_registers(emu_builder_t *b) {
  emu_module_t *m = b->m;
  emu_type_t type;
  const emu_token_t *token = emu_ptx_next(m);
  if (token->length < 2 || !emu_ptx_type(token->text + 1, token->length - 1, &type))
    emu_ptx_fail(m, token->line, "registers of type '%.*s'", (int)token->length, token->text);
  do {
    char *name = emu_ptx_word(m, "a register's name");
    emu_symbol_t symbol = {.kind = EMU_SYMBOL_REGISTER, .type = type, .count = 1};
    if (emu_ptx_accept(m, "<")) {
      uint64_t count = emu_ptx_integer(m);
      if (count > 1u << 20) emu_ptx_fail(m, token->line, "too many registers");
      symbol.kind = EMU_SYMBOL_FAMILY;
      symbol.count = (uint32_t)count;
      emu_ptx_expect(m, ">");
    }
    symbol.offsets = KILN_NEW_ARRAY(&m->arena, uint32_t, symbol.count + 1);
    symbol.spans = KILN_NEW_ARRAY(&m->arena, uint32_t, symbol.count + 1);
    define(b, name, symbol);
  } while (emu_ptx_accept(m, ","));
  emu_ptx_expect(m, ";");
}

static uint64_t place(uint32_t *end, uint64_t bytes, uint64_t align, uint64_t limit, emu_builder_t *b,
                      const char *what) {
  uint64_t offset = (*end + align - 1) & ~(align - 1);
  if (bytes > limit || offset + bytes > limit)
    emu_ptx_fail(b->m, emu_ptx_peek(b->m)->line, "more than %llu bytes of %s memory",
                 (unsigned long long)limit, what);
  *end = (uint32_t)(offset + bytes);
  return offset;
}

/* A place in local memory for a variable or parameter of `owner`, NULL for the kernel itself. */
static uint32_t place_local(emu_builder_t *b, const emu_instance_t *owner, uint64_t bytes, uint64_t align) {
  emu_saved_t *saved = &b->kernel->saved;
  emu_saved_range_t range = {.bytes = (uint32_t)bytes};
  range.offset =
      (uint32_t)place(&b->kernel->local_bytes, bytes, align < 8 ? 8 : align, EMU_MAX_LOCAL_BYTES, b, "local");
  if (owner && owner->function->recursive)
    KILN_PUSH(&b->m->arena, saved->ranges, saved->range_count, saved->range_capacity, range);
  return range.offset;
}

static void read_variable(emu_builder_t *b, emu_space_t space) {
  emu_declaration_t d = emu_ptx_declaration(b->m);
  emu_symbol_t symbol = {.kind = EMU_SYMBOL_VARIABLE, .space = space, .bytes = d.bytes};
  if (space == EMU_SPACE_SHARED)
    symbol.address = place(&b->kernel->shared_bytes, d.bytes, d.align, EMU_MAX_SHARED_BYTES, b, "shared");
  else
    symbol.address = place_local(b, b->current, d.bytes, d.align);
  define(b, d.name, symbol);
  emu_ptx_expect(b->m, ";");
}

/* A variable that is on the stack of a GPU. */
static void read_local(emu_builder_t *b) {
  uint32_t before = b->kernel->local_bytes;
  read_variable(b, EMU_SPACE_LOCAL);
  if (b->current && b->current->function->recursive)
    b->kernel->saved.frame_bytes += b->kernel->local_bytes - before;
}

/* Module-scope names: variables in global and constant memory, and shared ones, which get a place on first
 * use. */
static emu_symbol_t *lookup_module(emu_builder_t *b, const char *name) {
  emu_module_t *m = b->m;
  emu_symbol_t symbol = {.kind = EMU_SYMBOL_VARIABLE, .space = EMU_SPACE_GLOBAL};
  size_t n = 0;
  while (n < m->variable_count && strcmp(m->variables[n].name, name) != 0) n++;
  if (n < m->variable_count) {
    symbol.address = m->variables[n].address;
  } else {
    for (n = 0; n < m->shared_count && strcmp(m->shared[n].name, name) != 0;) n++;
    if (n == m->shared_count) return NULL;
    symbol.space = EMU_SPACE_SHARED;
    if (m->shared[n].dynamic)
      symbol.kind = EMU_SYMBOL_DYNAMIC_SHARED;
    else
      symbol.address = place(&b->kernel->shared_bytes, m->shared[n].bytes, m->shared[n].align,
                             EMU_MAX_SHARED_BYTES, b, "shared");
  }
  uint32_t scope = b->scope_count;
  b->scope_count = 1; /* known for the whole kernel */
  emu_symbol_t *stored = define(b, name, symbol);
  b->scope_count = scope;
  return stored;
}

/* --- operands --- */

/* Registers of the environment that have one value here: no debugger, no profiler, no cluster, no graph. */
static bool find_fixed(const char *name, emu_operand_t *out_operand) {
  static const struct {
    const char *stem;
    uint32_t value;
  } rows[] = {{"WARP_SZ", 32},
              {"%pm", 0},
              {"%envreg", 0},
              {"%reserved_smem_offset", 0},
              {"%current_graph_exec", 0},
              {"%is_explicit_cluster", 0}};
  for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
    if (strncmp(name, rows[n].stem, strlen(rows[n].stem)) != 0) continue;
    *out_operand = (emu_operand_t){.kind = EMU_OPERAND_IMMEDIATE, .bits = rows[n].value};
    return true;
  }
  return false;
}

static bool find_special(const char *name, uint32_t *out_index) {
  static const char *const names[] = {
#define EMU_SPECIAL(id, text) text,
      EMU_SPECIALS(EMU_SPECIAL)
#undef EMU_SPECIAL
#define EMU_CLOCK(id, text) text,
          EMU_CLOCKS(EMU_CLOCK)
#undef EMU_CLOCK
  };
  for (*out_index = 0; *out_index < sizeof names / sizeof names[0]; ++*out_index)
    if (strcmp(names[*out_index], name) == 0) return true;
  return false;
}

/* The register's place in the frame, made at its first use; each use extends its span. */
static void use_register(emu_builder_t *b, emu_symbol_t *symbol, uint32_t index, emu_operand_t *operand) {
  uint32_t width = emu_lane_bytes(symbol->type);
  if (!symbol->offsets[index]) {
    operand->first_use = &symbol->offsets[index];
    symbol->offsets[index] = emu_frame_slot(b, width);
    symbol->spans[index] = (uint32_t)b->span_count;
    KILN_PUSH(&b->m->arena, b->spans, b->span_count, b->span_capacity,
              ((emu_span_t){.first = emu_next_pc(b), .words = width / 4}));
  }
  b->spans[symbol->spans[index]].last = emu_next_pc(b);
  operand->offset = symbol->offsets[index];
  operand->span = symbol->spans[index];
}

static emu_operand_t name_operand(emu_builder_t *b, char *name) {
  emu_operand_t operand = {.kind = EMU_OPERAND_NAME, .text = name};
  uint32_t index;
  emu_symbol_t *symbol = lookup(b, name, &index);
  if (!symbol && name[0] == '%' && find_special(name, &index)) {
    operand.kind = EMU_OPERAND_SPECIAL;
    operand.bits = index;
    return operand;
  }
  if (!symbol) symbol = lookup_module(b, name);
  if (!symbol) {
    find_fixed(name, &operand);
    return operand;
  }
  if (symbol->kind == EMU_SYMBOL_REGISTER || symbol->kind == EMU_SYMBOL_FAMILY) {
    operand.kind = EMU_OPERAND_REGISTER;
    operand.type = symbol->type;
    use_register(b, symbol, index, &operand);
    return operand;
  }
  operand.kind = EMU_OPERAND_ADDRESS;
  operand.bits = symbol->address;
  operand.space = symbol->space;
  operand.dynamic_shared = symbol->kind == EMU_SYMBOL_DYNAMIC_SHARED;
  return operand;
}

/* A word, with the ".x" of "%tid.x". */
static char *operand_name(emu_module_t *m) {
  const emu_token_t *first = emu_ptx_next(m), *second = emu_ptx_peek(m);
  size_t length = first->length;
  if (second->kind == EMU_TOKEN_WORD && second->text[0] == '.' && second->touches) {
    length += second->length;
    emu_ptx_next(m);
  }
  return kiln_arena_strndup(&m->arena, first->text, length);
}

static emu_operand_t read_operand(emu_builder_t *b, unsigned depth);

static emu_operand_t read_elements(emu_builder_t *b, emu_operand_kind_t kind, const char *end,
                                   unsigned depth) {
  emu_operand_t operand = {.kind = kind};
  operand.elements = KILN_NEW_ARRAY(&b->m->arena, emu_operand_t, EMU_MAX_VECTOR);
  if (emu_ptx_accept(b->m, end)) return operand;
  do {
    if (operand.element_count == EMU_MAX_VECTOR)
      emu_ptx_fail(b->m, emu_ptx_peek(b->m)->line, "more than %d elements", EMU_MAX_VECTOR);
    operand.elements[operand.element_count++] = read_operand(b, depth + 1);
  } while (emu_ptx_accept(b->m, ","));
  emu_ptx_expect(b->m, end);
  return operand;
}

static emu_operand_t read_memory(emu_builder_t *b) {
  emu_operand_t operand = {.kind = EMU_OPERAND_MEMORY, .element_count = 1};
  operand.elements = KILN_NEW_ARRAY(&b->m->arena, emu_operand_t, 1);
  operand.elements[0] = read_operand(b, 1);
  if (emu_ptx_accept(b->m, "+"))
    operand.bits = emu_ptx_integer(b->m);
  else if (emu_ptx_accept(b->m, "-"))
    operand.bits = 0 - emu_ptx_integer(b->m);
  emu_ptx_expect(b->m, "]");
  return operand;
}

static emu_operand_t number_operand(const emu_token_t *token, bool negative) {
  emu_operand_t operand = {
      .kind = EMU_OPERAND_IMMEDIATE, .bits = token->bits, .float_bytes = token->float_bytes};
  if (negative)
    operand.bits = token->float_bytes ? token->bits ^ 1ull << (8 * token->float_bytes - 1) : 0 - token->bits;
  return operand;
}

/* Depth is bounded: vectors and lists hold plain operands. */
static emu_operand_t read_operand(emu_builder_t *b, unsigned depth) {
  emu_module_t *m = b->m;
  const emu_token_t *token = emu_ptx_peek(m);
  if (depth > 2) emu_ptx_fail(m, token->line, "operands nest too deep");
  if (token->kind == EMU_TOKEN_WORD) {
    char *name = operand_name(m);
    emu_operand_t operand = {.kind = EMU_OPERAND_NONE};
    if (strcmp(name, "_") != 0) operand = name_operand(b, name);
    if (emu_ptx_accept(m, "|")) {
      emu_operand_t second = read_operand(b, depth + 1);
      operand.second = kiln_arena_copy(&m->arena, &second, sizeof second);
    }
    if (operand.kind == EMU_OPERAND_ADDRESS && depth == 0 && emu_ptx_accept(m, "+"))
      operand.bits += emu_ptx_integer(m);
    return operand;
  }
  emu_ptx_next(m);
  if (token->kind == EMU_TOKEN_NUMBER) return number_operand(token, false);
  if (emu_token_is(token, "-")) {
    token = emu_ptx_next(m);
    if (token->kind == EMU_TOKEN_NUMBER) return number_operand(token, true);
  }
  if (emu_token_is(token, "!")) {
    emu_operand_t operand = read_operand(b, depth + 1);
    operand.negated = true;
    return operand;
  }
  if (emu_token_is(token, "{")) return read_elements(b, EMU_OPERAND_VECTOR, "}", depth);
  if (emu_token_is(token, "(")) return read_elements(b, EMU_OPERAND_LIST, ")", depth);
  if (emu_token_is(token, "[")) return read_memory(b);
  emu_ptx_fail(m, token->line, "expected an operand, found '%.*s'", (int)token->length, token->text);
}

/* --- statements --- */

static void read_guard(emu_builder_t *b, emu_statement_t *s) {
  if (!emu_ptx_accept(b->m, "@")) return;
  bool negated = emu_ptx_accept(b->m, "!");
  emu_operand_t p = read_operand(b, 2);
  if (p.kind != EMU_OPERAND_REGISTER || p.type.kind != EMU_T_PRED)
    emu_ptx_fail(b->m, s->line, "a guard is a predicate");
  s->guarded = negated ? -1 : 1;
  s->guard = p.offset;
}

static void read_opcode(emu_module_t *m, emu_statement_t *s) {
  s->parts[s->part_count++] = emu_ptx_word(m, "an instruction");
  while (emu_ptx_peek(m)->kind == EMU_TOKEN_WORD && emu_ptx_peek(m)->text[0] == '.' &&
         emu_ptx_peek(m)->touches) {
    if (s->part_count == EMU_MAX_PARTS) emu_ptx_fail(m, s->line, "too many modifiers");
    const emu_token_t *token = emu_ptx_next(m);
    s->parts[s->part_count++] = kiln_arena_strndup(&m->arena, token->text + 1, token->length - 1);
  }
}

static void read_instruction(emu_builder_t *b) {
  emu_module_t *m = b->m;
  emu_statement_t s = {.line = emu_ptx_peek(m)->line};
  read_guard(b, &s);
  read_opcode(m, &s);
  while (!emu_token_is(emu_ptx_peek(m), ";")) {
    if (s.operand_count == EMU_MAX_OPERANDS) emu_ptx_fail(m, s.line, "too many operands");
    s.operands[s.operand_count++] = read_operand(b, 0);
    if (!emu_ptx_accept(m, ",")) break;
  }
  emu_ptx_expect(m, ";");
  emu_decode(b, &s);
}

static bool at_label(const emu_module_t *m) {
  return m->tokens.tokens[m->at].kind == EMU_TOKEN_WORD && m->tokens.tokens[m->at].text[0] != '.' &&
         emu_token_is(&m->tokens.tokens[m->at + 1], ":");
}

/* "list: .branchtargets a, b, c;": the names are kept for the brx.idx that uses them. */
static void read_targets(emu_builder_t *b, const char *name) {
  emu_operand_t list = {.kind = EMU_OPERAND_LIST};
  size_t capacity = 0, count = 0;
  do {
    emu_operand_t target = {.kind = EMU_OPERAND_NAME, .text = emu_ptx_word(b->m, "a label")};
    KILN_PUSH(&b->m->arena, list.elements, count, capacity, target);
  } while (emu_ptx_accept(b->m, ","));
  emu_ptx_expect(b->m, ";");
  list.element_count = (uint32_t)count;
  bool added;
  *kiln_map_put(b->list_index, name, strlen(name), &added) =
      (uint64_t)(uintptr_t)kiln_arena_copy(&b->m->arena, &list, sizeof list);
}

static void read_label(emu_builder_t *b) {
  uint32_t line = emu_ptx_peek(b->m)->line;
  char *name = emu_ptx_word(b->m, "a label");
  emu_ptx_expect(b->m, ":");
  if (emu_ptx_accept(b->m, ".branchtargets")) {
    read_targets(b, name);
    return;
  }
  bool added;
  emu_begin_block(b);
  uint64_t *pc = kiln_map_put(b->label_index, name, strlen(name), &added);
  if (!added) emu_ptx_fail(b->m, line, "label '%s' is defined twice", name);
  *pc = emu_next_pc(b);
}

static void skip_statement(emu_module_t *m) {
  uint32_t line = emu_ptx_peek(m)->line;
  while (!emu_ptx_accept(m, ";"))
    if (emu_ptx_next(m)->kind == EMU_TOKEN_END) emu_ptx_fail(m, line, "a statement does not end");
}

static void skip_location(emu_module_t *m) {
  uint32_t line = emu_ptx_next(m)->line;
  while (emu_ptx_peek(m)->line == line && emu_ptx_peek(m)->kind != EMU_TOKEN_END) emu_ptx_next(m);
}

/* Statements up to the "}" that closes the body; nested blocks open scopes. */
static void read_statements(emu_builder_t *b) {
  emu_module_t *m = b->m;
  uint32_t outer = b->scope_count;
  emu_ptx_expect(m, "{");
  push_scope(b);
  while (b->scope_count > outer) {
    const emu_token_t *token = emu_ptx_peek(m);
    if (token->kind == EMU_TOKEN_END) emu_ptx_fail(m, token->line, "a body does not end");
    if (emu_ptx_accept(m, "{"))
      push_scope(b);
    else if (emu_ptx_accept(m, "}"))
      b->scope_count--;
    else if (emu_ptx_accept(m, ";"))
      continue;
    else if (emu_ptx_accept(m, ".reg"))
      read_registers(b);
    else if (emu_ptx_accept(m, ".local"))
      read_local(b);
    else if (emu_ptx_accept(m, ".param"))
      read_variable(b, EMU_SPACE_LOCAL);
    else if (emu_ptx_accept(m, ".shared"))
      read_variable(b, EMU_SPACE_SHARED);
    else if (emu_token_is(token, ".loc"))
      skip_location(m);
    else if (emu_token_is(token, ".pragma") || emu_token_is(token, ".callprototype"))
      skip_statement(m);
    else if (at_label(m))
      read_label(b);
    else
      read_instruction(b);
  }
}

/* --- parameters, functions --- */

static void read_kernel_parameters(emu_builder_t *b, const emu_function_t *entry) {
  emu_module_t *m = b->m;
  emu_kernel_t *kernel = b->kernel;
  size_t capacity = 0, count = 0;
  m->at = entry->parameters;
  if (!emu_ptx_accept(m, "(")) return;
  while (!emu_ptx_accept(m, ")")) {
    emu_ptx_accept(m, ",");
    emu_ptx_expect(m, ".param");
    emu_declaration_t d = emu_ptx_declaration(m);
    uint64_t offset = place(&kernel->param_bytes, d.bytes, d.align, 32764, b, "parameter");
    emu_param_t param = {d.name, (uint32_t)offset, (uint32_t)d.bytes, (uint32_t)d.align};
    KILN_PUSH(&m->arena, kernel->params, count, capacity, param);
    define(b, d.name,
           (emu_symbol_t){.kind = EMU_SYMBOL_VARIABLE, .space = EMU_SPACE_PARAM, .address = offset});
  }
  kernel->param_count = (uint32_t)count;
}

static void read_directives(emu_builder_t *b, const emu_function_t *entry) {
  emu_module_t *m = b->m;
  b->kernel->max_threads = 1024;
  while (m->at < entry->body) {
    if (!emu_ptx_accept(m, ".maxntid") && !emu_ptx_accept(m, ".reqntid")) {
      emu_ptx_next(m);
      continue;
    }
    uint64_t threads = 1;
    do threads *= emu_ptx_integer(m) & 2047;
    while (emu_ptx_accept(m, ","));
    if (threads && threads < 1024) b->kernel->max_threads = (uint32_t)threads;
  }
}

static void instance_slot(emu_builder_t *b, emu_instance_t *instance, emu_declaration_t d, size_t *capacity) {
  uint32_t count = instance->result_count + instance->parameter_count;
  if (count == *capacity) {
    *capacity = *capacity ? 2 * *capacity : 8;
    uint32_t *offsets = KILN_NEW_ARRAY(&b->m->arena, uint32_t, *capacity);
    uint32_t *bytes = KILN_NEW_ARRAY(&b->m->arena, uint32_t, *capacity);
    if (count) {
      memcpy(offsets, instance->parameters, count * sizeof *offsets);
      memcpy(bytes, instance->parameter_bytes, count * sizeof *bytes);
    }
    instance->parameters = offsets;
    instance->parameter_bytes = bytes;
  }
  instance->parameters[count] = place_local(b, instance, d.bytes, d.align);
  instance->parameter_bytes[count] = (uint32_t)d.bytes;
}

static void read_signature(emu_builder_t *b, emu_instance_t *instance) {
  emu_module_t *m = b->m;
  size_t resume = m->at, capacity = 0;
  for (int results = 1; results >= 0; results--) {
    m->at = results ? instance->function->results : instance->function->parameters;
    if ((results && !m->at) || !emu_ptx_accept(m, "(")) continue;
    while (!emu_ptx_accept(m, ")")) {
      emu_ptx_accept(m, ",");
      emu_ptx_expect(m, ".param");
      instance_slot(b, instance, emu_ptx_declaration(m), &capacity);
      ++*(results ? &instance->result_count : &instance->parameter_count);
    }
  }
  m->at = resume;
}

emu_instance_t *emu_instance(emu_builder_t *b, const char *name, uint32_t line) {
  emu_module_t *m = b->m;
  for (uint32_t n = 0; n < b->instance_count; n++)
    if (strcmp(b->instances[n]->function->name, name) == 0) return b->instances[n];
  const emu_function_t *function = NULL;
  for (size_t n = 0; n < m->function_count; n++)
    if (strcmp(m->functions[n].name, name) == 0 && (!function || m->functions[n].body))
      function = &m->functions[n];
  if (!function || !function->body) emu_ptx_fail(m, line, "call of '%s', which has no body", name);
  if (b->instance_count == sizeof b->instances / sizeof b->instances[0])
    emu_ptx_fail(m, line, "too many functions");
  emu_instance_t *instance = KILN_NEW(&m->arena, emu_instance_t);
  instance->function = function;
  instance->entry = EMU_UNKNOWN;
  instance->return_counter = emu_slot_of(b, instance, 4);
  b->instances[b->instance_count++] = instance;
  read_signature(b, instance);
  return instance;
}

/* Names a function's formal parameters in its scope. */
static void define_formals(emu_builder_t *b, const emu_instance_t *instance) {
  emu_module_t *m = b->m;
  uint32_t n = 0;
  for (int results = 1; results >= 0; results--) {
    m->at = results ? instance->function->results : instance->function->parameters;
    if ((results && !m->at) || !emu_ptx_accept(m, "(")) continue;
    while (!emu_ptx_accept(m, ")")) {
      emu_ptx_accept(m, ",");
      emu_ptx_expect(m, ".param");
      emu_symbol_t symbol = {
          .kind = EMU_SYMBOL_VARIABLE, .space = EMU_SPACE_LOCAL, .address = instance->parameters[n++]};
      define(b, emu_ptx_declaration(m).name, symbol);
    }
  }
}

static void resolve_branches(emu_builder_t *b) {
  for (size_t n = 0; n < b->fixup_count; n++) {
    const emu_fixup_t *fixup = &b->fixups[n];
    uint64_t *pc = kiln_map_find(b->label_index, fixup->name, strlen(fixup->name));
    if (!pc) emu_ptx_fail(b->m, fixup->line, "no label '%s'", fixup->name);
    if (fixup->index == EMU_UNKNOWN)
      b->code[fixup->inst].target = (uint32_t)*pc;
    else
      ((uint32_t *)(uintptr_t)b->code[fixup->inst].args)[fixup->index] = (uint32_t)*pc;
  }
  b->fixup_count = 0;
}

/* Reads one body; falling off its end returns. */
static void read_body(emu_builder_t *b, const emu_function_t *function) {
  b->label_index = kiln_map_create(&b->m->arena);
  b->list_index = kiln_map_create(&b->m->arena);
  b->m->at = function->body;
  emu_count_definitions(b);
  emu_begin_block(b);
  read_statements(b);
  emu_statement_t end = {.parts = {"ret"}, .part_count = 1, .line = function->line};
  emu_decode(b, &end);
  resolve_branches(b);
}

/* Functions reached so far are read until none is left; each is in the code once. */
static void read_functions(emu_builder_t *b) {
  for (uint32_t n = 0; n < b->instance_count; n++) {
    b->current = b->instances[n];
    b->current->entry = emu_next_pc(b);
    push_scope(b);
    define_formals(b, b->current);
    read_body(b, b->current->function);
    b->scope_count--;
  }
  for (size_t n = 0; n < b->call_count; n++)
    b->code[b->calls[n].inst].target = emu_instance(b, b->calls[n].name, b->calls[n].line)->entry;
}

static void finish(emu_builder_t *b) {
  emu_kernel_t *kernel = b->kernel;
  kernel->shared_bytes = (kernel->shared_bytes + 15) & ~15u;
  for (size_t n = 0; n < b->dynamic_count; n++)
    b->constants[b->dynamic_constants[n]].bits += kernel->shared_bytes;
  for (size_t n = 0; n < b->block_count; n++) {
    const emu_basic_block_t *block = &b->blocks[n];
    b->code[block->first].arg[0] = block->first;
    b->code[block->first].arg[1] = block->instructions;
  }
  emu_ptx_finish_saved(&kernel->saved);
  kernel->code = b->code;
  kernel->register_estimate = emu_estimate_registers(b);
  kernel->code_count = (uint32_t)b->code_count;
  kernel->blocks = b->blocks;
  kernel->block_count = (uint32_t)b->block_count;
  kernel->setup = b->setup;
  kernel->setup_count = (uint32_t)b->setup_count;
  kernel->constants = b->constants;
  kernel->constant_count = (uint32_t)b->constant_count;
  kernel->local_bytes = (kernel->local_bytes + 15) & ~15u;
  kernel->frame_bytes = (kernel->frame_bytes + 63) & ~63u;
}

void emu_ptx_kernel(emu_module_t *m, const emu_function_t *entry, emu_kernel_t *out_kernel) {
  emu_builder_t b = {.m = m, .kernel = out_kernel, .constant_index = kiln_map_create(&m->arena)};
  *out_kernel =
      (emu_kernel_t){.name = entry->name, .source = m->source, .frame_bytes = 64}; /* 0: no offset */
  push_scope(&b);
  push_scope(&b);
  read_kernel_parameters(&b, entry);
  read_directives(&b, entry);
  read_body(&b, entry);
  b.scope_count = 1;
  read_functions(&b);
  finish(&b);
}
