/* emulator/ptx_module.c: loads a PTX module: its directives and variables, then each entry through
 * ptx_body.c.
 *
 * Called by the driver (cuModuleLoadData). Variables are laid out and written to device memory first, so that
 * their addresses are plain constants in the code. See ptx.h.
 */
#include "base/status.h"
#include "emulator/ptx.h"
#include "emulator/ptx_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void emu_ptx_fail(emu_module_t *m, uint32_t line, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  m->error = kiln_arena_printf(&m->arena, "PTX line %u: %s", line, text);
  longjmp(m->failure, 1);
}

const emu_token_t *emu_ptx_peek(const emu_module_t *m) { return &m->tokens.tokens[m->at]; }

const emu_token_t *emu_ptx_next(emu_module_t *m) {
  const emu_token_t *token = emu_ptx_peek(m);
  if (token->kind != EMU_TOKEN_END) m->at++;
  return token;
}

bool emu_ptx_accept(emu_module_t *m, const char *text) {
  if (!emu_token_is(emu_ptx_peek(m), text)) return false;
  emu_ptx_next(m);
  return true;
}

void emu_ptx_expect(emu_module_t *m, const char *text) {
  const emu_token_t *token = emu_ptx_next(m);
  if (!emu_token_is(token, text))
    emu_ptx_fail(m, token->line, "expected '%s', found '%.*s'", text, (int)token->length, token->text);
}

char *emu_ptx_word(emu_module_t *m, const char *what) {
  const emu_token_t *token = emu_ptx_next(m);
  if (token->kind != EMU_TOKEN_WORD)
    emu_ptx_fail(m, token->line, "expected %s, found '%.*s'", what, (int)token->length, token->text);
  return kiln_arena_strndup(&m->arena, token->text, token->length);
}

uint64_t emu_ptx_integer(emu_module_t *m) {
  bool negative = emu_ptx_accept(m, "-");
  const emu_token_t *token = emu_ptx_next(m);
  if (token->kind != EMU_TOKEN_NUMBER || token->float_bytes)
    emu_ptx_fail(m, token->line, "expected an integer, found '%.*s'", (int)token->length, token->text);
  return negative ? 0 - token->bits : token->bits;
}

bool emu_ptx_type(const char *name, size_t length, emu_type_t *out_type) {
  static const emu_type_t types[] = {
      {"pred", EMU_T_PRED, 0},      {"b8", EMU_T_BITS, 1},      {"b16", EMU_T_BITS, 2},
      {"b32", EMU_T_BITS, 4},       {"b64", EMU_T_BITS, 8},     {"b128", EMU_T_BITS, 16},
      {"u8", EMU_T_UNSIGNED, 1},    {"u16", EMU_T_UNSIGNED, 2}, {"u32", EMU_T_UNSIGNED, 4},
      {"u64", EMU_T_UNSIGNED, 8},   {"s8", EMU_T_SIGNED, 1},    {"s16", EMU_T_SIGNED, 2},
      {"s32", EMU_T_SIGNED, 4},     {"s64", EMU_T_SIGNED, 8},   {"f16", EMU_T_FLOAT, 2},
      {"bf16", EMU_T_FLOAT, 2},     {"f32", EMU_T_FLOAT, 4},    {"tf32", EMU_T_FLOAT, 4},
      {"f64", EMU_T_FLOAT, 8},      {"f16x2", EMU_T_FLOAT, 4},  {"bf16x2", EMU_T_FLOAT, 4},
      {"u16x2", EMU_T_UNSIGNED, 4}, {"s16x2", EMU_T_SIGNED, 4}, {"e4m3x2", EMU_T_FLOAT, 2},
      {"e5m2x2", EMU_T_FLOAT, 2},
  };
  for (size_t n = 0; n < sizeof types / sizeof types[0]; n++) {
    if (strlen(types[n].name) != length || memcmp(types[n].name, name, length) != 0) continue;
    *out_type = types[n];
    return true;
  }
  return false;
}

/* Takes ".u32" and the like when it is next. */
static bool accept_type(emu_module_t *m, emu_type_t *out_type) {
  const emu_token_t *token = emu_ptx_peek(m);
  if (token->length < 2 || token->text[0] != '.' ||
      !emu_ptx_type(token->text + 1, token->length - 1, out_type))
    return false;
  emu_ptx_next(m);
  return true;
}

emu_declaration_t emu_ptx_declaration(emu_module_t *m) {
  emu_declaration_t d = {0};
  uint64_t vector = 1;
  while (!accept_type(m, &d.type)) {
    const emu_token_t *token = emu_ptx_next(m);
    if (emu_token_is(token, ".align"))
      d.align = emu_ptx_integer(m);
    else if (emu_token_is(token, ".v2"))
      vector = 2;
    else if (emu_token_is(token, ".v4"))
      vector = 4;
    else if (emu_token_is(token, ".ptr") || emu_token_is(token, ".global") ||
             emu_token_is(token, ".shared") || emu_token_is(token, ".const") || emu_token_is(token, ".local"))
      continue; /* facts about a pointer parameter */
    else
      emu_ptx_fail(m, token->line, "expected a type, found '%.*s'", (int)token->length, token->text);
  }
  while (emu_ptx_accept(m, ".ptr") || emu_ptx_accept(m, ".global") || emu_ptx_accept(m, ".shared") ||
         emu_ptx_accept(m, ".const") || emu_ptx_accept(m, ".local") || emu_ptx_accept(m, ".align"))
    if (emu_ptx_peek(m)->kind == EMU_TOKEN_NUMBER) emu_ptx_next(m);
  uint32_t line = emu_ptx_peek(m)->line;
  d.name = emu_ptx_word(m, "a name");
  d.bytes = d.type.bytes * vector;
  if (!d.align) d.align = d.bytes ? d.bytes : 1;
  while (emu_ptx_accept(m, "[")) {
    if (emu_ptx_accept(m, "]")) {
      d.unsized = true;
      continue;
    }
    if (__builtin_mul_overflow(d.bytes, emu_ptx_integer(m), &d.bytes) || d.bytes > 1ull << 32)
      emu_ptx_fail(m, line, "variable '%s' is too large", d.name);
    emu_ptx_expect(m, "]");
  }
  if (d.align == 0 || d.align > 65536 || (d.align & (d.align - 1)))
    emu_ptx_fail(m, line, "alignment %llu of '%s' is no power of two up to 65536",
                 (unsigned long long)d.align, d.name);
  return d;
}

/* --- variables with initializers --- */

/* A part of a module variable's image that the text gives. */
typedef struct {
  emu_declaration_t declaration;
  size_t initializer; /* token after "=", 0 without */
  uint64_t offset;
} pending_variable_t;

typedef struct {
  pending_variable_t *items;
  size_t count, capacity;
  uint64_t bytes;
} pending_t;

static void put_scalar(unsigned char *image, const emu_declaration_t *d, uint64_t *position, uint64_t bits) {
  uint64_t bytes = d->type.bytes ? d->type.bytes : 1;
  if (*position + bytes <= d->bytes) memcpy(image + *position, &bits, bytes);
  *position += bytes;
}

emu_function_t *emu_ptx_function(const emu_module_t *m, const char *name, size_t length) {
  uint64_t *index = kiln_map_find(m->function_index, name, length);
  return index ? &m->functions[*index] : NULL;
}

uint64_t emu_ptx_function_address(const emu_module_t *m, const char *name, size_t length) {
  const emu_function_t *function = emu_ptx_function(m, name, length);
  return function ? EMU_FUNCTION_WINDOW + 16 * (uint64_t)(function - m->functions) : 0;
}

static void mark_addressed(emu_module_t *m, const emu_token_t *name) {
  emu_function_t *function = emu_ptx_function(m, name->text, name->length);
  if (function) function->addressed = true;
}

static void index_functions(emu_module_t *m) {
  m->function_index = kiln_map_create(&m->arena);
  for (size_t n = 0; n < m->function_count; n++) {
    bool added;
    uint64_t *index =
        kiln_map_put(m->function_index, m->functions[n].name, strlen(m->functions[n].name), &added);
    if (added) *index = n;
  }
}

/* "mov.u64 d, function;" anywhere in the text. Calls through pointers may come before it. */
static void find_addressed(emu_module_t *m) {
  const emu_token_t *t = m->tokens.tokens;
  for (size_t n = 0; t[n].kind != EMU_TOKEN_END && t[n + 1].kind != EMU_TOKEN_END; n++)
    if (n >= 3 && emu_token_is(&t[n - 3], "mov") && emu_token_is(&t[n], ",")) mark_addressed(m, &t[n + 1]);
}

/* The address of a variable or function of this module, which may stand in an initializer. */
static uint64_t initial_address(emu_module_t *m, const emu_token_t *name) {
  for (size_t n = 0; n < m->variable_count; n++)
    if (emu_token_is(name, m->variables[n].name)) return m->variables[n].address;
  uint64_t function = emu_ptx_function_address(m, name->text, name->length);
  mark_addressed(m, name);
  if (function) return function;
  emu_ptx_fail(m, name->line, "'%.*s' in an initializer is no variable or function", (int)name->length,
               name->text);
}

static uint64_t initializer_element(emu_module_t *m, const emu_declaration_t *d) {
  const emu_token_t *token = emu_ptx_peek(m);
  if (token->kind == EMU_TOKEN_WORD) {
    emu_ptx_next(m);
    bool generic = emu_token_is(token, "generic");
    if (generic) {
      emu_ptx_expect(m, "(");
      token = emu_ptx_next(m);
      emu_ptx_expect(m, ")");
    }
    uint64_t address = initial_address(m, token);
    return emu_ptx_accept(m, "+") ? address + emu_ptx_integer(m) : address;
  }
  bool negative = emu_ptx_accept(m, "-");
  token = emu_ptx_next(m);
  if (token->kind != EMU_TOKEN_NUMBER) emu_ptx_fail(m, token->line, "expected a number");
  if (!token->float_bytes) return negative ? 0 - token->bits : token->bits;
  double value;
  memcpy(&value, &token->bits, 8);
  if (token->float_bytes == 8 && d->type.bytes == 4) {
    float narrow = (float)(negative ? -value : value);
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    return bits;
  }
  return negative ? token->bits ^ 1ull << (8 * token->float_bytes - 1) : token->bits;
}

/* Braces nest in arrays of arrays; elements follow each other in memory whatever the nesting. */
static void read_initializer(emu_module_t *m, const pending_variable_t *variable, unsigned char *image) {
  uint64_t position = 0, depth = 0;
  m->at = variable->initializer;
  do {
    if (emu_ptx_accept(m, "{"))
      depth++;
    else if (emu_ptx_accept(m, "}"))
      depth--;
    else if (!emu_ptx_accept(m, ","))
      put_scalar(image + variable->offset, &variable->declaration, &position,
                 initializer_element(m, &variable->declaration));
  } while (depth);
}

static void skip_initializer(emu_module_t *m) {
  uint32_t line = emu_ptx_peek(m)->line;
  while (!emu_token_is(emu_ptx_peek(m), ";"))
    if (emu_ptx_next(m)->kind == EMU_TOKEN_END) emu_ptx_fail(m, line, "an initializer does not end");
}

static void add_variable(emu_module_t *m, pending_t *pending) {
  pending_variable_t variable = {.declaration = emu_ptx_declaration(m)};
  emu_declaration_t *d = &variable.declaration;
  if (emu_ptx_accept(m, "=")) {
    variable.initializer = m->at;
    if (emu_token_is(emu_ptx_peek(m), ";"))
      emu_ptx_fail(m, emu_ptx_peek(m)->line, "'%s' has an empty initializer", d->name);
    skip_initializer(m);
  }
  variable.offset = (pending->bytes + d->align - 1) & ~(d->align - 1);
  pending->bytes = variable.offset + d->bytes;
  if (pending->bytes > 1ull << 32)
    emu_ptx_fail(m, emu_ptx_peek(m)->line, "the module's variables are too large");
  KILN_PUSH(&m->arena, pending->items, pending->count, pending->capacity, variable);
}

static void place_variables(emu_module_t *m, const pending_t *pending) {
  if (pending->bytes == 0) return;
  if (emu_memory_alloc(m->memory, pending->bytes, EMU_OF_MODULE, &m->storage) != CUDA_SUCCESS)
    emu_ptx_fail(m, 1, "no memory for %llu bytes of variables", (unsigned long long)pending->bytes);
  emu_range_t range;
  if (emu_memory_find(m->memory, m->storage, &range) && range.written)
    emu_range_mark_written(&range, m->storage, pending->bytes);
  for (size_t n = 0; n < pending->count; n++) {
    const pending_variable_t *variable = &pending->items[n];
    KILN_PUSH(&m->arena, m->variables, m->variable_count, m->variable_capacity,
              (emu_variable_t){variable->declaration.name, m->storage + variable->offset,
                               variable->declaration.bytes});
  }
  for (size_t n = 0; n < pending->count; n++)
    if (pending->items[n].initializer)
      read_initializer(m, &pending->items[n], (unsigned char *)(uintptr_t)m->storage);
}

/* --- module scope --- */

static void add_shared(emu_module_t *m, bool is_extern) {
  emu_declaration_t d = emu_ptx_declaration(m);
  emu_shared_variable_t variable = {d.name, d.bytes, d.align, is_extern || d.unsized};
  KILN_PUSH(&m->arena, m->shared, m->shared_count, m->shared_capacity, variable);
}

static void skip_body(emu_module_t *m) {
  uint32_t line = emu_ptx_peek(m)->line, depth = 0;
  do {
    const emu_token_t *token = emu_ptx_next(m);
    if (token->kind == EMU_TOKEN_END) emu_ptx_fail(m, line, "a body does not end");
    if (emu_token_is(token, "{")) depth++;
    if (emu_token_is(token, "}")) depth--;
  } while (depth);
}

static void skip_parentheses(emu_module_t *m) {
  uint32_t line = emu_ptx_peek(m)->line;
  while (!emu_token_is(emu_ptx_peek(m), ")"))
    if (emu_ptx_next(m)->kind == EMU_TOKEN_END) emu_ptx_fail(m, line, "expected ')'");
  emu_ptx_next(m);
}

static void add_function(emu_module_t *m, bool is_entry) {
  emu_function_t function = {.is_entry = is_entry, .line = emu_ptx_peek(m)->line};
  if (emu_token_is(emu_ptx_peek(m), "(")) {
    function.results = m->at;
    skip_parentheses(m);
  }
  function.name = emu_ptx_word(m, "a function's name");
  function.parameters = m->at;
  if (emu_token_is(emu_ptx_peek(m), "(")) skip_parentheses(m);
  while (!emu_token_is(emu_ptx_peek(m), "{") && !emu_token_is(emu_ptx_peek(m), ";"))
    if (emu_ptx_next(m)->kind == EMU_TOKEN_END)
      emu_ptx_fail(m, function.line, "'%s' has no body", function.name);
  if (emu_token_is(emu_ptx_peek(m), "{")) {
    function.body = m->at;
    skip_body(m);
  } else {
    emu_ptx_next(m);
  }
  KILN_PUSH(&m->arena, m->functions, m->function_count, m->function_capacity, function);
}

static bool is_linkage(const emu_token_t *token) {
  return emu_token_is(token, ".visible") || emu_token_is(token, ".weak") || emu_token_is(token, ".common");
}

/* ".target sm_80": what the code needs of a device. */
static void read_target(emu_module_t *m) {
  const emu_token_t *token = emu_ptx_next(m);
  if (token->length > 3 && memcmp(token->text, "sm_", 3) == 0)
    m->target = (uint32_t)strtoul(token->text + 3, NULL, 10);
  if (!m->target) emu_ptx_fail(m, token->line, "unknown target '%.*s'", (int)token->length, token->text);
  while (emu_ptx_accept(m, ",")) emu_ptx_next(m);
}

static void skip_line(emu_module_t *m) {
  uint32_t line = emu_ptx_next(m)->line;
  while (emu_ptx_peek(m)->kind != EMU_TOKEN_END && emu_ptx_peek(m)->line == line) emu_ptx_next(m);
}

static void read_directive(emu_module_t *m, pending_t *pending) {
  const emu_token_t *token = emu_ptx_peek(m);
  bool is_extern = emu_ptx_accept(m, ".extern");
  while (is_linkage(emu_ptx_peek(m))) emu_ptx_next(m);
  if (emu_ptx_accept(m, ".target")) {
    read_target(m);
  } else if (emu_ptx_accept(m, ".global") || emu_ptx_accept(m, ".const")) {
    if (is_extern)
      emu_ptx_fail(m, token->line, "external variables need a linker, which the emulator has not");
    add_variable(m, pending);
    emu_ptx_expect(m, ";");
  } else if (emu_ptx_accept(m, ".shared")) {
    add_shared(m, is_extern);
    emu_ptx_expect(m, ";");
  } else if (emu_ptx_accept(m, ".entry")) {
    add_function(m, true);
  } else if (emu_ptx_accept(m, ".func")) {
    add_function(m, false);
  } else if (emu_token_is(token, ".section")) {
    while (!emu_token_is(emu_ptx_peek(m), "{") && emu_ptx_peek(m)->kind != EMU_TOKEN_END) emu_ptx_next(m);
    skip_body(m);
  } else if (emu_token_is(token, ".version") || emu_token_is(token, ".address_size") ||
             emu_token_is(token, ".file") || emu_token_is(token, ".pragma")) {
    skip_line(m);
  } else {
    token = emu_ptx_peek(m);
    emu_ptx_fail(m, token->line, "unknown directive '%.*s'", (int)token->length, token->text);
  }
}

static void read_module(emu_module_t *m) {
  pending_t pending = {0};
  if (m->tokens.bad_line) emu_ptx_fail(m, m->tokens.bad_line, "a character that is no part of PTX");
  if (!emu_token_is(emu_ptx_peek(m), ".version"))
    emu_ptx_fail(m, emu_ptx_peek(m)->line, "PTX begins with .version");
  while (emu_ptx_peek(m)->kind != EMU_TOKEN_END) read_directive(m, &pending);
  if (!m->target) emu_ptx_fail(m, 1, "there is no .target");
  index_functions(m);
  find_addressed(m);
  place_variables(m, &pending); /* initializers take addresses of functions, too */
  emu_ptx_find_recursion(m);
  m->kernels = KILN_NEW_ARRAY(&m->arena, emu_kernel_t, m->function_count + 1);
  for (size_t n = 0; n < m->function_count; n++)
    if (m->functions[n].is_entry && m->functions[n].body)
      emu_ptx_kernel(m, &m->functions[n], &m->kernels[m->kernel_count++]);
}

static kiln_status_t read_guarded(void *argument) {
  emu_module_t *m = argument;
  if (setjmp(m->failure)) return NULL;
  m->text = kiln_arena_strdup(&m->arena, m->text);
  m->tokens = emu_ptx_lex(&m->arena, m->text, strlen(m->text));
  m->source = emu_source_map_create(&m->arena, &m->tokens);
  read_module(m);
  return NULL;
}

CUresult emu_module_load(emu_memory_t *memory, const char *text, uint32_t device_target,
                         emu_module_t **out_module, char **out_log) {
  *out_module = NULL;
  *out_log = NULL;
  emu_module_t *m = calloc(1, sizeof *m);
  if (!m) return CUDA_ERROR_OUT_OF_MEMORY;
  kiln_arena_init(&m->arena, (size_t)1 << 30);
  m->memory = memory;
  m->text = text;
  kiln_status_t status = kiln_arena_guard(&m->arena, read_guarded, m);
  CUresult result = status ? CUDA_ERROR_OUT_OF_MEMORY : m->error ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
  if (result == CUDA_SUCCESS && m->target > device_target) result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (m->error) *out_log = strdup(m->error);
  kiln_status_free(status);
  if (result == CUDA_SUCCESS)
    *out_module = m;
  else
    emu_module_destroy(m);
  return result;
}

void emu_module_destroy(emu_module_t *module) {
  if (!module) return;
  if (module->storage) emu_memory_free(module->memory, module->storage, EMU_OF_MODULE);
  kiln_arena_deinit(&module->arena);
  free(module);
}

const emu_kernel_t *emu_module_kernel(const emu_module_t *module, const char *name) {
  for (size_t n = 0; n < module->kernel_count; n++)
    if (strcmp(module->kernels[n].name, name) == 0) return &module->kernels[n];
  return NULL;
}
