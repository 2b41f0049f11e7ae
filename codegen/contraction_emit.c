/* codegen/contraction_emit.c: source of a contraction kernel, around the copies and the epilogue.
 *
 *   global --copies--> tiles of a and b, several steps of K ahead --multiply--> registers
 *          --> tile of sums in shared memory --epilogue--> global
 *
 * One barrier a step: it says that the step's tiles have come, and that the stage which is filled next is no
 * longer read. f16 and bf16 are multiplied by tensor cores (mma.sync, sums in f32), all else by plain
 * multiply-adds. Called by contraction.c.
 */
#include "codegen/contraction.h"
#include "codegen/joined.h"

typedef kiln_contraction_writer_t kernel_t;

#define LINE(k, ...) kiln_emit_line(&(k)->emitter, __VA_ARGS__)

static void open_block(kernel_t *k) { k->emitter.indent++; }

static void close_block(kernel_t *k, const char *end) {
  k->emitter.indent--;
  LINE(k, "%s", end);
}

/* --- the tile's place ---------------------------------------------------------------------------------- */

static int64_t tiles_of(kiln_dim_t extent, uint32_t size) { return (extent.constant + size - 1) / size; }

/* Blocks are numbered along m first, then n, then batch; with symbols the grid does that. */
static void emit_place(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  if (c->context->grouped) {
    /* One after the other: parameters are numbered as they are met. */
    const char *m = kiln_emit_dim(&k->emitter, c->m.extent, false);
    const char *n = kiln_emit_dim(&k->emitter, c->n.extent, false);
    LINE(k, "const %s tiles_m = (%s + %u) / %u, tiles_n = (%s + %u) / %u;", k->type, m, c->tile.m - 1,
         c->tile.m, n, c->tile.n - 1, c->tile.n);
    LINE(k, "const %s tile_m = block %% tiles_m, tile_n = block / tiles_m %% tiles_n;", k->type);
    LINE(k, "const %s batch = block / tiles_m / tiles_n;", k->type);
    return;
  }
  if (!kiln_contraction_is_static(c)) {
    LINE(k, "const %s tile_m = blockIdx.x, tile_n = blockIdx.y, batch = blockIdx.z;", k->type);
    return;
  }
  long long m = (long long)tiles_of(c->m.extent, c->tile.m), n = (long long)tiles_of(c->n.extent, c->tile.n);
  LINE(k,
       "const %s tile_m = blockIdx.x %% %lldu, tile_n = blockIdx.x / %lldu %% %lldu, batch = blockIdx.x / "
       "%lldu;",
       k->type, m, m, n, m * n);
}

/* For a sequence: what a block makes. */
static void tell_tiles(const kiln_contraction_t *c) {
  kiln_part_t *part = c->context->part;
  if (!part || c->is_vector) return;
  part->has_tiles = true;
  part->tiles[0] = (kiln_extent_t){c->m.extent, c->tile.m};
  part->tiles[1] = (kiln_extent_t){c->n.extent, c->tile.n};
  part->tiles[2] = (kiln_extent_t){c->batch.extent, 1};
}

static kiln_status_t find_grid(const kiln_contraction_t *c, kiln_kernel_source_t *out) {
  const kiln_extent_t one = {kiln_dim_constant(1), 1};
  if (c->vector.per_thread) {
    kiln_dim_t products = kiln_kernel_dim_mul(c->kernel, c->m.extent, c->n.extent);
    out->grid[0] =
        (kiln_extent_t){kiln_kernel_dim_mul(c->kernel, products, c->batch.extent), c->tile.threads};
    out->grid[1] = out->grid[2] = one;
    return NULL;
  }
  out->grid[0] = (kiln_extent_t){c->m.extent, c->tile.m};
  out->grid[1] = (kiln_extent_t){c->n.extent, c->tile.n};
  out->grid[2] = (kiln_extent_t){c->batch.extent, 1};
  if (!kiln_contraction_is_static(c) || c->context->grouped) return NULL;
  int64_t blocks;
  if (__builtin_mul_overflow(tiles_of(c->m.extent, c->tile.m), tiles_of(c->n.extent, c->tile.n), &blocks) ||
      __builtin_mul_overflow(blocks, c->batch.extent.constant, &blocks) || blocks > INT32_MAX)
    return kiln_error(KILN_TOO_LARGE, "a contraction of more tiles than a grid can have");
  out->grid[0] = (kiln_extent_t){kiln_dim_constant(blocks), 1};
  out->grid[1] = out->grid[2] = one;
  kiln_contraction_add_parts(c, out);
  return NULL;
}

/* The steps of a block, as text. */
static const char *first_step(const kernel_t *k) { return k->c->tile.parts > 1 ? "first_step" : "0"; }

static const char *end_step(const kernel_t *k) { return k->c->tile.parts > 1 ? "end_step" : "steps"; }

/* --- stages -------------------------------------------------------------------------------------------- */

static uint32_t stage_elements(const kiln_contraction_t *c) { return (c->tile.m + c->tile.n) * c->tile.k; }

static void emit_load(kernel_t *k) {
  kiln_contraction_t *c = k->c;
  kiln_contraction_emit_pointers(&k->emitter, c, &c->a, k->type);
  kiln_contraction_emit_pointers(&k->emitter, c, &c->b, k->type);
  LINE(
      k,
      "// Starts the copies of one step of K; every call is one group of copies, an empty one past the end.");
  LINE(k, "auto load = [&](int step) {");
  open_block(k);
  LINE(k, "if (step < %s) {", end_step(k));
  open_block(k);
  LINE(k, "%s *const a_stage = stages + step %% %u * %u, *const b_stage = a_stage + %u;", k->storage,
       c->tile.stages, stage_elements(c), c->tile.m * c->tile.k);
  kiln_contraction_emit_copy(&k->emitter, c, &c->a, k->type);
  kiln_contraction_emit_copy(&k->emitter, c, &c->b, k->type);
  close_block(k, "}");
  LINE(k, "kiln_copy_commit();");
  close_block(k, "};");
}

/* --- tensor cores -------------------------------------------------------------------------------------- */

static uint32_t warp_m(const kiln_contraction_t *c) { return c->tile.m / c->tile.warps_m; }
static uint32_t warp_n(const kiln_contraction_t *c) { return c->tile.n / c->tile.warps_n; }

static void emit_tensor_threads(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  LINE(k, "const int lane = threadIdx.x %% 32, warp = threadIdx.x / 32;");
  LINE(k, "const int warp_m = warp / %u * %u, warp_n = warp %% %u * %u;", c->tile.warps_n, warp_m(c),
       c->tile.warps_n, warp_n(c));
  LINE(k, "float total[%u][%u][4] = {};", warp_m(c) / 16, warp_n(c) / 8);
}

/* What one product takes of K: 16 bytes' worth, twice. */
static uint32_t product_k(const kiln_contraction_t *c) { return 2 * kiln_contraction_chunk(c); }

/* The rows of the matrices that a lane points at, for the layouts of "Matrix Fragments for mma.m16n8k16" (and
 * .m16n8k8) and of ldmatrix in the PTX ISA: a tile whose inner axis is k as it is; else halves are transposed
 * on the way, and f32 read by single elements. */
static void emit_load_a(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  if (!c->a.copy.along_rows)
    LINE(k,
         "  kiln_load_matrices<%u, false>(a[i], a_tile, warp_m + 16 * i + lane %% 16, k + lane / 16 * %u);",
         c->tile.k, kiln_contraction_chunk(c));
  else if (c->is_tf32)
    LINE(k, "  kiln_load_elements<%u>(a[i][0], a[i][1], a[i][2], a[i][3], a_tile, k, warp_m + 16 * i);",
         c->tile.m);
  else
    LINE(k,
         "  kiln_load_matrices<%u, true>(a[i], a_tile, k + lane / 16 * 8 + lane %% 8, warp_m + 16 * i + lane "
         "/ 8 %% 2 * 8);",
         c->tile.m);
}

static void emit_load_b(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  if (!c->b.copy.along_rows)
    LINE(k,
         "  kiln_load_matrices<%u, false>(b[j], b_tile, warp_n + 16 * j + lane / 16 * 8 + lane %% 8, k + "
         "lane / 8 %% 2 * %u);",
         c->tile.k, kiln_contraction_chunk(c));
  else if (c->is_tf32)
    LINE(k, "  kiln_load_elements<%u>(b[j][0], b[j][2], b[j][1], b[j][3], b_tile, k, warp_n + 16 * j);",
         c->tile.n);
  else
    LINE(k, "  kiln_load_matrices<%u, true>(b[j], b_tile, k + lane %% 16, warp_n + 16 * j + lane / 16 * 8);",
         c->tile.n);
}

static void emit_tensor_loads(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  LINE(k, "#pragma unroll");
  LINE(k, "for (int i = 0; i < %u; ++i)", warp_m(c) / 16);
  emit_load_a(k);
  LINE(k, "#pragma unroll");
  LINE(k, "for (int j = 0; j < %u; ++j)", warp_n(c) / 16);
  emit_load_b(k);
  if (!c->is_tf32) return;
  LINE(k, "kiln_round_to_tf32(a);");
  LINE(k, "kiln_round_to_tf32(b);");
}

static void emit_tensor_products(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  LINE(k, "#pragma unroll");
  LINE(k, "for (int k = 0; k < %u; k += %u) {", c->tile.k, product_k(c));
  open_block(k);
  LINE(k, "unsigned a[%u][4], b[%u][4];", warp_m(c) / 16, warp_n(c) / 16);
  emit_tensor_loads(k);
  LINE(k, "#pragma unroll");
  LINE(k, "for (int i = 0; i < %u; ++i)", warp_m(c) / 16);
  LINE(k, "#pragma unroll");
  LINE(k, "  for (int j = 0; j < %u; ++j)", warp_n(c) / 8);
  LINE(k, "    kiln_multiply_%s(total[i][j], a[i], b[j / 2][j %% 2 * 2], b[j / 2][j %% 2 * 2 + 1]);",
       c->is_tf32 ? "tf32" : kiln_dtype_name(c->dtype));
  close_block(k, "}");
}

static void emit_tensor_sums(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  uint32_t stride = kiln_contraction_sums_stride(c);
  LINE(k, "#pragma unroll");
  LINE(k, "for (int i = 0; i < %u; ++i)", warp_m(c) / 16);
  LINE(k, "#pragma unroll");
  LINE(k, "  for (int j = 0; j < %u; ++j) {", warp_n(c) / 8);
  LINE(k, "    float *const to = sums + (warp_m + 16 * i + lane / 4) * %u + warp_n + 8 * j + lane %% 4 * 2;",
       stride);
  LINE(k, "    kiln_store_pair(to, total[i][j][0], total[i][j][1]);");
  LINE(k, "    kiln_store_pair(to + 8 * %u, total[i][j][2], total[i][j][3]);", stride);
  LINE(k, "  }");
}

/* --- plain arithmetic ---------------------------------------------------------------------------------- */

/* A warp is 4 x 8 threads: its reads of neighbouring rows are those that kiln_slot keeps apart. */
static void emit_plain_threads(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  uint32_t m = c->tile.m / 16, n = c->tile.n / 16;
  LINE(k, "const int lane = threadIdx.x %% 32, warp = threadIdx.x / 32;");
  LINE(k, "const int thread_m = warp / 2 * 4 + lane / 8, thread_n = warp %% 2 * 8 + lane %% 8;");
  LINE(k, "%s total[%u][%u] = {};", k->sum, m, n);
  if (k->has_chains) LINE(k, "%s part[%u][%u] = {};", k->sum, m, n);
  if (k->has_chains && c->has_widths) /* as each member does alone */
    LINE(k, "const bool is_long = steps > %u;", 2 * KILN_CONTRACTION_CHAIN / c->tile.k);
}

static void emit_plain_fragment(kernel_t *k, const kiln_operand_t *operand) {
  uint32_t inner = operand->copy.along_rows ? operand->tile_rows : k->c->tile.k;
  LINE(k, "kiln_read_along_%s<%u>(%s, %s_tile, thread_%s, k);", operand->copy.along_rows ? "rows" : "k",
       inner, operand->name, operand->name, operand->row_name);
}

static void emit_add_parts(kernel_t *k) {
  LINE(k, "#pragma unroll");
  LINE(k, "for (int i = 0; i < %u; ++i)", k->c->tile.m / 16);
  LINE(k, "#pragma unroll");
  LINE(k, "  for (int j = 0; j < %u; ++j) {", k->c->tile.n / 16);
  LINE(k, "    total[i][j] += part[i][j];");
  LINE(k, "    part[i][j] = 0;");
  LINE(k, "  }");
}

static void emit_plain_products(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  uint32_t m = c->tile.m / 16, n = c->tile.n / 16, chunk = kiln_contraction_chunk(c);
  const char *sums = k->has_chains ? "part" : "total";
  LINE(k, chunk < 16 ? "#pragma unroll" : "#pragma unroll 1");
  LINE(k, "for (int k = 0; k < %u; k += %u) {", c->tile.k, chunk);
  open_block(k);
  LINE(k, "%s a[%u][%u], b[%u][%u];", k->sum, m, chunk, n, chunk);
  emit_plain_fragment(k, &c->a);
  emit_plain_fragment(k, &c->b);
  LINE(k, "#pragma unroll");
  LINE(k, "for (int e = 0; e < %u; ++e)", chunk);
  LINE(k, "#pragma unroll");
  LINE(k, "  for (int i = 0; i < %u; ++i)", m);
  LINE(k, "#pragma unroll");
  LINE(k, "    for (int j = 0; j < %u; ++j) %s[i][j] = kiln_multiply_add(a[i][e], b[j][e], %s[i][j]);", n,
       sums, sums);
  close_block(k, "}");
  if (!k->has_chains) return;
  LINE(k, "if (%sstep %% %u == %u) {", c->has_widths ? "is_long && " : "", KILN_CONTRACTION_CHAIN / c->tile.k,
       KILN_CONTRACTION_CHAIN / c->tile.k - 1);
  open_block(k);
  emit_add_parts(k);
  close_block(k, "}");
}

/* The row of the tile that entry i of a fragment belongs to. */
static const char *plain_row(kernel_t *k, const kiln_operand_t *operand, const char *entry) {
  kiln_arena_t *arena = k->c->kernel->arena;
  uint32_t chunk = kiln_contraction_chunk(k->c);
  if (!operand->copy.along_rows)
    return kiln_arena_printf(arena, "16 * %s + thread_%s", entry, operand->row_name);
  return kiln_arena_printf(arena, "16 * (%s / %u * %u) + thread_%s * %u + %s %% %u", entry, chunk, chunk,
                           operand->row_name, chunk, entry, chunk);
}

static void emit_plain_sums(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  if (k->has_chains) emit_add_parts(k);
  LINE(k, "#pragma unroll");
  LINE(k, "for (int i = 0; i < %u; ++i)", c->tile.m / 16);
  LINE(k, "#pragma unroll");
  LINE(k, "  for (int j = 0; j < %u; ++j)", c->tile.n / 16);
  LINE(k, "    sums[(%s) * %u + %s] = total[i][j];", plain_row(k, &c->a, "i"),
       kiln_contraction_sums_stride(c), plain_row(k, &c->b, "j"));
}

/* --- the loop over K ----------------------------------------------------------------------------------- */

static void emit_loop(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  uint32_t stages = c->tile.stages;
  LINE(k, "#pragma unroll");
  if (c->tile.parts > 1)
    LINE(k, "for (int ahead = 0; ahead < %u; ++ahead) load(first_step + ahead);", stages - 1);
  else
    LINE(k, "for (int step = 0; step < %u; ++step) load(step);", stages - 1);
  LINE(k, "for (int step = %s; step < %s; ++step) {", first_step(k), end_step(k));
  open_block(k);
  LINE(k, "kiln_copy_wait<%u>();", stages - 2);
  LINE(k, "__syncthreads();");
  LINE(k, "load(step + %u);", stages - 1);
  LINE(k, "const %s *const a_tile = stages + step %% %u * %u, *const b_tile = a_tile + %u;", k->storage,
       stages, stage_elements(c), c->tile.m * c->tile.k);
  if (c->uses_tensor_cores)
    emit_tensor_products(k);
  else
    emit_plain_products(k);
  close_block(k, "}");
}

/* --- the epilogue -------------------------------------------------------------------------------------- */

static void name_epilogue_axes(kernel_t *k, const char *inner) {
  const kiln_contraction_t *c = k->c;
  bool is_wide = k->type[0] == 'l';
  kiln_emit_start_region(&k->emitter);
  kiln_emit_name_axis(&k->emitter, c->batch.axis, "batch", is_wide);
  kiln_emit_name_axis(&k->emitter, c->stores_along_m ? c->n.axis : c->m.axis, c->stores_along_m ? "n" : "m",
                      is_wide);
  kiln_emit_name_axis(&k->emitter, c->tile_m_axis, "tile_m", is_wide);
  kiln_emit_name_axis(&k->emitter, c->tile_n_axis, "tile_n", is_wide);
  if (c->epilogue.axis_count == 3) kiln_emit_name_axis(&k->emitter, c->epilogue.axes[2], inner, is_wide);
}

/* The outer and the inner axis of the epilogue: m and n, or n and m. */
static void emit_stores(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  kiln_emitter_t *emitter = &k->emitter;
  bool along_m = c->stores_along_m;
  uint32_t lanes = c->epilogue.lanes, outer_tile = along_m ? c->tile.n : c->tile.m,
           per_row = (along_m ? c->tile.m : c->tile.n) / lanes;
  const char *outer = along_m ? "n" : "m", *inner_axis = along_m ? "m" : "n", *inner = inner_axis;
  if (lanes > 1) inner = kiln_arena_printf(c->kernel->arena, "%s_by_%u", inner_axis, lanes);
  LINE(k, "// One thread for %u neighbouring element%s along %s.", lanes, lanes == 1 ? "" : "s", inner_axis);
  LINE(k, "for (int piece = threadIdx.x; piece < %u; piece += %u) {", outer_tile * per_row, c->tile.threads);
  open_block(k);
  LINE(k, "const %s %s = tile_%s * %u + piece / %u, %s = tile_%s * %u + piece %% %u;", k->type, outer, outer,
       outer_tile, per_row, inner, inner_axis, per_row, per_row);
  const char *outer_extent = kiln_emit_dim(emitter, along_m ? c->n.extent : c->m.extent, false);
  const char *inner_extent = kiln_emit_dim(emitter, along_m ? c->m.extent : c->n.extent, false);
  LINE(k, "if (%s >= %s || %u * %s >= %s) continue;", outer, outer_extent, lanes, inner, inner_extent);
  name_epilogue_axes(k, inner);
  kiln_emit_point(emitter, &c->epilogue);
  close_block(k, "}");
}

static void emit_epilogue(kernel_t *k) {
  kiln_contraction_t *c = k->c;
  const kiln_codegen_context_t *context = k->emitter.context;
  const kiln_selector_t *selector = c->has_widths ? &context->grouped->selectors[2] : NULL;
  if (!selector) {
    emit_stores(k);
    return;
  }
  for (uint32_t i = 0; i < selector->count; i++) {
    bool is_last = i + 1 == selector->count;
    if (is_last)
      LINE(k, i ? "} else {" : "{");
    else
      LINE(k, "%sif (%s == %u) {", i ? "} else " : "", selector->name, selector->widths[i]);
    open_block(k);
    c->epilogue = c->epilogues[i];
    k->emitter.context = kiln_contraction_context(c, selector->widths[i]);
    emit_stores(k);
    k->emitter.context = context;
    k->emitter.indent--;
  }
  LINE(k, "}");
  LINE(k, "__syncthreads(); // before the next member's tile");
}

/* --- the kernel ---------------------------------------------------------------------------------------- */

static void tell_kernel(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  LINE(k, "// A block makes %u x %u results, %u of K at a time, %u steps of it in shared memory.", c->tile.m,
       c->tile.n, c->tile.k, c->tile.stages);
  if (c->uses_tensor_cores)
    LINE(k, "// %u x %u warps, each %u x %u by m16n8k%u%s.", c->tile.warps_m, c->tile.warps_n, warp_m(c),
         warp_n(c), product_k(c), c->is_tf32 ? ", operands rounded to tf32" : "");
  else
    LINE(k, "// 16 x 16 threads, each %u x %u.", c->tile.m / 16, c->tile.n / 16);
}

static void emit_tiles(kernel_t *k) {
  const kiln_contraction_t *c = k->c;
  LINE(k, "%s *const stages = reinterpret_cast<%s *>(kiln_shared);", k->storage, k->storage);
  LINE(k, "%s *const sums = reinterpret_cast<%s *>(kiln_shared); // in their place, after the loop",
       k->sum_tile, k->sum_tile);
  LINE(k, "%s steps = (int)((%s + %u) / %u);", c->has_widths ? "int" : "const int",
       kiln_emit_dim(&k->emitter, c->k.extent, false), c->tile.k - 1, c->tile.k);
  if (c->has_widths)
    LINE(k, "asm(\"\" : \"+r\"(steps)); // is kept: the compiler would compute it in every step");
  if (c->tile.parts > 1) kiln_contraction_emit_range(k, "int", "steps");
  if (c->uses_tensor_cores)
    emit_tensor_threads(k);
  else
    emit_plain_threads(k);
  emit_load(k);
  emit_loop(k);
  LINE(k, "kiln_copy_wait<0>();");
  LINE(k, "__syncthreads();");
  if (c->uses_tensor_cores)
    emit_tensor_sums(k);
  else
    emit_plain_sums(k);
}

static void emit_result(kernel_t *k) {
  kiln_contraction_emit_per_thread(k);
  name_epilogue_axes(k, "n");
  kiln_emit_point(&k->emitter, &k->c->epilogue);
}

static void emit_body(kernel_t *k) {
  if (k->c->vector.per_thread) {
    emit_result(k);
    return;
  }
  if (!k->c->is_vector) tell_kernel(k);
  LINE(k, "extern __shared__ __align__(16) unsigned char kiln_shared[];");
  emit_place(k);
  if (k->c->is_vector)
    kiln_contraction_emit_vector(k);
  else
    emit_tiles(k);
  if (k->c->tile.parts > 1) kiln_contraction_emit_meeting(k);
  LINE(k, "__syncthreads();");
  emit_epilogue(k);
}

static uint32_t shared_bytes(const kiln_contraction_t *c) {
  uint32_t stages = c->tile.stages * stage_elements(c) * (uint32_t)kiln_dtype_bytes(c->dtype);
  uint32_t sums = c->tile.m * kiln_contraction_sums_stride(c) * (uint32_t)kiln_dtype_bytes(c->accumulator);
  if (c->is_vector)
    return sums + kiln_contraction_vector_parts(c) * (uint32_t)kiln_dtype_bytes(c->accumulator);
  return stages > sums ? stages : sums;
}

/* Coordinates of a tile may reach past the end of an axis. */
static bool fits_int(kernel_t *k, kiln_dim_t extent) {
  return kiln_emit_fits(&k->emitter, kiln_kernel_dim_add(k->c->kernel, extent, kiln_dim_constant(256)));
}

static const char *sum_type(kiln_dtype_t accumulator) {
  if (accumulator == KILN_DTYPE_i32) return "unsigned";
  return accumulator == KILN_DTYPE_i64 ? "unsigned long long" : kiln_emit_storage_type(accumulator);
}

kiln_status_t kiln_contraction_emit(kiln_contraction_t *c, kiln_kernel_source_t *out_kernel) {
  kernel_t k = {.c = c,
                .emitter = {.kernel = c->kernel, .group = c->group, .context = c->context},
                .storage = kiln_emit_storage_type(c->dtype),
                .sum = sum_type(c->accumulator),
                .sum_tile = kiln_emit_storage_type(c->accumulator)};
  bool fits = fits_int(&k, c->m.extent) && fits_int(&k, c->n.extent) && fits_int(&k, c->k.extent) &&
              fits_int(&k, c->batch.extent);
  bool is_short = kiln_dim_is_constant(c->k.extent) && c->k.extent.constant <= 2 * KILN_CONTRACTION_CHAIN;
  if (c->vector.per_thread) { /* results are numbered */
    kiln_dim_t products = kiln_kernel_dim_mul(c->kernel, c->m.extent, c->n.extent);
    fits = fits && fits_int(&k, kiln_kernel_dim_mul(c->kernel, products, c->batch.extent));
  }
  k.type = fits ? "int" : "long long";
  k.has_chains = kiln_dtype_is_float(c->dtype) && !is_short;
  *out_kernel = (kiln_kernel_source_t){
      .entry = "kiln_contraction", .block = {c->tile.threads, 1, 1}, .shared_bytes = shared_bytes(c)};
  KILN_TRY(find_grid(c, out_kernel));
  tell_tiles(c);
  kiln_emit_begin(&k.emitter);
  k.emitter.takes_turns = c->has_widths;
  k.emitter.indent += c->has_widths;
  emit_body(&k);
  return kiln_emit_finish(&k.emitter, c->grouping, out_kernel);
}
