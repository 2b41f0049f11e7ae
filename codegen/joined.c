/* codegen/joined.c: from members that are in sequence, or side by side, to one kernel.
 *
 *   namespace part0 { source of the first as a device function }    silu(a x b)          rows of 4096
 *   namespace part1 { of the second }                               its result * (a x c) a table
 *   kernel(parameters of both) {
 *     sequence:     part0(..); barrier; part1(..);
 *     side by side: if (the block is among the first's) part0(block, ..); else part1(block - blocks of part0,
 * ..);
 *   }
 *
 * In sequence: what the second reads of the first, it reads at its own points. The same block has made them
 * when both cut their results into the same tiles and number them alike; a barrier of the block then makes
 * them visible to all of its threads. Pointers of parts are not __restrict__: one part writes what another
 * reads.
 *
 * Side by side: two kernels of any kind whose grids have one axis. The kernel's block is the larger of
 * theirs; the other's last threads do nothing, so it must have no barrier. Called by codegen.c.
 */
#include "codegen/joined.h"

#include <string.h>

enum { PARAMETER_BYTES = 4096 };

typedef struct {
  kiln_part_t part;
  kiln_kernel_source_t kernel;
} member_t;

typedef struct {
  kiln_arena_t *arena;
  const kiln_group_t *group;
  member_t *members;
  uint32_t count;
  uint32_t threads; /* of a block */
  kiln_slot_t *slots;
  uint32_t slot_count;
} joined_t;

/* --- members ------------------------------------------------------------------------------------------- */

static bool needs_scratch(const kiln_kernel_source_t *kernel) {
  return !kiln_dim_is(kernel->scratch.workspace_bytes, 0) || !kiln_dim_is(kernel->scratch.counters, 0);
}

static kiln_status_t generate_members(joined_t *j, const kiln_graph_t *graph, const kiln_grouping_t *grouping,
                                      const kiln_codegen_context_t *context,
                                      kiln_generator_of_t generator_of) {
  uint32_t slots = 2; /* numbers of blocks may be parameters */
  for (uint32_t i = 0; i < j->count; i++) {
    const kiln_group_t *member = &j->group->members[i];
    member_t *made = &j->members[i];
    kiln_codegen_context_t own = *context;
    made->part.takes_block = j->group->join == KILN_JOIN_BESIDE;
    own.part = &made->part;
    KILN_TRY(generator_of(member->kind)(j->arena, graph, grouping, member, &own, &made->kernel));
    if (needs_scratch(&made->kernel))
      return kiln_error(KILN_UNSUPPORTED, "several blocks share what member %u of a kernel makes", i);
    if (made->kernel.block[0] > j->threads) j->threads = made->kernel.block[0];
    slots += made->kernel.slot_count;
  }
  if (slots * sizeof(uint64_t) > PARAMETER_BYTES)
    return kiln_error(KILN_UNSUPPORTED, "the members of a kernel have too many parameters");
  j->slots = KILN_NEW_ARRAY(j->arena, kiln_slot_t, slots);
  return NULL;
}

/* --- source -------------------------------------------------------------------------------------------- */

/* Parameter k of part i is called pi_k. */
static void emit_head(joined_t *j, kiln_buffer_t *out, const char *entry) {
  for (uint32_t i = 0; i < j->count; i++)
    kiln_buffer_printf(out, "namespace part%u {\n%s} // namespace part%u\n\n", i, j->members[i].kernel.source,
                       i);
  kiln_buffer_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u) %s(", j->threads, entry);
  for (uint32_t i = 0; i < j->count; i++) {
    const member_t *member = &j->members[i];
    for (uint32_t k = 0; k < member->kernel.slot_count; k++) {
      kiln_buffer_printf(out, "%s%sp%u_%u", j->slot_count ? ",\n    " : "\n    ",
                         member->part.parameter_types[k], i, k);
      j->slots[j->slot_count++] = member->kernel.slots[k];
    }
  }
}

static void emit_call(const joined_t *j, kiln_buffer_t *out, uint32_t number, const char *block) {
  const kiln_kernel_source_t *kernel = &j->members[number].kernel;
  if (kernel->block[0] < j->threads) kiln_buffer_printf(out, "if (threadIdx.x < %u) ", kernel->block[0]);
  kiln_buffer_printf(out, "part%u::%s(%s", number, kernel->entry, block);
  for (uint32_t k = 0; k < kernel->slot_count; k++)
    kiln_buffer_printf(out, k || *block ? ", p%u_%u" : "p%u_%u", number, k);
  kiln_buffer_puts(out, ");\n");
}

/* --- in sequence --------------------------------------------------------------------------------------- */

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

static kiln_status_t emit_sequence(joined_t *j, kiln_buffer_t *out, kiln_kernel_source_t *kernel) {
  for (uint32_t i = 1; i < j->count; i++) {
    if (!share_blocks(&j->members[0], &j->members[i]))
      return kiln_error(KILN_UNSUPPORTED, "member %u of a sequence has other blocks than the first", i);
  }
  kiln_buffer_puts(out, "// Each block does its part of one after the other.\n");
  emit_head(j, out, kernel->entry);
  kiln_buffer_puts(out, ") {\n");
  for (uint32_t i = 0; i < j->count; i++) {
    if (i)
      kiln_buffer_puts(out,
                       "  __syncthreads(); // what the block has stored is there for all of its threads\n");
    kiln_buffer_puts(out, "  ");
    emit_call(j, out, i, "");
  }
  kiln_buffer_puts(out, "}\n");
  return NULL;
}

/* --- side by side -------------------------------------------------------------------------------------- */

static bool can_stand_beside(const joined_t *j, const kiln_kernel_source_t *kernel) {
  bool is_row = kiln_dim_is(kernel->grid[1].dim, 1) && kiln_dim_is(kernel->grid[2].dim, 1);
  bool waits = strstr(kernel->source, "__syncthreads") || strstr(kernel->source, "bar.sync");
  return is_row && !strstr(kernel->source, "blockIdx") && (kernel->block[0] == j->threads || !waits);
}

static int64_t constant_blocks(const kiln_extent_t *extent) {
  return (extent->dim.constant + extent->divisor - 1) / extent->divisor;
}

/* ceil(a.dim / a.divisor) + ceil(b.dim / b.divisor), or one more where there are symbols. */
static bool add_extents(kiln_arena_t *arena, const kiln_extent_t *a, const kiln_extent_t *b,
                        kiln_extent_t *out) {
  int64_t both = (int64_t)a->divisor * b->divisor;
  kiln_dim_t of_a, of_b, sum;
  if (kiln_dim_is_constant(a->dim) && kiln_dim_is_constant(b->dim)) {
    *out = (kiln_extent_t){kiln_dim_constant(constant_blocks(a) + constant_blocks(b)), 1};
    return out->dim.constant <= INT32_MAX;
  }
  if (both > INT32_MAX || !kiln_dim_mul(arena, a->dim, kiln_dim_constant(b->divisor), &of_a) ||
      !kiln_dim_mul(arena, b->dim, kiln_dim_constant(a->divisor), &of_b) ||
      !kiln_dim_add(arena, of_a, of_b, &sum) || !kiln_dim_add(arena, sum, kiln_dim_constant(both), &sum))
    return false;
  *out = (kiln_extent_t){sum, (uint32_t)both};
  return true;
}

/* Blocks of a part as text; with symbols its extent becomes a parameter. */
static const char *emit_blocks(joined_t *j, kiln_buffer_t *out, uint32_t number) {
  const kiln_extent_t *extent = &j->members[number].kernel.grid[0];
  if (kiln_dim_is_constant(extent->dim))
    return kiln_arena_printf(j->arena, "%lldu", (long long)constant_blocks(extent));
  kiln_buffer_printf(out, ",\n    long long extent%u", number);
  j->slots[j->slot_count++] = (kiln_slot_t){.kind = KILN_SLOT_DIM64, .dim = extent->dim};
  return kiln_arena_printf(j->arena, "(unsigned)((extent%u + %u) / %u)", number, extent->divisor - 1,
                           extent->divisor);
}

static kiln_status_t emit_beside(joined_t *j, kiln_buffer_t *out, kiln_kernel_source_t *kernel) {
  const kiln_extent_t *first = &j->members[0].kernel.grid[0], *second = &j->members[1].kernel.grid[0];
  for (uint32_t i = 0; i < j->count; i++) {
    if (j->count > 2 || !can_stand_beside(j, &j->members[i].kernel))
      return kiln_error(KILN_UNSUPPORTED, "member %u of a kernel cannot stand beside another", i);
  }
  if (!add_extents(j->arena, first, second, &kernel->grid[0]))
    return kiln_error(KILN_UNSUPPORTED, "two kernels side by side have more blocks than a grid can have");
  kiln_buffer_puts(
      out, "// The first blocks do one, those behind them the other; a block past both does nothing.\n");
  emit_head(j, out, kernel->entry);
  const char *first_blocks = emit_blocks(j, out, 0), *second_blocks = emit_blocks(j, out, 1);
  kiln_buffer_printf(out, ") {\n  const unsigned first_blocks = %s, second_blocks = %s;\n", first_blocks,
                     second_blocks);
  kiln_buffer_puts(out, "  if (blockIdx.x < first_blocks) {\n    ");
  emit_call(j, out, 0, "blockIdx.x");
  kiln_buffer_puts(out, "  } else if (blockIdx.x - first_blocks < second_blocks) {\n    ");
  emit_call(j, out, 1, "blockIdx.x - first_blocks");
  kiln_buffer_puts(out, "  }\n}\n");
  return NULL;
}

kiln_status_t kiln_joined_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                   const kiln_grouping_t *grouping, const kiln_group_t *group,
                                   const kiln_codegen_context_t *context, kiln_generator_of_t generator_of,
                                   kiln_kernel_source_t *out_kernel) {
  joined_t j = {.arena = arena,
                .group = group,
                .members = KILN_NEW_ARRAY(arena, member_t, group->member_count),
                .count = group->member_count};
  kiln_buffer_t *out = kiln_buffer_in_arena(arena);
  bool is_sequence = group->join == KILN_JOIN_SEQUENCE;
  KILN_TRY(generate_members(&j, graph, grouping, context, generator_of));
  *out_kernel = j.members[0].kernel;
  out_kernel->entry = is_sequence ? "kiln_sequence" : "kiln_beside";
  for (uint32_t i = 1; i < j.count; i++) {
    if (j.members[i].kernel.shared_bytes > out_kernel->shared_bytes)
      out_kernel->shared_bytes = j.members[i].kernel.shared_bytes;
  }
  KILN_TRY(is_sequence ? emit_sequence(&j, out, out_kernel) : emit_beside(&j, out, out_kernel));
  if (out->failed) return kiln_error(KILN_OUT_OF_MEMORY, "no memory for a kernel's source");
  out_kernel->source = kiln_buffer_text(out);
  out_kernel->slots = j.slots;
  out_kernel->slot_count = j.slot_count;
  out_kernel->block[0] = j.threads;
  return NULL;
}
