/* codegen/sequence.c: from members in sequence to one kernel.
 *
 *   namespace part0 { source of the first as a device function }   silu(a x b)
 *   namespace part1 { of the second }                               its result times (a x c)
 *   kernel(parameters of both) { part0(..); barrier; part1(..); }
 *
 * What the second reads of the first, it reads at its own points. The same block has made them when both cut
 * their results into the same tiles and number them alike; a barrier of the block then makes them visible to
 * all of its threads. Pointers of parts are not __restrict__: one part writes what another reads. Called by
 * codegen.c.
 */
#include "codegen/sequence.h"

#include <string.h>

enum { PARAMETER_BYTES = 4096 };

typedef struct {
  kiln_part_t part;
  kiln_kernel_source_t kernel;
} member_t;

static bool extents_equal(const kiln_extent_t *a, const kiln_extent_t *b) {
  for (int i = 0; i < 3; i++) {
    if (a[i].divisor != b[i].divisor || !kiln_dim_equal(a[i].dim, b[i].dim)) return false;
  }
  return true;
}

static bool share_blocks(const member_t *a, const member_t *b) {
  if (!a->part.has_tiles || !b->part.has_tiles) return false;
  return a->kernel.block[0] == b->kernel.block[0] && extents_equal(a->kernel.grid, b->kernel.grid) &&
         extents_equal(a->part.tiles, b->part.tiles);
}

static bool needs_scratch(const kiln_kernel_source_t *kernel) {
  return !kiln_dim_is(kernel->scratch.workspace_bytes, 0) || !kiln_dim_is(kernel->scratch.counters, 0);
}

static kiln_status_t generate_members(kiln_arena_t *arena, const kiln_graph_t *graph,
                                      const kiln_grouping_t *grouping, const kiln_group_t *group,
                                      const kiln_codegen_context_t *context, kiln_generate_t generate,
                                      member_t *members) {
  for (uint32_t i = 0; i < group->member_count; i++) {
    kiln_codegen_context_t own = *context;
    own.part = &members[i].part;
    KILN_TRY(generate(arena, graph, grouping, &group->members[i], &own, &members[i].kernel));
    if (needs_scratch(&members[i].kernel))
      return kiln_error(KILN_UNSUPPORTED, "several blocks share what member %u of a sequence makes", i);
    if (!share_blocks(&members[0], &members[i]))
      return kiln_error(KILN_UNSUPPORTED, "member %u of a sequence has other blocks than the first", i);
  }
  return NULL;
}

/* Parameter k of part i is called pi_k. */
static void emit_kernel(kiln_buffer_t *out, const member_t *members, uint32_t count, const char *entry) {
  uint32_t written = 0;
  kiln_buffer_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u) %s(",
                     members[0].kernel.block[0], entry);
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < members[i].kernel.slot_count; k++)
      kiln_buffer_printf(out, "%s%sp%u_%u", written++ ? ",\n    " : "\n    ",
                         members[i].part.parameter_types[k], i, k);
  }
  kiln_buffer_puts(out, ") {\n");
  for (uint32_t i = 0; i < count; i++) {
    if (i)
      kiln_buffer_puts(out,
                       "  __syncthreads(); // what the block has stored is there for all of its threads\n");
    kiln_buffer_printf(out, "  part%u::%s(", i, members[i].kernel.entry);
    for (uint32_t k = 0; k < members[i].kernel.slot_count; k++)
      kiln_buffer_printf(out, k ? ", p%u_%u" : "p%u_%u", i, k);
    kiln_buffer_puts(out, ");\n");
  }
  kiln_buffer_puts(out, "}\n");
}

static kiln_status_t emit_source(kiln_arena_t *arena, const member_t *members, uint32_t count,
                                 kiln_kernel_source_t *out_kernel) {
  kiln_buffer_t *out = kiln_buffer_in_arena(arena);
  kiln_buffer_puts(out, "// Each block does its part of one after the other.\n");
  for (uint32_t i = 0; i < count; i++)
    kiln_buffer_printf(out, "namespace part%u {\n%s} // namespace part%u\n\n", i, members[i].kernel.source,
                       i);
  emit_kernel(out, members, count, out_kernel->entry);
  if (out->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a kernel's source");
  out_kernel->source = kiln_buffer_text(out);
  return NULL;
}

static void join_slots(kiln_arena_t *arena, const member_t *members, uint32_t count,
                       kiln_kernel_source_t *out) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < count; i++) total += members[i].kernel.slot_count;
  kiln_slot_t *slots = KILN_NEW_ARRAY(arena, kiln_slot_t, total);
  out->slot_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    for (uint32_t k = 0; k < members[i].kernel.slot_count; k++)
      slots[out->slot_count++] = members[i].kernel.slots[k];
  }
  out->slots = slots;
}

kiln_status_t kiln_sequence_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                     const kiln_grouping_t *grouping, const kiln_group_t *group,
                                     const kiln_codegen_context_t *context, kiln_generate_t generate,
                                     kiln_kernel_source_t *out_kernel) {
  member_t *members = KILN_NEW_ARRAY(arena, member_t, group->member_count);
  KILN_TRY(generate_members(arena, graph, grouping, group, context, generate, members));
  *out_kernel = members[0].kernel;
  out_kernel->entry = "kiln_sequence";
  for (uint32_t i = 1; i < group->member_count; i++) {
    if (members[i].kernel.shared_bytes > out_kernel->shared_bytes)
      out_kernel->shared_bytes = members[i].kernel.shared_bytes;
  }
  join_slots(arena, members, group->member_count, out_kernel);
  if (out_kernel->slot_count * sizeof(uint64_t) > PARAMETER_BYTES)
    return kiln_error(KILN_UNSUPPORTED, "the members of a sequence have too many parameters");
  return emit_source(arena, members, group->member_count, out_kernel);
}
