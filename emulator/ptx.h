/* emulator/ptx.h: what the parts of the PTX reader share; a module's way from text to kernels.
 *
 *   text -> tokens (ptx_lex.c) -> declarations (ptx_module.c) -> statements and operands of a body
 * (ptx_body.c)
 *        -> instructions (ptx_decode.c and the ptx_decode_*.c beside it) -> emu_kernel_t
 *
 * A kernel's code holds the functions that it calls, each once: their registers are part of the kernel's
 * frame, their parameters and locals part of its local memory, so that calls within a cycle of calls keep
 * them on a stack (ptx_recursion.c). Errors leave by longjmp to emu_module_load, with the line in the log;
 * all memory is the module's arena. Thread: the loading one.
 */
#ifndef KILN_EMULATOR_PTX_H
#define KILN_EMULATOR_PTX_H

#include "emulator/kernel.h"
#include "emulator/memory.h"
#include "emulator/ptx_lex.h"

#include <setjmp.h>

/* Bounds on what a text may ask for: a fuzzed one must not exhaust the host. */
#define EMU_MAX_FRAME_BYTES (2u << 20)
#define EMU_MAX_LOCAL_BYTES (512u << 10)
#define EMU_MAX_SHARED_BYTES (1u << 20)
#define EMU_MAX_INSTRUCTIONS (1u << 20)

typedef enum { EMU_T_PRED, EMU_T_BITS, EMU_T_UNSIGNED, EMU_T_SIGNED, EMU_T_FLOAT } emu_type_kind_t;

typedef struct {
  const char *name; /* without the dot */
  uint8_t kind;     /* emu_type_kind_t */
  uint8_t bytes;
} emu_type_t;

typedef struct emu_symbol emu_symbol_t;

typedef enum {
  EMU_SYMBOL_REGISTER,
  EMU_SYMBOL_FAMILY,
  EMU_SYMBOL_VARIABLE,
  EMU_SYMBOL_DYNAMIC_SHARED
} emu_symbol_kind_t;

struct emu_symbol {
  emu_symbol_kind_t kind;
  emu_type_t type;   /* of registers */
  uint32_t *offsets; /* of registers in the frame, 0 until used; a family has `count` */
  uint32_t *spans;   /* of registers: index of what the builder knows of their use */
  uint32_t count;
  emu_space_t space; /* of variables */
  uint64_t address;
  uint64_t bytes;
};

/* A function with a body, or an entry. */
typedef struct {
  const char *name;
  bool is_entry;
  bool recursive;    /* in a cycle of calls, or between two */
  bool addressed;    /* of the first declaration: its address is taken, so that a call through a pointer may
                        reach it */
  size_t parameters; /* token after the name: "(" or, without parameters, the body or ";" */
  size_t results;    /* token "(" of a function's results, 0 without */
  size_t body;       /* token "{"; 0 for a declaration */
  uint32_t line;
} emu_function_t;

/* A module-scope variable in shared memory; each kernel that names it gets its own place. */
typedef struct {
  const char *name;
  uint64_t bytes, align;
  bool dynamic; /* .extern, of no size */
} emu_shared_variable_t;

typedef struct {
  kiln_arena_t arena;
  emu_memory_t *memory;
  const char *text; /* a copy, in the arena */
  emu_tokens_t tokens;
  emu_source_map_t *source;
  size_t at; /* current token */
  jmp_buf failure;
  char *error;      /* what failed, or NULL */
  uint32_t target;  /* 80 for sm_80 */
  uint64_t storage; /* device address of the module's variables, 0 without */

  emu_variable_t *variables;
  size_t variable_count, variable_capacity;
  emu_shared_variable_t *shared;
  size_t shared_count, shared_capacity;
  emu_function_t *functions;
  size_t function_count, function_capacity;
  kiln_map_t *function_index; /* by name: the first declaration */
  emu_kernel_t *kernels;
  size_t kernel_count;
} emu_module_t;

/* Loads PTX text (terminated). On failure *out_module is NULL and *out_log, owned by the caller, says why
 * with the line. */
CUresult emu_module_load(emu_memory_t *memory, const char *text, uint32_t device_target,
                         emu_module_t **out_module, char **out_log);
void emu_module_destroy(emu_module_t *module); /* accepts NULL */
const emu_kernel_t *emu_module_kernel(const emu_module_t *module, const char *name);

/* --- for the reader's own files --- */

_Noreturn void emu_ptx_fail(emu_module_t *m, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

const emu_token_t *emu_ptx_peek(const emu_module_t *m);
const emu_token_t *emu_ptx_next(emu_module_t *m);
bool emu_ptx_accept(emu_module_t *m, const char *text);
void emu_ptx_expect(emu_module_t *m, const char *text);
char *emu_ptx_word(emu_module_t *m, const char *what); /* takes a word token */
uint64_t emu_ptx_integer(emu_module_t *m);             /* takes a possibly negative integer */
bool emu_ptx_type(const char *name, size_t length, emu_type_t *out_type);

/* ".align 8 .b8 name[16]": what parameters and variables look like. */
typedef struct {
  char *name;
  emu_type_t type;
  uint64_t bytes, align;
  bool unsized; /* "[]" */
} emu_declaration_t;
emu_declaration_t emu_ptx_declaration(emu_module_t *m);

/* The address of a function, which calls through pointers compare with; 0 when there is none of that name. */
uint64_t emu_ptx_function_address(const emu_module_t *m, const char *name, size_t length);

/* Marks the functions that may call themselves, directly or through others. */
void emu_ptx_find_recursion(emu_module_t *m);
/* Adds up what a call keeps, when all functions have been read. */
void emu_ptx_finish_saved(emu_saved_t *saved);
/* The first declaration of the function, NULL when there is none. */
emu_function_t *emu_ptx_function(const emu_module_t *m, const char *name, size_t length);

/* Decodes one entry. */
void emu_ptx_kernel(emu_module_t *m, const emu_function_t *entry, emu_kernel_t *out_kernel);

#endif
