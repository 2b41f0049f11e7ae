/* codegen/contraction_plan.c: how a contraction's operands reach shared memory, and how large its tile is.
 *
 * An operand that is read as it lies goes there by cp.async, in the widest pieces that its alignment allows,
 * along whichever axis its elements are neighbours: k, or its rows (m or n). Everything else (casts, pads,
 * odd addresses of halves) is loaded, computed and stored. The arithmetic takes both arrangements. Called by
 * contraction.c.
 */
#include "codegen/contraction.h"

#include <math.h>

enum { ROW_BYTES = 64, /* of K in a step */ ASYNC_STAGES = 4, NO_AXIS = -1 };

/* --- copies -------------------------------------------------------------------------------------------- */

static const kiln_space_axis_t *inner_of(const kiln_contraction_t *c, const kiln_operand_t *operand,
                                         bool along_rows) {
  return along_rows ? operand->rows : &c->k;
}

/* A region over (batch, outer, inner) that stores the operand's elements to the buffer "to". */
static kiln_region_t copy_region(kiln_contraction_t *c, const kiln_operand_t *operand, bool along_rows) {
  kiln_kernel_t *kernel = c->kernel;
  const kiln_space_axis_t *inner = inner_of(c, operand, along_rows);
  kiln_kernel_buffer_t to = {.kind = KILN_KERNEL_SHARED,
                             .name = "to",
                             .ref.index = operand == &c->b,
                             .dtype = c->dtype,
                             .written = true,
                             .align_bytes = 16};
  kiln_kernel_store_t store = {kiln_kernel_buffer(kernel, to), inner->index, operand->scalar};
  const uint32_t axes[] = {c->batch.axis, inner_of(c, operand, !along_rows)->axis, inner->axis};
  return (kiln_region_t){.axes = kiln_arena_copy(kernel->arena, axes, sizeof axes),
                         .axis_count = 3,
                         .lanes = 1,
                         .most_lanes = kiln_contraction_chunk(c),
                         .stores = kiln_arena_copy(kernel->arena, &store, sizeof store),
                         .store_count = 1};
}

/* The region with its inner axis in steps of `width`, whether or not that divides it. */
static kiln_region_t cut_inner(kiln_kernel_t *kernel, kiln_region_t region, uint32_t width,
                               uint32_t *out_step) {
  uint32_t inner = region.axes[region.axis_count - 1];
  *out_step = kiln_kernel_axis(kernel, kernel->axes[inner].extent, width);
  region.lane_axis = kiln_kernel_axis(kernel, kiln_dim_constant(width), 1);
  region.lanes = width;
  kiln_expr_id_t *axes = kiln_region_same_axes(kernel);
  axes[inner] = kiln_index_add_scaled(kernel, kiln_index_axis(kernel, region.lane_axis),
                                      kiln_dim_constant(width), kiln_index_axis(kernel, *out_step));
  return kiln_region_replace(kernel, &region, axes);
}

static bool is_plain_load(const kiln_contraction_t *c, kiln_expr_id_t scalar) {
  const kiln_expr_t *expr = &c->kernel->exprs[scalar];
  return expr->kind == KILN_EXPR_LOAD && kiln_condition_is_true(c->kernel, expr->operands[1]) &&
         c->kernel->buffers[expr->bits].kind == KILN_KERNEL_BUFFER;
}

/* Can the operand be copied `width` elements at a time along an axis? Describes the copy. */
static bool try_async(kiln_contraction_t *c, const kiln_operand_t *operand, bool along_rows, uint32_t width,
                      kiln_copy_t *out) {
  kiln_kernel_t *kernel = c->kernel;
  kiln_dim_t extent = inner_of(c, operand, along_rows)->extent;
  const kiln_symbol_class_t *class = c->context->symbol_class;
  if (width * kiln_dtype_bytes(c->dtype) < 4) return false; /* cp.async knows 4, 8 and 16 bytes */
  if (kiln_dim_is_constant(extent) ? extent.constant % width != 0
                                   : kiln_dim_multiple(extent, class->multiple) < width)
    return false; /* the last piece would be partial */
  *out = (kiln_copy_t){.along_rows = along_rows, .is_async = true, .width = width, .has_step_axis = true};
  if (width == 1) { /* where it lies, whatever its neighbours */
    out->step_axis = inner_of(c, operand, along_rows)->axis;
    out->buffer = (uint32_t)kernel->exprs[operand->scalar].bits;
    out->offset = kernel->exprs[operand->scalar].operands[0];
    return true;
  }
  kiln_region_t region = cut_inner(kernel, copy_region(c, operand, along_rows), width, &out->step_axis);
  kiln_lanes_t lanes = kiln_lanes_analyze(kernel, &region);
  const kiln_expr_t *load = &kernel->exprs[region.stores[0].value];
  kiln_access_t access = kiln_lanes_access(&lanes, load->operands[0], load->operands[1]);
  load = &kernel->exprs[region.stores[0].value];
  out->buffer = (uint32_t)load->bits;
  out->offset = access.base;
  return access.is_contiguous && kiln_access_width(kernel, &access, out->buffer, class, NULL) == width;
}

/* What the chosen copy needs of symbols, on record. */
static void rely_on(kiln_contraction_t *c, const kiln_operand_t *operand, const kiln_copy_t *copy) {
  kiln_dim_t extent = inner_of(c, operand, copy->along_rows)->extent;
  kiln_access_t access = {.base = copy->offset, .window = copy->width};
  kiln_access_width(c->kernel, &access, copy->buffer, c->context->symbol_class, c->context->guards);
  if (!kiln_dim_is_constant(extent)) {
    kiln_guard_multiple(c->kernel->arena, c->context->guards, extent, copy->width);
  }
}

/* How many loads of an operand have neighbouring elements along an axis? */
uint32_t kiln_contraction_contiguous(kiln_contraction_t *c, const kiln_operand_t *operand, bool along_rows) {
  kiln_kernel_t *kernel = c->kernel;
  uint32_t step, count = 0;
  if (kiln_dim_is(inner_of(c, operand, along_rows)->extent, 1)) return 0;
  kiln_region_t region = cut_inner(kernel, copy_region(c, operand, along_rows), 2, &step);
  kiln_lanes_t lanes = kiln_lanes_analyze(kernel, &region);
  const bool *reachable = kiln_region_reachable(kernel, &region);
  for (size_t i = 0, end = kernel->expr_count; i < end; i++) {
    if (!reachable[i] || kernel->exprs[i].kind != KILN_EXPR_LOAD) continue;
    const kiln_expr_id_t *operands = kernel->exprs[i].operands;
    count += kiln_lanes_access(&lanes, operands[0], operands[1]).is_contiguous;
  }
  return count;
}

/* Loaded, computed and stored; the store goes to where the lanes of a step are. */
static kiln_copy_t computed_copy(kiln_contraction_t *c, const kiln_operand_t *operand, bool along_rows) {
  kiln_kernel_t *kernel = c->kernel;
  kiln_copy_t copy = {.along_rows = along_rows};
  copy.region = kiln_schedule_vectorize(kernel, copy_region(c, operand, along_rows), c->context);
  copy.width = copy.region.lanes;
  copy.has_step_axis = copy.region.axis_count == 3;
  if (copy.has_step_axis) copy.step_axis = copy.region.axes[2];
  kiln_kernel_store_t store = copy.region.stores[0];
  store.offset = copy.width > 1 ? kiln_index_axis(kernel, copy.region.lane_axis)
                                : kiln_index_constant(kernel, kiln_dim_constant(0));
  copy.region.stores = kiln_arena_copy(kernel->arena, &store, sizeof store);
  return copy;
}

/* Plain arithmetic reads 16 bytes of neighbouring rows; bytes would be more rows than a thread has. */
static bool may_lie_along_rows(const kiln_contraction_t *c) {
  return c->uses_tensor_cores || kiln_dtype_bytes(c->dtype) >= 4;
}

static kiln_copy_t choose_copy(kiln_contraction_t *c, const kiln_operand_t *operand) {
  bool prefers_rows = may_lie_along_rows(c) && kiln_contraction_contiguous(c, operand, true) >
                                                   kiln_contraction_contiguous(c, operand, false);
  kiln_copy_t copy;
  if (is_plain_load(c, operand->scalar)) {
    for (uint32_t width = kiln_contraction_chunk(c); width >= 1; width /= 2) {
      if (!try_async(c, operand, prefers_rows, width, &copy)) continue;
      rely_on(c, operand, &copy);
      return copy;
    }
  }
  return computed_copy(c, operand, prefers_rows);
}

static kiln_copy_t choose_copies(kiln_contraction_t *c, kiln_operand_t *operand, uint32_t number) {
  if (!c->has_widths) return choose_copy(c, operand);
  const kiln_codegen_context_t *context = c->context;
  operand->selector = &context->grouped->selectors[number];
  for (uint32_t i = 0; i < operand->selector->count; i++) {
    c->context = kiln_contraction_context(c, operand->selector->widths[i]);
    operand->copies[i] = choose_copy(c, operand);
    c->context = context;
  }
  return operand->copies[0];
}

static bool is_any_async(const kiln_operand_t *operand) {
  bool is_async = operand->copy.is_async;
  for (uint32_t i = 0; operand->selector && i < operand->selector->count; i++)
    is_async |= operand->copies[i].is_async;
  return is_async;
}

/* --- the tile ------------------------------------------------------------------------------------------ */

typedef struct {
  uint16_t m, n, warps_m, warps_n;
} shape_t;

typedef struct {
  const shape_t *items;
  size_t count;
} shapes_t;

/* A warp of a tensor-core tile has multiples of 16 x 16. */
static const shape_t tensor_shapes[] = {
    {128, 128, 2, 4}, {128, 64, 2, 2}, {64, 128, 2, 2}, {64, 64, 2, 2}, {128, 32, 4, 1},
    {32, 128, 1, 4},  {64, 32, 2, 2},  {32, 64, 2, 2},  {32, 32, 2, 2}, {16, 64, 1, 4},
    {64, 16, 4, 1},   {16, 32, 1, 2},  {32, 16, 2, 1},
};

/* 16 x 16 threads, each with 1/16 of the rows and columns. */
static const shape_t plain_shapes[] = {{128, 128, 0, 0}, {64, 64, 0, 0}, {32, 32, 0, 0}};

double kiln_contraction_typical(const kiln_contraction_t *c, kiln_dim_t dim) {
  int64_t symbols[KILN_MAX_SYMBOLS], value;
  for (uint32_t i = 0; i < KILN_MAX_SYMBOLS; i++) {
    bool known = i < c->kernel->graph->symbol_count && c->kernel->graph->symbols[i].typical > 0;
    symbols[i] = known ? c->kernel->graph->symbols[i].typical : 512;
  }
  return kiln_dim_eval(dim, symbols, &value) ? (double)value : 1e18;
}

/* Time for each of k, in units of one product: those of a tile and, at the price of 32 products an element,
 * what it reads. */
static double cost_of_tile(uint32_t m, uint32_t n) { return m * n + 32.0 * (m + n); }

/* Of an SM, rounded: mma.sync of tf32, of halves; fused multiply-adds. */
static double products_per_cycle(const kiln_contraction_t *c) {
  if (c->uses_tensor_cores) return c->is_tf32 ? 1024 : 2048;
  return kiln_dtype_bytes(c->accumulator) == 8 ? 64 : 128;
}

/* Waves of tiles. */
static double cost_of(const kiln_contraction_t *c, double m, double n, double batch, shape_t shape) {
  double tiles = ceil(m / shape.m) * ceil(n / shape.n) * batch;
  return ceil(tiles / c->context->target->sm_count) * cost_of_tile(shape.m, shape.n);
}

/* The same for many members whose tiles are dealt out to the SMs, the longest first: the last tile that is
 * dealt begins when an SM has done its share at the latest. */
static double cost_of_group(const kiln_contraction_t *c, shape_t shape) {
  const kiln_grouped_t *grouped = c->context->grouped;
  double step = cost_of_tile(shape.m, shape.n), total = 0, longest = 0;
  for (uint32_t i = 0; i < grouped->product_count; i++) {
    const kiln_product_size_t *size = &grouped->products[i];
    double tile = step * (ceil(size->k / 32) + 2); /* sums and stores are worth two steps */
    total += tile * ceil(size->m / shape.m) * ceil(size->n / shape.n);
    if (tile > longest) longest = tile;
  }
  double share = total / c->context->target->sm_count;
  return share > longest ? share + longest / 2 : longest + share / 2;
}

/* Can the threads of a plain tile read 16 bytes along its rows, and do a thread's sums and what it multiplies
 * at a time fit registers? */
static bool is_possible(const kiln_contraction_t *c, shape_t shape) {
  uint32_t chunk = kiln_contraction_chunk(c), part = shape.m / 16;
  if (c->uses_tensor_cores) return true;
  if (part > 4 && (kiln_dtype_bytes(c->accumulator) == 8 || part * chunk > 64)) return false;
  return !(c->a.copy.along_rows || c->b.copy.along_rows) || part >= chunk;
}

/* Elements of both operands that tiles ask for. */
static double reads_of(const kiln_product_size_t *size, shape_t shape) {
  return size->k * (size->m * ceil(size->n / shape.n) + size->n * ceil(size->m / shape.m));
}

static shapes_t shapes_of(const kiln_contraction_t *c) {
  if (c->uses_tensor_cores) return (shapes_t){tensor_shapes, sizeof tensor_shapes / sizeof *tensor_shapes};
  return (shapes_t){plain_shapes, sizeof plain_shapes / sizeof *plain_shapes};
}

/* The shape of least cost for a product alone, the first of equals. */
static const shape_t *cheapest(const kiln_contraction_t *c, double m, double n, double batch) {
  shapes_t shapes = shapes_of(c);
  const shape_t *best = NULL;
  double least = 0;
  for (size_t i = 0; i < shapes.count; i++) {
    if (!is_possible(c, shapes.items[i])) continue;
    double cost = cost_of(c, m, n, batch, shapes.items[i]);
    if (best && cost >= least) continue;
    best = &shapes.items[i];
    least = cost;
  }
  return best;
}

/* What the members of a group would ask for alone, each with its own tile. */
static double reads_alone(const kiln_contraction_t *c) {
  const kiln_grouped_t *grouped = c->context->grouped;
  double reads = 0;
  for (uint32_t i = 0; i < grouped->product_count; i++)
    reads += reads_of(&grouped->products[i], *cheapest(c, grouped->products[i].m, grouped->products[i].n, 1));
  return reads;
}

/* Does the group ask for hardly more than that? Time that smaller tiles save in one launch would be paid by
 * all that shares the memory. */
static bool is_frugal(const kiln_contraction_t *c, shape_t shape, double alone) {
  enum { MOST_PERCENT = 102 };
  const kiln_grouped_t *grouped = c->context->grouped;
  double together = 0;
  for (uint32_t i = 0; i < grouped->product_count; i++) together += reads_of(&grouped->products[i], shape);
  return 100 * together <= MOST_PERCENT * alone;
}

/* The shape of least cost for a group, any frugal one before any other. */
static const shape_t *cheapest_of_group(const kiln_contraction_t *c) {
  shapes_t shapes = shapes_of(c);
  const shape_t *best = NULL;
  double least = 0, alone = reads_alone(c);
  bool best_is_frugal = false;
  for (size_t i = 0; i < shapes.count; i++) {
    if (!is_possible(c, shapes.items[i])) continue;
    bool frugal = is_frugal(c, shapes.items[i], alone);
    double cost = cost_of_group(c, shapes.items[i]);
    if (best && (frugal == best_is_frugal ? cost >= least : best_is_frugal)) continue;
    best = &shapes.items[i];
    least = cost;
    best_is_frugal = frugal;
  }
  return best;
}

static kiln_tile_t choose_tile(const kiln_contraction_t *c) {
  const shape_t *best = c->has_widths ? cheapest_of_group(c)
                                      : cheapest(c, kiln_contraction_typical(c, c->m.extent),
                                                 kiln_contraction_typical(c, c->n.extent),
                                                 kiln_contraction_typical(c, c->batch.extent));
  bool is_async = is_any_async(&c->a) || is_any_async(&c->b);
  kiln_tile_t tile = {.m = best->m,
                      .n = best->n,
                      .k = ROW_BYTES / (uint32_t)kiln_dtype_bytes(c->dtype),
                      .warps_m = best->warps_m,
                      .warps_n = best->warps_n,
                      .threads = c->uses_tensor_cores ? 32u * best->warps_m * best->warps_n : 256,
                      .stages = is_async ? ASYNC_STAGES : 2};
  tile.parts = kiln_contraction_parts(c, &tile, cost_of_tile(tile.m, tile.n) / products_per_cycle(c));
  return tile;
}

/* So small that most of the smallest tile would be padding. */
static bool is_small(const kiln_contraction_t *c) {
  enum { MOST_RESULTS = 64, MOST_PRODUCTS = 64 };
  kiln_dim_t m = c->m.extent, n = c->n.extent, k = c->k.extent;
  if (!kiln_dim_is_constant(m) || !kiln_dim_is_constant(n) || !kiln_dim_is_constant(k)) return false;
  return m.constant <= MOST_RESULTS && n.constant <= MOST_RESULTS &&
         m.constant * n.constant <= MOST_RESULTS && k.constant <= MOST_PRODUCTS;
}

void kiln_contraction_plan(kiln_contraction_t *c) {
  c->vector.per_thread = !c->has_widths && is_small(c);
  c->is_vector = c->vector.per_thread || kiln_dim_is(c->m.extent, 1) || kiln_dim_is(c->n.extent, 1);
  if (c->is_vector) {
    kiln_contraction_plan_vector(c);
    return;
  }
  c->a.copy = choose_copies(c, &c->a, 0);
  c->b.copy = choose_copies(c, &c->b, 1);
  c->tile = choose_tile(c);
  c->a.tile_rows = c->tile.m;
  c->b.tile_rows = c->tile.n;
}
