/* codegen/emit.c: a scheduled kernel as source and launch record.
 *
 * Body first, since it decides which parameters and helpers there are; then header comment, helpers, tables,
 * signature. Nothing of the source depends on names in the graph. Regions take ranges of blocks in turn.
 * Called by elementwise.c.
 */
#include "codegen/emit.h"
#include "codegen/constant.h"
#include "codegen/grouped.h"
#include "codegen/joined.h"
#include "codegen/tiles.h"

#include <string.h>

enum { MOST_NODES_TOLD = 40, MOST_BYTES_PRINTED = 1 << 16 };

static const kiln_symbol_t neutral_symbols[KILN_MAX_SYMBOLS] = {{"S0", 0}, {"S1", 0}, {"S2", 0}, {"S3", 0},
                                                                {"S4", 0}, {"S5", 0}, {"S6", 0}, {"S7", 0}};

/* --- names
 * -------------------------------------------------------------------------------------------------- */

static bool is_table_in_source(const kiln_emitter_t *emitter, const kiln_kernel_buffer_t *buffer) {
  if (buffer->kind != KILN_KERNEL_TABLE) return false;
  uint32_t count = kiln_constant_count(&emitter->kernel->graph->nodes[buffer->node]);
  return count * kiln_dtype_bytes(buffer->dtype) <= MOST_BYTES_PRINTED;
}

static void name_buffers(kiln_emitter_t *emitter) {
  kiln_kernel_t *kernel = emitter->kernel;
  unsigned reads = 0, writes = 0, tables = 0;
  emitter->buffer_names = KILN_NEW_ARRAY(kernel->arena, const char *, kernel->buffer_count);
  for (size_t i = 0; i < kernel->buffer_count; i++) {
    const kiln_kernel_buffer_t *buffer = &kernel->buffers[i];
    if (buffer->kind == KILN_KERNEL_SHARED) {
      emitter->buffer_names[i] = buffer->name;
      continue;
    }
    const char *kind = buffer->kind == KILN_KERNEL_TABLE ? "table" : buffer->written ? "out" : "in";
    unsigned *next = buffer->kind == KILN_KERNEL_TABLE ? &tables : buffer->written ? &writes : &reads;
    emitter->buffer_names[i] = kiln_arena_printf(kernel->arena, "%s%u", kind, (*next)++);
  }
}

/* --- the comment
 * ------------------------------------------------------------------------------------------------ */

/* Names for people: buffers by their parameters, other values by their order of appearance. */
static const char **name_values(kiln_emitter_t *emitter) {
  kiln_kernel_t *kernel = emitter->kernel;
  const kiln_graph_t *graph = kernel->graph;
  const char **names = KILN_NEW_ARRAY(kernel->arena, const char *, graph->value_count);
  unsigned next = 0;
  for (uint32_t i = 0; i < emitter->group->node_count; i++) {
    const kiln_node_t *node = &graph->nodes[emitter->group->nodes[i]];
    for (uint32_t k = 0; k < node->result_count; k++) {
      names[node->first_result + k] = kiln_arena_printf(kernel->arena, "t%u", next++);
    }
  }
  return names;
}

static bool is_at(const kiln_kernel_buffer_t *buffer, kiln_buffer_ref_t ref, bool written) {
  return buffer->kind == KILN_KERNEL_BUFFER && buffer->written == written && buffer->ref.kind == ref.kind &&
         buffer->ref.index == ref.index;
}

/* A line for each value that is read, which also gets its parameter's name. */
static void tell_inputs(kiln_emitter_t *emitter, const kiln_grouping_t *grouping, kiln_buffer_t *out,
                        const char **names) {
  const kiln_kernel_t *kernel = emitter->kernel;
  for (size_t k = 0; k < kernel->buffer_count; k++) {
    for (uint32_t i = 0; i < emitter->group->input_count; i++) {
      kiln_value_id_t value = emitter->group->inputs[i];
      if (!is_at(&kernel->buffers[k], grouping->storage[value], false)) continue;
      names[value] = emitter->buffer_names[k];
      kiln_buffer_printf(out, "//   %s : ", names[value]);
      kiln_type_print(out, &kernel->graph->types[value], neutral_symbols);
      kiln_buffer_puts(out, "\n");
    }
  }
}

static void tell_stores(kiln_emitter_t *emitter, kiln_buffer_t *out, const char *const *names) {
  const kiln_kernel_t *kernel = emitter->kernel;
  for (size_t k = 0; k < kernel->buffer_count; k++) {
    for (uint32_t i = 0; i < emitter->group->store_count; i++) {
      const kiln_store_t *store = &emitter->group->stores[i];
      if (!is_at(&kernel->buffers[k], store->buffer, true)) continue;
      kiln_buffer_printf(out, "//   %s <- %s\n", emitter->buffer_names[k], names[store->value]);
    }
  }
}

static void tell_node(kiln_emitter_t *emitter, kiln_buffer_t *out, const char *const *names,
                      const kiln_node_t *node) {
  const kiln_graph_t *graph = emitter->kernel->graph;
  kiln_buffer_puts(out, "//  ");
  for (uint32_t i = 0; i < node->result_count; i++) {
    kiln_buffer_printf(out, i ? ", %s" : " %s", names[node->first_result + i]);
  }
  kiln_buffer_printf(out, " = %s(", kiln_op_info(node->op)->name);
  for (uint32_t i = 0; i < node->operand_count && i < 8; i++) {
    kiln_value_id_t operand = node->operands[i];
    const char *name = operand == KILN_NO_VALUE ? "none" : names[operand] ? names[operand] : "unread";
    kiln_buffer_printf(out, i ? ", %s" : "%s", name);
  }
  kiln_buffer_puts(out, node->operand_count > 8 ? ", ...) : " : ") : ");
  kiln_type_print(out, &graph->types[node->first_result], neutral_symbols);
  kiln_buffer_puts(out, "\n");
}

static void tell_group(kiln_emitter_t *emitter, const kiln_grouping_t *grouping, kiln_buffer_t *out) {
  const kiln_group_t *group = emitter->group;
  const kiln_graph_t *graph = emitter->kernel->graph;
  const char **names = name_values(emitter);
  tell_inputs(emitter, grouping, out, names);
  for (uint32_t i = 0; i < group->node_count && i < MOST_NODES_TOLD; i++) {
    tell_node(emitter, out, names, &graph->nodes[group->nodes[i]]);
  }
  if (group->node_count > MOST_NODES_TOLD) {
    kiln_buffer_printf(out, "//   ... and %u more\n", group->node_count - MOST_NODES_TOLD);
  }
  tell_stores(emitter, out, names);
}

static void tell_params(kiln_emitter_t *emitter, kiln_buffer_t *out) {
  const char *names[KILN_MAX_SYMBOLS];
  for (size_t i = 0; i < KILN_MAX_SYMBOLS; i++) names[i] = neutral_symbols[i].name;
  for (size_t i = 0; i < emitter->param_count; i++) {
    kiln_buffer_printf(out, "// n%zu = ", i);
    kiln_dim_print(out, emitter->params[i].dim, names);
    kiln_buffer_puts(out, "\n");
  }
}

/* --- regions over blocks
 * -------------------------------------------------------------------------------------- */

static void tell_region(kiln_emitter_t *emitter, const kiln_region_t *region, size_t number) {
  kiln_kernel_t *kernel = emitter->kernel;
  kiln_buffer_t axes;
  kiln_buffer_init(&axes);
  const char *names[KILN_MAX_SYMBOLS];
  for (size_t i = 0; i < KILN_MAX_SYMBOLS; i++) names[i] = neutral_symbols[i].name;
  for (uint32_t i = 0; i < region->axis_count; i++) {
    kiln_axis_t axis = kernel->axes[region->axes[i]];
    kiln_buffer_puts(&axes, i ? " x " : "");
    kiln_dim_print(&axes, axis.extent, names);
    if (axis.divisor > 1) kiln_buffer_printf(&axes, "/%u", axis.divisor);
  }
  if (!region->axis_count) kiln_buffer_puts(&axes, "1");
  if (emitter->kernel->region_count > 1) kiln_emit_line(emitter, "// Region %zu.", number);
  if (region->tile) {
    kiln_emit_line(emitter,
                   "// One block for each tile of %u x %u points of %s: what is contiguous along a%u passes",
                   region->tile->size, region->tile->size, kiln_buffer_text(&axes), region->tile->column);
    kiln_emit_line(emitter, "// through shared memory, and is stored along a%u.", region->axis_count - 1);
  } else
    kiln_emit_line(emitter, "// One thread for each of %s; it stores %u time%s %u element%s.%s",
                   kiln_buffer_text(&axes), region->store_count, region->store_count == 1 ? "" : "s",
                   region->lanes, region->lanes == 1 ? "" : "s",
                   region->has_tail ? " The last vector may be partial." : "");
  if (axes.failed) emitter->body.failed = true;
  kiln_buffer_deinit(&axes);
}

/* One region, for the threads below its count. */
static void emit_bounded_region(kiln_emitter_t *emitter, const kiln_region_t *region, const char *block) {
  bool wide;
  if (region->tile) {
    kiln_emit_tile_region(emitter, region, block);
    return;
  }
  const char *count = kiln_emit_thread_count(emitter, region, &wide);
  if (wide)
    kiln_emit_line(emitter, "const unsigned long long thread = %s * %dull + threadIdx.x;", block,
                   KILN_BLOCK_THREADS);
  else
    kiln_emit_line(emitter, "const unsigned thread = %s * %du + threadIdx.x;", block, KILN_BLOCK_THREADS);
  kiln_emit_line(emitter, "if (thread >= %s) return;", count);
  kiln_emit_region(emitter, region);
}

/* ceil(threads / block), as text. */
static const char *block_count(kiln_emitter_t *emitter, const kiln_region_t *region) {
  kiln_arena_t *arena = emitter->kernel->arena;
  if (region->tile) return kiln_arena_printf(arena, "(unsigned)(%s)", kiln_emit_tile_count(emitter, region));
  kiln_extent_t threads = kiln_emit_threads(emitter->kernel, region);
  int64_t divisor = (int64_t)threads.divisor * KILN_BLOCK_THREADS;
  if (kiln_dim_is_constant(threads.dim)) {
    return kiln_arena_printf(arena, "%lldu", (long long)((threads.dim.constant + divisor - 1) / divisor));
  }
  bool is_wide;
  const char *count = kiln_emit_thread_count(emitter, region, &is_wide);
  return kiln_arena_printf(arena, "(unsigned)((%s + %d) / %d)", count, KILN_BLOCK_THREADS - 1,
                           KILN_BLOCK_THREADS);
}

/* One piece of shared memory for whichever region a block belongs to. */
static void emit_shared(kiln_emitter_t *emitter) {
  uint32_t bytes = 0;
  for (size_t i = 0; i < emitter->kernel->region_count; i++) {
    const struct kiln_tile *tile = emitter->kernel->regions[i].tile;
    if (tile && tile->shared_bytes > bytes) bytes = tile->shared_bytes;
  }
  if (bytes) kiln_emit_line(emitter, "__shared__ __align__(16) unsigned char kiln_shared[%u];", bytes);
}

static void emit_regions(kiln_emitter_t *emitter) {
  kiln_kernel_t *kernel = emitter->kernel;
  emit_shared(emitter);
  if (kernel->region_count == 1) {
    tell_region(emitter, &kernel->regions[0], 0);
    emit_bounded_region(emitter, &kernel->regions[0], kiln_emit_block(emitter));
    return;
  }
  const char *left = strcmp(kiln_emit_block(emitter), "block") ? "block" : "left_blocks";
  kiln_emit_line(emitter, "unsigned %s = %s;", left, kiln_emit_block(emitter));
  for (size_t i = 0; i < kernel->region_count; i++) {
    const char *blocks = block_count(emitter, &kernel->regions[i]);
    tell_region(emitter, &kernel->regions[i], i);
    kiln_emit_line(emitter, "if (%s < %s) {", left, blocks);
    emitter->indent++;
    emit_bounded_region(emitter, &kernel->regions[i], left);
    kiln_emit_line(emitter, "return;");
    emitter->indent--;
    kiln_emit_line(emitter, "}");
    kiln_emit_line(emitter, "%s -= %s;", left, blocks);
  }
}

/* --- the launch
 * ------------------------------------------------------------------------------------------------- */

/* Blocks of a region: ceil(dim / divisor), the divisor a power of two. */
static kiln_extent_t region_blocks(kiln_kernel_t *kernel, const kiln_region_t *region) {
  if (region->tile) return kiln_tile_blocks(kernel, region);
  kiln_extent_t blocks = kiln_emit_threads(kernel, region);
  blocks.divisor *= KILN_BLOCK_THREADS;
  return blocks;
}

/* One number for all regions' blocks, ceil(dim / divisor) with the largest of their divisors. Where several
 * are rounded up, each but the last gets a whole block for it; blocks past the last region's do nothing. */
static kiln_extent_t grid_extent(kiln_kernel_t *kernel) {
  uint32_t most = 1;
  kiln_dim_t sum = kiln_dim_constant(0);
  for (size_t i = 0; i < kernel->region_count; i++) {
    kiln_extent_t blocks = region_blocks(kernel, &kernel->regions[i]);
    if (blocks.divisor > most) most = blocks.divisor;
  }
  for (size_t i = 0; i < kernel->region_count; i++) {
    kiln_extent_t blocks = region_blocks(kernel, &kernel->regions[i]);
    kiln_dim_t part = kiln_kernel_dim_mul(kernel, blocks.dim, kiln_dim_constant(most / blocks.divisor));
    if (kiln_dim_is_constant(part))
      part.constant = (part.constant + most - 1) / most * most;
    else if (i + 1 < kernel->region_count)
      part = kiln_kernel_dim_add(kernel, part, kiln_dim_constant(most - 1));
    sum = kiln_kernel_dim_add(kernel, sum, part);
  }
  return (kiln_extent_t){sum, most};
}

const char *kiln_emit_block(const kiln_emitter_t *emitter) {
  bool has_own = emitter->context->grouped || (emitter->context->part && emitter->context->part->takes_block);
  return has_own ? "block" : "blockIdx.x";
}

bool kiln_emit_is_param(const kiln_emitter_t *emitter, const kiln_kernel_buffer_t *buffer) {
  return buffer->kind != KILN_KERNEL_SHARED && !is_table_in_source(emitter, buffer);
}

kiln_slot_t kiln_emit_buffer_slot(const kiln_kernel_buffer_t *buffer) {
  if (buffer->kind == KILN_KERNEL_TABLE)
    return (kiln_slot_t){.kind = KILN_SLOT_CONSTANT, .buffer.index = buffer->node};
  return (kiln_slot_t){.kind = KILN_SLOT_BUFFER, .buffer = buffer->ref};
}

static void emit_scratch_param(kiln_buffer_t *out, kiln_dim_t need, const char *param, kiln_slot_kind_t kind,
                               kiln_slot_t *slots, uint32_t *count) {
  if (kiln_dim_is(need, 0)) return;
  kiln_buffer_printf(out, "%s%s", *count ? ",\n    " : "\n    ", param);
  slots[(*count)++] = (kiln_slot_t){.kind = kind};
}

static bool are_one_slot(const kiln_grouping_t *grouping, kiln_buffer_ref_t a, kiln_buffer_ref_t b) {
  return a.kind == KILN_BUFFER_TEMP && b.kind == KILN_BUFFER_TEMP && grouping->temp_slots &&
         grouping->temp_slots[a.index] == grouping->temp_slots[b.index];
}

/* Is something written over what the kernel reads (passes/buffers.c)? */
static bool works_in_place(const kiln_kernel_t *kernel, const kiln_grouping_t *grouping) {
  for (size_t i = 0; i < kernel->buffer_count; i++) {
    for (size_t k = 0; kernel->buffers[i].written && k < kernel->buffer_count; k++) {
      if (!kernel->buffers[k].written &&
          are_one_slot(grouping, kernel->buffers[i].ref, kernel->buffers[k].ref))
        return true;
    }
  }
  return false;
}

/* The parameters: what is read, what is written, scratch memory, numbers. Written to the signature and the
 * slots alike. */
static const kiln_slot_t *emit_params(kiln_emitter_t *emitter, const kiln_grouping_t *grouping,
                                      const kiln_scratch_t *scratch, kiln_buffer_t *out,
                                      uint32_t *out_count) {
  kiln_kernel_t *kernel = emitter->kernel;
  bool may_alias = emitter->context->part || works_in_place(kernel, grouping);
  kiln_slot_t *slots =
      KILN_NEW_ARRAY(kernel->arena, kiln_slot_t, kernel->buffer_count + 2 + emitter->param_count);
  const char **types =
      KILN_NEW_ARRAY(kernel->arena, const char *, kernel->buffer_count + 2 + emitter->param_count);
  uint32_t count = 0;
  for (size_t i = 0; i < 2 * kernel->buffer_count; i++) {
    const kiln_kernel_buffer_t *buffer = &kernel->buffers[i % kernel->buffer_count];
    if (!kiln_emit_is_param(emitter, buffer) || buffer->written != (i >= kernel->buffer_count)) continue;
    types[count] = kiln_arena_printf(kernel->arena, "%s%s *", buffer->written ? "" : "const ",
                                     kiln_emit_storage_type(buffer->dtype));
    kiln_buffer_printf(out, "%s%s%s%s", count ? ",\n    " : "\n    ", types[count],
                       may_alias ? "" : "__restrict__ ", emitter->buffer_names[i % kernel->buffer_count]);
    slots[count++] = kiln_emit_buffer_slot(buffer);
  }
  emit_scratch_param(out, scratch->workspace_bytes, "unsigned char *__restrict__ workspace",
                     KILN_SLOT_WORKSPACE, slots, &count);
  emit_scratch_param(out, scratch->counters, "unsigned *__restrict__ counters", KILN_SLOT_COUNTERS, slots,
                     &count);
  for (size_t i = 0; i < emitter->param_count; i++) {
    const kiln_param_t *param = &emitter->params[i];
    types[count] = param->is_wide ? "long long " : "int ";
    kiln_buffer_printf(out, "%s%sn%zu", count ? ",\n    " : "\n    ", types[count], i);
    slots[count++] =
        (kiln_slot_t){.kind = param->is_wide ? KILN_SLOT_DIM64 : KILN_SLOT_DIM32, .dim = param->dim};
  }
  if (emitter->context->part) emitter->context->part->parameter_types = types;
  *out_count = count;
  return slots;
}

/* --- the source
 * ------------------------------------------------------------------------------------------------- */

/* A variable of the device must have constants for initial values, and a NaN's bits are not one as a float:
 * floats are kept as integers. */
static const char *table_type(kiln_dtype_t dtype) {
  if (dtype == KILN_DTYPE_f32) return "unsigned";
  return dtype == KILN_DTYPE_f64 ? "unsigned long long" : kiln_emit_storage_type(dtype);
}

static bool is_float_table(const kiln_emitter_t *emitter, const kiln_kernel_buffer_t *buffer) {
  return is_table_in_source(emitter, buffer) &&
         (buffer->dtype == KILN_DTYPE_f32 || buffer->dtype == KILN_DTYPE_f64);
}

/* Ends with whole 16 bytes: the compiler reads three elements as four where the alignment says that no page
 * ends between them, and a reader of its PTX would call the fourth out of bounds. */
static void emit_table(kiln_emitter_t *emitter, kiln_buffer_t *out, size_t number) {
  const kiln_kernel_buffer_t *buffer = &emitter->kernel->buffers[number];
  const kiln_node_t *node = &emitter->kernel->graph->nodes[buffer->node];
  bool is_float = is_float_table(emitter, buffer);
  uint32_t count = kiln_constant_count(node), per_16_bytes = 16 / (uint32_t)kiln_dtype_bytes(buffer->dtype);
  uint32_t room = (count + per_16_bytes - 1) / per_16_bytes * per_16_bytes;
  kiln_buffer_printf(out, "static __device__ const __align__(16) %s %s%s[%u] = {", table_type(buffer->dtype),
                     emitter->buffer_names[number], is_float ? "_bits" : "", room);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t bits = kiln_constant_bits(node, i);
    kiln_buffer_puts(out, i == 0 ? "" : i % 8 ? ", " : ",\n  ");
    if (is_float)
      kiln_buffer_printf(out, "0x%llx", (unsigned long long)bits);
    else
      kiln_buffer_puts(out, kiln_emit_bits(emitter, bits, buffer->dtype));
  }
  kiln_buffer_puts(out, "};\n\n");
}

static void emit_table_pointers(kiln_emitter_t *emitter, kiln_buffer_t *out) {
  for (size_t i = 0; i < emitter->kernel->buffer_count; i++) {
    const kiln_kernel_buffer_t *buffer = &emitter->kernel->buffers[i];
    const char *type = kiln_emit_storage_type(buffer->dtype), *name = emitter->buffer_names[i];
    if (!is_float_table(emitter, buffer)) continue;
    kiln_buffer_printf(out, "  const %s *const %s = reinterpret_cast<const %s *>(%s_bits);\n", type, name,
                       type, name);
  }
}

/* The columns of the table, as dimensions of the small graph: grouped.c makes the rows. */
static void emit_grouped_type(kiln_emitter_t *emitter, kiln_buffer_t *out, kiln_kernel_source_t *kernel) {
  kiln_table_t *table = KILN_NEW(emitter->kernel->arena, kiln_table_t);
  table->cells = kiln_emit_member_type(emitter, out, &table->column_count);
  kernel->table = table;
}

static void emit_source(kiln_emitter_t *emitter, const kiln_grouping_t *grouping, kiln_buffer_t *out,
                        kiln_kernel_source_t *kernel) {
  bool is_grouped = emitter->context->grouped != NULL;
  kiln_buffer_puts(out,
                   is_grouped ? "// Computes, for many members with sizes of their own,\n" : "// Computes\n");
  tell_group(emitter, grouping, out);
  tell_params(emitter, out);
  kiln_buffer_puts(out, "\n");
  kiln_emit_helpers(emitter->kernel->arena, out, kiln_buffer_text(&emitter->body));
  for (size_t i = 0; i < emitter->kernel->buffer_count; i++) {
    if (is_table_in_source(emitter, &emitter->kernel->buffers[i])) emit_table(emitter, out, i);
  }
  if (is_grouped) emit_grouped_type(emitter, out, kernel);
  /* One block an SM at least: without this ptxas squeezes a kernel into 32 registers, for as many blocks as
   * fit, and spills where sin and cos need a few more. */
  if (emitter->context->part)
    kiln_buffer_printf(out, "static __device__ __forceinline__ void %s(%s", kernel->entry,
                       emitter->context->part->takes_block ? "\n    unsigned block," : "");
  else
    kiln_buffer_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u, 1) %s(", kernel->block[0],
                       kernel->entry);
  kernel->slots = is_grouped ? kiln_emit_member_params(emitter, out, &kernel->slot_count)
                             : emit_params(emitter, grouping, &kernel->scratch, out, &kernel->slot_count);
  kiln_buffer_puts(out, ") {\n");
  emit_table_pointers(emitter, out);
  if (is_grouped) kiln_emit_member_of_block(emitter, out);
  kiln_buffer_append(out, emitter->body.data, emitter->body.size);
  kiln_buffer_puts(out, emitter->takes_turns ? "  }\n}\n" : "}\n");
}

void kiln_emit_begin(kiln_emitter_t *emitter) {
  kiln_buffer_init(&emitter->body);
  name_buffers(emitter);
  emitter->indent = 1;
}

kiln_status_t kiln_emit_finish(kiln_emitter_t *emitter, const kiln_grouping_t *grouping,
                               kiln_kernel_source_t *kernel) {
  kiln_buffer_t source;
  kiln_buffer_init(&source);
  emit_source(emitter, grouping, &source, kernel);
  kernel->source = kiln_arena_strdup(emitter->kernel->arena, kiln_buffer_text(&source));
  bool failed = source.failed || emitter->body.failed;
  kiln_buffer_deinit(&source);
  kiln_buffer_deinit(&emitter->body);
  return failed ? kiln_error(KILN_OUT_OF_MEMORY, "no memory for a kernel's source") : NULL;
}

kiln_status_t kiln_emit_kernel(kiln_emitter_t *emitter, const kiln_grouping_t *grouping, const char *entry,
                               kiln_kernel_source_t *out_kernel) {
  kiln_emit_begin(emitter);
  emit_regions(emitter);
  kiln_extent_t one = {kiln_dim_constant(1), 1};
  *out_kernel = (kiln_kernel_source_t){
      .entry = entry, .grid = {grid_extent(emitter->kernel), one, one}, .block = {KILN_BLOCK_THREADS, 1, 1}};
  return kiln_emit_finish(emitter, grouping, out_kernel);
}
