/* codegen/grouped.c: from a group with members to one kernel and its table.
 *
 * 1. Every member is taken as one of its class (member.c); unequal keys are refused, and the caller cuts.
 * 2. What the kernel is tuned to follows from the class and from the set of widths that members have, never
 *    from their number: capacities apart, members more or less change no byte of the source.
 * 3. The family makes the kernel of the small graph; its parameters become the columns of the table.
 * 4. Each member's row: those columns with the member's dimensions, buffers and widths. Bounds that the
 *    kernel relies on are checked for each member, or become guards of the plan.
 * Called by codegen.c.
 */
#include "codegen/grouped.h"

#include "codegen/contraction.h"
#include "codegen/lanes.h"
#include "codegen/rows.h"

#include <stdlib.h>
#include <string.h>

/* Of all parameters of a kernel. CUDA 12.1 has 32,764 from sm_70 on, room for 512 members; but a table of
 * that size would be copied with every launch, one in device memory is not. */
enum { PARAMETER_BYTES = 4096 };

static const uint32_t capacities[] = {8, 64};
enum { CAPACITIES = sizeof capacities / sizeof *capacities };

typedef struct {
  kiln_arena_t *arena;
  const kiln_grouping_t *grouping;
  const kiln_codegen_context_t *context;
  kiln_member_t **members; /* in the order of the table */
  uint32_t count;
  kiln_class_t class;
  kiln_grouped_t grouped;
  kiln_member_graph_t small;
} builder_t;

kiln_symbol_class_t kiln_grouped_class(const kiln_symbol_class_t *symbols, uint32_t width) {
  kiln_symbol_class_t out = *symbols;
  for (uint32_t i = 0; i < KILN_MAX_SYMBOLS; i++) out.multiple[i] = width;
  out.multiple[KILN_MEMBER_M] = 1;
  return out;
}

/* --- (1) members --------------------------------------------------------------------------------------- */

static kiln_status_t find_members(builder_t *b, const kiln_graph_t *graph, const kiln_group_t *group) {
  uint64_t first[2], key[2];
  b->members = KILN_NEW_ARRAY(b->arena, kiln_member_t *, group->member_count);
  b->count = group->member_count;
  for (uint32_t i = 0; i < b->count; i++) {
    kiln_class_t class;
    b->members[i] = kiln_member_create(b->arena, graph, b->grouping, &group->members[i]);
    if (!b->members[i] || !kiln_class_of(b->members[i], b->grouping, &class))
      return kiln_error(KILN_UNSUPPORTED, "member %u of a group has no class", i);
    kiln_member_key(b->arena, b->members[i], b->grouping, class.number, key);
    if (!i) {
      memcpy(first, key, sizeof key);
      b->class = class;
    }
    if (memcmp(first, key, sizeof key))
      return kiln_error(KILN_UNSUPPORTED, "member %u of a group is of another class than the first", i);
  }
  return NULL;
}

static double typical_of(const kiln_member_t *member, uint32_t symbol) {
  return kiln_member_typical(member, member->symbols[symbol]);
}

/* Long members first, so that no block is left with one at the end; else as they came. */
static void sort_members(builder_t *b) {
  for (uint32_t gap = 1, i; b->members[0]->form == KILN_MEMBER_PRODUCT && gap < b->count; gap *= 2) {
    kiln_member_t **merged = KILN_NEW_ARRAY(b->arena, kiln_member_t *, b->count);
    for (i = 0; i < b->count; i += 2 * gap) {
      uint32_t x = i, middle = i + gap < b->count ? i + gap : b->count, y = middle,
               end = i + 2 * gap < b->count ? i + 2 * gap : b->count;
      for (uint32_t k = i; k < end; k++) {
        bool takes_y = x == middle || (y < end && typical_of(b->members[y], KILN_MEMBER_K) >
                                                      typical_of(b->members[x], KILN_MEMBER_K));
        merged[k] = b->members[takes_y ? y++ : x++];
      }
    }
    memcpy(b->members, merged, b->count * sizeof *merged);
  }
}

/* --- (2) widths ---------------------------------------------------------------------------------------- */

static void add_width(kiln_selector_t *selector, uint32_t width) {
  uint32_t i = 0;
  while (i < selector->count && selector->widths[i] > width) i++;
  if (i < selector->count && selector->widths[i] == width) return;
  memmove(selector->widths + i + 1, selector->widths + i, (selector->count - i) * sizeof *selector->widths);
  selector->widths[i] = width;
  selector->count++;
}

static uint32_t width_of(const builder_t *b, const kiln_member_t *member, uint32_t selector) {
  return kiln_class_width(member, b->grouping, b->context->symbol_class, selector);
}

static void find_selectors(builder_t *b) {
  for (uint32_t s = 0; s < b->class.selector_count; s++) {
    kiln_selector_t *selector = &b->grouped.selectors[s];
    selector->name = b->class.selector_names[s];
    for (uint32_t i = 0; i < b->count; i++) add_width(selector, width_of(b, b->members[i], s));
  }
  b->grouped.selector_count = b->class.selector_count;
  b->grouped.most_columns = b->class.most_columns;
  b->grouped.lanes = b->class.lanes;
}

static void find_products(builder_t *b) {
  kiln_product_size_t *sizes = KILN_NEW_ARRAY(b->arena, kiln_product_size_t, b->count);
  if (b->members[0]->form != KILN_MEMBER_PRODUCT) return;
  for (uint32_t i = 0; i < b->count; i++)
    sizes[i] = (kiln_product_size_t){typical_of(b->members[i], KILN_MEMBER_M),
                                     typical_of(b->members[i], KILN_MEMBER_N),
                                     typical_of(b->members[i], KILN_MEMBER_K)};
  b->grouped.products = sizes;
  b->grouped.product_count = b->count;
}

/* --- (3) the kernel ------------------------------------------------------------------------------------ */

static kiln_status_t generate(builder_t *b, kiln_generate_t family, kiln_guards_t *guards,
                              kiln_kernel_source_t *out) {
  kiln_symbol_class_t symbols = {.wide = b->members[0]->is_wide || b->context->symbol_class->wide};
  for (uint32_t i = 0; i < KILN_MAX_SYMBOLS; i++) symbols.multiple[i] = 1;
  if (b->members[0]->form == KILN_MEMBER_LITERAL) symbols = *b->context->symbol_class;
  if (b->class.align_multiple) symbols = kiln_grouped_class(&symbols, b->class.align_multiple);
  if (b->class.is_flat) symbols.multiple[KILN_MEMBER_N] = 1; /* the last vector may be partial */
  kiln_codegen_context_t context = *b->context;
  context.symbol_class = &symbols;
  context.guards = guards;
  context.grouped = &b->grouped;
  kiln_member_graph(b->arena, b->members[0], b->grouping, b->class.typical,
                    b->class.align_multiple ? b->class.align_multiple : 16, &b->small);
  b->grouped.eps_symbols = b->small.eps_symbols;
  KILN_TRY(family(b->arena, b->small.graph, &b->small.grouping, &b->small.group, &context, out));
  if (!kiln_dim_is(out->scratch.workspace_bytes, 0) || !kiln_dim_is(out->scratch.counters, 0) || !out->table)
    return kiln_error(KILN_UNSUPPORTED, "members of a group cannot share a workspace");
  return NULL;
}

/* The smallest capacity that has room for the members and is room in the parameters. */
static kiln_status_t generate_to_fit(builder_t *b, kiln_generate_t family, kiln_guards_t *guards,
                                     kiln_kernel_source_t *out) {
  for (uint32_t i = 0; i <= CAPACITIES; i++) {
    b->grouped.capacity = i < CAPACITIES ? capacities[i] : 0;
    if (b->grouped.capacity && b->grouped.capacity < b->count) continue;
    *guards = (kiln_guards_t){0};
    KILN_TRY(generate(b, family, guards, out));
    kiln_table_t table = *out->table;
    table.capacity = b->grouped.capacity;
    if (!table.capacity || kiln_table_value_bytes(&table) <= PARAMETER_BYTES) return NULL;
  }
  return NULL;
}

/* --- (4) rows of the table ----------------------------------------------------------------------------- */

static kiln_status_t overflow(void) {
  return kiln_error(KILN_UNSUPPORTED, "a dimension of a member leaves 64 bits");
}

static bool place_cell(builder_t *b, const kiln_member_t *member, kiln_buffer_ref_t small, kiln_slot_t *out) {
  const kiln_leaf_t *leaf =
      small.kind == KILN_BUFFER_INPUT ? &member->leaves[small.index] : &member->results[small.index];
  out->kind = KILN_SLOT_PLACE;
  out->buffer = leaf->store ? leaf->store->buffer : b->grouping->storage[leaf->value];
  kiln_dim_t bytes = kiln_dim_constant((int64_t)kiln_dtype_bytes(leaf->dtype));
  return kiln_dim_mul(b->arena, leaf->offset, bytes, &out->dim);
}

static kiln_status_t fill_row(builder_t *b, const kiln_member_t *member, const kiln_table_t *columns,
                              kiln_slot_t *row) {
  uint32_t widths = columns->column_count - b->grouped.selector_count;
  for (uint32_t k = 0; k < columns->column_count; k++) {
    bool fits = true;
    row[k] = columns->cells[k];
    if (k >= widths)
      row[k].dim = kiln_dim_constant(width_of(b, member, k - widths));
    else if (row[k].kind == KILN_SLOT_BUFFER)
      fits = place_cell(b, member, columns->cells[k].buffer, &row[k]);
    else if (row[k].kind ==
             KILN_SLOT_CONSTANT) /* a node of a LITERAL member stands where its original does */
      row[k].buffer.index = member->group->nodes[row[k].buffer.index];
    else
      fits = kiln_member_dim(b->arena, member, columns->cells[k].dim, &row[k].dim);
    if (!fits) return overflow();
  }
  return NULL;
}

/* What the kernel relies on must hold for each member, whatever the symbols are, or be a guard. */
static kiln_status_t check_guard(builder_t *b, const kiln_member_t *member, const kiln_guard_t *guard) {
  kiln_dim_t dim;
  if (!kiln_member_dim(b->arena, member, guard->dim, &dim)) return overflow();
  if (guard->kind == KILN_GUARD_MULTIPLE) {
    if (b->grouped.selector_count) return NULL; /* of the bodies for some width: below */
    if (kiln_dim_is_constant(dim) && dim.constant % guard->bound)
      return kiln_error(KILN_UNSUPPORTED, "a member's rows are not aligned as its class says");
    kiln_guard_multiple(b->arena, b->context->guards, dim, guard->bound);
    return NULL;
  }
  if (kiln_dim_is_constant(dim) && dim.constant >= guard->bound)
    return kiln_error(KILN_UNSUPPORTED, "a member is larger than its class says");
  if (!kiln_dim_is_constant(dim)) kiln_guard_below(b->arena, b->context->guards, dim, guard->bound);
  return NULL;
}

static void rely_on_leaf(builder_t *b, const kiln_leaf_t *leaf, uint32_t width) {
  kiln_guard_multiple(b->arena, b->context->guards, leaf->offset, width);
  if (leaf->steps) kiln_guard_multiple(b->arena, b->context->guards, leaf->stride, width);
}

/* Widths were found for the class of symbols of this request. */
static void rely_on_widths(builder_t *b, const kiln_member_t *member) {
  uint32_t width = 1;
  for (uint32_t s = 0; s < b->grouped.selector_count; s++) {
    if (width_of(b, member, s) > width) width = width_of(b, member, s);
  }
  for (uint32_t s = 0; width > 1 && s < KILN_MEMBER_K + 1; s++) {
    if (s != KILN_MEMBER_M && !kiln_dim_is_constant(member->symbols[s]))
      kiln_guard_multiple(b->arena, b->context->guards, member->symbols[s],
                          kiln_dim_multiple(member->symbols[s], b->context->symbol_class->multiple));
  }
  for (size_t i = 0; width > 1 && i < member->leaf_count; i++) {
    if (!kiln_dim_is_constant(member->leaves[i].offset) || !kiln_dim_is_constant(member->leaves[i].stride))
      rely_on_leaf(
          b, &member->leaves[i],
          kiln_leaf_multiple(member, b->grouping, b->context->symbol_class, &member->leaves[i], width));
  }
  for (uint32_t i = 0; width > 1 && i < member->group->store_count; i++) {
    if (!kiln_dim_is_constant(member->results[i].offset) || !kiln_dim_is_constant(member->results[i].stride))
      rely_on_leaf(
          b, &member->results[i],
          kiln_leaf_multiple(member, b->grouping, b->context->symbol_class, &member->results[i], width));
  }
}

static kiln_status_t add_member(builder_t *b, const kiln_member_t *member, const kiln_kernel_source_t *kernel,
                                const kiln_guards_t *guards, kiln_slot_t *row, kiln_extent_t *blocks) {
  KILN_TRY(fill_row(b, member, kernel->table, row));
  for (int axis = 0; axis < 3; axis++) {
    blocks[axis].divisor = kernel->grid[axis].divisor;
    if (!kiln_member_dim(b->arena, member, kernel->grid[axis].dim, &blocks[axis].dim)) return overflow();
  }
  for (size_t i = 0; i < guards->count; i++) KILN_TRY(check_guard(b, member, &guards->items[i]));
  rely_on_widths(b, member);
  return NULL;
}

/* Blocks that the device holds at once: each takes one tile after the other. A thread has up to 128
 * registers.
 */
static uint32_t resident_blocks(const builder_t *b, const kiln_kernel_source_t *kernel) {
  enum { REGISTERS = 128, RESERVED_SHARED_BYTES = 1024, MOST = 32 };
  const kiln_target_t *target = b->context->target;
  uint32_t threads = kernel->block[0], most = MOST;
  uint32_t by_shared = target->shared_bytes_per_sm / (kernel->shared_bytes + RESERVED_SHARED_BYTES);
  uint32_t by_registers = target->registers_per_sm / (REGISTERS * threads);
  if (by_shared < most) most = by_shared;
  if (by_registers < most) most = by_registers;
  return (most ? most : 1) * target->sm_count;
}

static kiln_status_t make_table(builder_t *b, const kiln_guards_t *guards, kiln_kernel_source_t *kernel) {
  uint32_t columns = kernel->table->column_count;
  kiln_table_t *table = kiln_arena_copy(b->arena, kernel->table, sizeof *table);
  kiln_slot_t *cells = KILN_NEW_ARRAY(b->arena, kiln_slot_t, (size_t)b->count * columns);
  kiln_extent_t *blocks = KILN_NEW_ARRAY(b->arena, kiln_extent_t, 3 * (size_t)b->count);
  for (uint32_t i = 0; i < b->count; i++)
    KILN_TRY(
        add_member(b, b->members[i], kernel, guards, cells + (size_t)i * columns, blocks + 3 * (size_t)i));
  table->cells = cells;
  table->blocks = blocks;
  table->row_count = b->count;
  table->capacity = b->grouped.capacity;
  if (b->members[0]->form == KILN_MEMBER_PRODUCT) table->most_blocks = resident_blocks(b, kernel);
  kernel->table = table;
  for (int axis = 0; axis < 3; axis++) kernel->grid[axis] = (kiln_extent_t){kiln_dim_constant(1), 1};
  return NULL;
}

kiln_status_t kiln_grouped_generate(kiln_arena_t *arena, const kiln_graph_t *graph,
                                    const kiln_grouping_t *grouping, const kiln_group_t *group,
                                    const kiln_codegen_context_t *context, kiln_generate_t family,
                                    kiln_kernel_source_t *out_kernel) {
  builder_t b = {.arena = arena, .grouping = grouping, .context = context};
  kiln_guards_t guards;
  KILN_TRY(find_members(&b, graph, group));
  sort_members(&b);
  find_selectors(&b);
  find_products(&b);
  KILN_TRY(generate_to_fit(&b, family, &guards, out_kernel));
  return make_table(&b, &guards, out_kernel);
}
