/* codegen/emit_members.c: the signature of a grouped kernel, and how a block finds its member.
 *
 * A member is a row of the launch's table (ir/plan.h): its pointers, its dimensions, its widths. The table is
 * a parameter, or lies in device memory where there are more rows than a parameter holds; then only the count
 * tells members apart, which is no part of the source. A block searches the prefixes of the members' blocks;
 * all its threads take the same steps. What follows is the body that a kernel for one member would have.
 * Called by emit.c.
 */
#include "codegen/emit.h"
#include "codegen/grouped.h"

static const char *access_rows(const kiln_emitter_t *emitter) {
  return emitter->context->grouped->capacity ? "table.rows" : "rows";
}

static const char *access_first(const kiln_emitter_t *emitter) {
  return emitter->context->grouped->capacity ? "table.first" : "first";
}

static const char *access_count(const kiln_emitter_t *emitter) {
  return emitter->context->grouped->capacity ? "table.count" : "count";
}

/* --- columns ------------------------------------------------------------------------------------------- */

typedef struct {
  const kiln_emitter_t *emitter;
  kiln_buffer_t *out;
  kiln_slot_t *slots;
  uint32_t count;
} columns_t;

static void add_buffers(columns_t *columns, bool written) {
  const kiln_kernel_t *kernel = columns->emitter->kernel;
  for (size_t i = 0; i < kernel->buffer_count; i++) {
    const kiln_kernel_buffer_t *buffer = &kernel->buffers[i];
    if (!kiln_emit_is_param(columns->emitter, buffer) || buffer->written != written) continue;
    kiln_buffer_printf(columns->out, "  %s%s *%s;\n", written ? "" : "const ",
                       kiln_emit_storage_type(buffer->dtype), columns->emitter->buffer_names[i]);
    columns->slots[columns->count++] = kiln_emit_buffer_slot(buffer);
  }
}

static void add_numbers(columns_t *columns, bool is_wide) {
  for (size_t i = 0; i < columns->emitter->param_count; i++) {
    const kiln_param_t *param = &columns->emitter->params[i];
    if (param->is_wide != is_wide) continue;
    kiln_buffer_printf(columns->out, "  %s n%zu;\n", is_wide ? "long long" : "int", i);
    columns->slots[columns->count++] =
        (kiln_slot_t){.kind = is_wide ? KILN_SLOT_DIM64 : KILN_SLOT_DIM32, .dim = param->dim};
  }
}

static void add_widths(columns_t *columns) {
  const kiln_grouped_t *grouped = columns->emitter->context->grouped;
  for (uint32_t i = 0; i < grouped->selector_count; i++) {
    kiln_buffer_printf(columns->out, "  int %s; // elements of an access\n", grouped->selectors[i].name);
    columns->slots[columns->count++] = (kiln_slot_t){.kind = KILN_SLOT_DIM32};
  }
}

const kiln_slot_t *kiln_emit_member_type(const kiln_emitter_t *emitter, kiln_buffer_t *out,
                                         uint32_t *out_count) {
  const kiln_kernel_t *kernel = emitter->kernel;
  size_t most = kernel->buffer_count + emitter->param_count + KILN_MOST_SELECTORS;
  columns_t columns = {emitter, out, KILN_NEW_ARRAY(kernel->arena, kiln_slot_t, most), 0};
  uint32_t capacity = emitter->context->grouped->capacity;
  kiln_buffer_puts(out, "struct kiln_member {\n");
  add_buffers(&columns, false);
  add_buffers(&columns, true);
  add_numbers(&columns, true);
  add_numbers(&columns, false);
  add_widths(&columns);
  kiln_buffer_puts(out, "};\n\n");
  if (capacity)
    kiln_buffer_printf(out,
                       "// first[i]: blocks of all members before i.\n"
                       "struct kiln_members {\n"
                       "  unsigned count, first[%u + 1];\n"
                       "  kiln_member rows[%u];\n"
                       "};\n\n",
                       capacity, capacity);
  *out_count = columns.count;
  return columns.slots;
}

/* --- parameters ---------------------------------------------------------------------------------------- */

const kiln_slot_t *kiln_emit_member_params(const kiln_emitter_t *emitter, kiln_buffer_t *out,
                                           uint32_t *out_count) {
  static const kiln_slot_t by_value[] = {{.kind = KILN_SLOT_TABLE}};
  static const kiln_slot_t in_memory[] = {
      {.kind = KILN_SLOT_TABLE_ROWS}, {.kind = KILN_SLOT_TABLE_FIRST}, {.kind = KILN_SLOT_TABLE_COUNT}};
  bool is_value = emitter->context->grouped->capacity > 0;
  kiln_buffer_puts(out, is_value ? "\n    const __grid_constant__ kiln_members table"
                                 : "\n    const kiln_member *__restrict__ rows,\n"
                                   "    const unsigned *__restrict__ first,\n"
                                   "    unsigned count");
  *out_count = is_value ? 1 : 3;
  return is_value ? by_value : in_memory;
}

/* --- the block's member -------------------------------------------------------------------------------- */

static void emit_search(const kiln_emitter_t *emitter, kiln_buffer_t *out, const char *number,
                        const char *pad) {
  const char *first = access_first(emitter);
  kiln_buffer_printf(out,
                     "%sunsigned low = 0, high = %s;\n"
                     "%swhile (high - low > 1) {\n"
                     "%s  const unsigned middle = (low + high) / 2;\n"
                     "%s  if (%s[middle] <= %s)\n"
                     "%s    low = middle;\n"
                     "%s  else\n"
                     "%s    high = middle;\n"
                     "%s}\n"
                     "%sconst unsigned block = %s - %s[low];\n",
                     pad, access_count(emitter), pad, pad, pad, first, number, pad, pad, pad, pad, pad,
                     number, first);
}

static void emit_values(const kiln_emitter_t *emitter, kiln_buffer_t *out, const char *pad) {
  const kiln_kernel_t *kernel = emitter->kernel;
  const kiln_grouped_t *grouped = emitter->context->grouped;
  kiln_buffer_printf(out, "%sconst kiln_member &member_of_block = %s[low];\n", pad, access_rows(emitter));
  for (size_t i = 0; i < kernel->buffer_count; i++) {
    const kiln_kernel_buffer_t *buffer = &kernel->buffers[i];
    const char *name = emitter->buffer_names[i];
    if (!kiln_emit_is_param(emitter, buffer)) continue;
    kiln_buffer_printf(out, "%s%s%s *__restrict__ const %s = member_of_block.%s;\n", pad,
                       buffer->written ? "" : "const ", kiln_emit_storage_type(buffer->dtype), name, name);
  }
  for (size_t i = 0; i < emitter->param_count; i++)
    kiln_buffer_printf(out, "%sconst %s n%zu = member_of_block.n%zu;\n", pad,
                       emitter->params[i].is_wide ? "long long" : "int", i, i);
  for (uint32_t i = 0; i < grouped->selector_count; i++)
    kiln_buffer_printf(out, "%sconst int %s = member_of_block.%s;\n", pad, grouped->selectors[i].name,
                       grouped->selectors[i].name);
}

void kiln_emit_member_of_block(const kiln_emitter_t *emitter, kiln_buffer_t *out) {
  bool takes_turns = emitter->takes_turns;
  const char *pad = takes_turns ? "    " : "  ";
  if (takes_turns)
    kiln_buffer_printf(
        out,
        "  for (unsigned round = 0;; ++round) { // there and back: who began first comes last\n"
        "    const unsigned place = round %% 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;\n"
        "    const unsigned turn = round * gridDim.x + place;\n"
        "    if (turn >= %s[%s]) break;\n",
        access_first(emitter), access_count(emitter));
  emit_search(emitter, out, takes_turns ? "turn" : "blockIdx.x", pad);
  emit_values(emitter, out, pad);
}
