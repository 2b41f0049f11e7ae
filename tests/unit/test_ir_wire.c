/* tests/unit/test_ir_wire.c: graphs and plans as bytes: round trips, and what is refused with which field. */
#include "ir/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ir/canonical.h"
#include "ir/plan.h"
#include "tests/support/graphs.h"

static kiln_arena_t arena;

static int set_up(void **state) {
  (void)state;
  kiln_arena_init(&arena, 0);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  kiln_arena_deinit(&arena);
  return 0;
}

/* --- graphs --------------------------------------------------------------------------------------------- */

static const char everything[] =
    "graph g[T=16, U](%x: f32[T,8] strides [16,2] align 4, %i: i64[U], %c: bool[]) {\n"
    "  %a, %b = split(%x) {dim=-1, sizes=[T-T+4,4]} : f32[T,4], f32[T,4]\n"
    "  %n = layernorm(%a, none, none) {normalized_shape=[4], eps=1e-06} : f32[T,4]\n"
    "  %g = gelu(%n) {approximate=\"tanh\"} : f32[T,4]\n"
    "  %p = pad(%g) {low=[0,0], high=[U,0], value=nan(0x7ff8000000000001)} : f32[T+U,4]\n"
    "  %s = sum(%p) {dims=[0], keepdim=true, dtype=f64} : f64[1,4]\n"
    "  %k = constant() {shape=[3], dtype=f64, bits=[-1,0,9218868437227405312]} : f64[3]\n"
    "  %v = constant() {shape=[3], dtype=f32, values=[1,-0.0,inf]} : f32[3]\n"
    "  %w = where(%c, %b, %g) : f32[T,4]\n"
    "  return %s, %k, %v align 64, %w strides [1,T], %i\n"
    "}\n";

static const kiln_mpack_t *decoded(const void *bytes, size_t size) {
  const kiln_mpack_t *value;
  assert_null(kiln_mpack_decode(&arena, bytes, size, &value));
  return value;
}

static void a_graph_comes_back_from_its_bytes(void **state) {
  (void)state;
  kiln_buffer_t *bytes = kiln_buffer_in_arena(&arena);
  const kiln_graph_t *graph = graph_from(&arena, everything), *back;
  kiln_graph_encode(bytes, graph);
  assert_null(kiln_graph_decode(&arena, decoded(bytes->data, bytes->size), &back));
  assert_string_equal(text_of(&arena, back), text_of(&arena, graph));
}

static void names_lists_and_attributes_are_optional(void **state) {
  (void)state;
  /* {inputs: [{dtype: f32, shape: [2]}], nodes: [{op: neg, in: [0]}], outputs: [{value: 1}]} */
  static const char bytes[] = "\x83\xa6inputs\x91\x82\xa5"
                              "dtype\xa3"
                              "f32\xa5shape\x91\2"
                              "\xa5nodes\x91\x82\xa2op\xa3neg\xa2in\x91\0"
                              "\xa7outputs\x91\x81\xa5value\1";
  const kiln_graph_t *graph;
  assert_null(kiln_graph_decode(&arena, decoded(bytes, sizeof bytes - 1), &graph));
  assert_string_equal(text_of(&arena, graph),
                      "graph graph(%t0: f32[2]) {\n  %t1 = neg(%t0) : f32[2]\n  return %t1\n}\n");
}

/* Small builder of messages: a graph whose node is {op, in, attrs} as given. */
typedef struct {
  const char *op;
  int64_t operand;
  const char *attr; /* NULL: none */
  int64_t attr_value;
} node_t;

static kiln_buffer_t *graph_with_node(node_t node) {
  kiln_buffer_t *out = kiln_buffer_in_arena(&arena);
  kiln_mpack_map(out, 3);
  kiln_mpack_str(out, "inputs");
  kiln_mpack_array(out, 1);
  kiln_mpack_map(out, 2);
  kiln_mpack_str(out, "dtype");
  kiln_mpack_str(out, "f32");
  kiln_mpack_str(out, "shape");
  kiln_mpack_array(out, 1);
  kiln_mpack_int(out, 2);
  kiln_mpack_str(out, "nodes");
  kiln_mpack_array(out, 1);
  kiln_mpack_map(out, 3);
  kiln_mpack_str(out, "op");
  kiln_mpack_str(out, node.op);
  kiln_mpack_str(out, "in");
  kiln_mpack_array(out, 1);
  kiln_mpack_int(out, node.operand);
  kiln_mpack_str(out, "attrs");
  kiln_mpack_map(out, node.attr ? 1 : 0);
  if (node.attr) {
    kiln_mpack_str(out, node.attr);
    kiln_mpack_int(out, node.attr_value);
  }
  kiln_mpack_str(out, "outputs");
  kiln_mpack_array(out, 1);
  kiln_mpack_map(out, 1);
  kiln_mpack_str(out, "value");
  kiln_mpack_int(out, 1);
  return out;
}

static void wrong_nodes_are_refused_by_field(void **state) {
  (void)state;
  static const struct {
    node_t node;
    kiln_code_t code;
    const char *field, *message;
  } cases[] = {
      {{"neg", 1, NULL, 0},
       KILN_INVALID_ARGUMENT,
       "graph.nodes[0].in[0]",
       "graph.nodes[0].in[0] must be nil or one of the 1 values before"},
      {{"neg", -1, NULL, 0},
       KILN_INVALID_ARGUMENT,
       "graph.nodes[0].in[0]",
       "graph.nodes[0].in[0] must be nil or one of the 1 values before"},
      {{"neg", INT64_MAX, NULL, 0},
       KILN_INVALID_ARGUMENT,
       "graph.nodes[0].in[0]",
       "graph.nodes[0].in[0] must be nil or one of the 1 values before"},
      {{"gen", 0, NULL, 0}, KILN_INVALID_ARGUMENT, "graph.nodes[0].op", "graph.nodes[0].op is no op: 'gen'"},
      {{"sort", 0, NULL, 0}, KILN_UNSUPPORTED, NULL, "op 'sort' is not supported yet"},
      {{"neg", 0, "axis", 0},
       KILN_INVALID_ARGUMENT,
       "graph.nodes[0].attrs.axis",
       "graph.nodes[0].attrs.axis is no attribute"},
      {{"neg", 0, "dim", 0}, KILN_INVALID_GRAPH, NULL, "neg: has no attribute 'dim'"},
      {{"cast", 0, "dtype", 0},
       KILN_INVALID_ARGUMENT,
       "graph.nodes[0].attrs.dtype",
       "graph.nodes[0].attrs.dtype must be the name of a dtype"},
      {{"softmax", 0, "dim", 1}, KILN_INVALID_GRAPH, NULL, "softmax: dim 1 is out of range for rank 1"},
      {{"reshape", 0, "shape", 2},
       KILN_INVALID_ARGUMENT,
       "graph.nodes[0].attrs.shape",
       "graph.nodes[0].attrs.shape must be an array"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    kiln_buffer_t *bytes = graph_with_node(cases[i].node);
    const kiln_graph_t *graph;
    kiln_status_t status = kiln_graph_decode(&arena, decoded(bytes->data, bytes->size), &graph);
    assert_string_equal(kiln_status_message(status), cases[i].message);
    assert_int_equal(kiln_status_code(status), cases[i].code);
    if (cases[i].field) assert_string_equal(kiln_status_detail(status, "field"), cases[i].field);
    kiln_status_free(status);
  }
}

static void wrong_structure_is_refused_by_field(void **state) {
  (void)state;
  static const struct {
    const char *bytes;
    size_t size;
    const char *message;
  } cases[] = {
#define CASE(literal, message) {literal, sizeof(literal) - 1, message}
      CASE("\x90", "graph must be a map"),
      CASE("\x81\xa4node\x90", "graph has an unknown or repeated key 'node'"),
      CASE("\x81\1\2", "graph has a key that is no string"),
      CASE("\x82\xa5nodes\x90\xa5nodes\x90", "graph has an unknown or repeated key 'nodes'"),
      CASE("\x81\xa5nodes\x80", "graph.nodes must be an array"),
      CASE("\x81\xa5nodes\x91\x90", "graph.nodes[0] must be a map"),
      CASE("\x81\xa5nodes\x91\x80", "graph.nodes[0].op is missing"),
      CASE("\x81\xa4name\xa1/", "graph.name must consist of letters, digits, _ and dots"),
      CASE("\x81\xa4name\xa3"
           "a\0b",
           "graph.name must not hold NUL"),
      CASE("\x81\xa7symbols\x91\x92\xa1T\xff",
           "graph.symbols[0][1] must be an integer from 0 to 9223372036854775807"),
      CASE("\x81\xa7symbols\x91\xa1T", "graph.symbols[0] must be an array of 2"),
      CASE("\x81\xa6inputs\x91\x82\xa5"
           "dtype\xa3"
           "f32\xa5shape\x91\xa1T",
           "graph.inputs[0].shape[0] is no dimension: dimension:1:1: unknown symbol 'T'"),
      CASE("\x81\xa6inputs\x91\x82\xa5"
           "dtype\xa3"
           "f32\xa5shape\x99\1\1\1\1\1\1\1\1\1",
           "graph.inputs[0].shape has more than 8 dimensions"),
      CASE("\x81\xa6inputs\x91\x83\xa5"
           "dtype\xa3"
           "f32\xa5shape\x91\1\xa7strides\x90",
           "graph.inputs[0].strides must be an array of 1"),
      CASE("\x81\xa7outputs\x91\x81\xa5value\0", "graph.outputs[0].value must be one of the 0 values"),
      CASE("\x80", "the graph returns nothing"),
#undef CASE
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const kiln_graph_t *graph;
    kiln_status_t status = kiln_graph_decode(&arena, decoded(cases[i].bytes, cases[i].size), &graph);
    assert_string_equal(kiln_status_message(status), cases[i].message);
    kiln_status_free(status);
  }
}

/* --- plans ---------------------------------------------------------------------------------------------- */

/* Two members, of which the second has the first temporary and T - 1 rows. */
static const kiln_table_t *make_table(kiln_dim_t rows) {
  kiln_table_t *table = KILN_NEW(&arena, kiln_table_t);
  kiln_slot_t *cells = KILN_NEW_ARRAY(&arena, kiln_slot_t, 6);
  kiln_extent_t *blocks = KILN_NEW_ARRAY(&arena, kiln_extent_t, 6);
  for (int i = 0; i < 2; i++) {
    kiln_buffer_ref_t buffer = {i ? KILN_BUFFER_TEMP : KILN_BUFFER_INPUT, 0};
    cells[3 * i] = (kiln_slot_t){.kind = KILN_SLOT_PLACE, .buffer = buffer, .dim = kiln_dim_constant(64)};
    cells[3 * i + 1] = (kiln_slot_t){.kind = KILN_SLOT_CONSTANT, .buffer = {.index = 0}};
    cells[3 * i + 2] = (kiln_slot_t){.kind = KILN_SLOT_DIM32, .dim = i ? rows : kiln_dim_constant(7)};
    for (int axis = 0; axis < 3; axis++) blocks[3 * i + axis] = (kiln_extent_t){kiln_dim_constant(1), 1};
  }
  blocks[3] = (kiln_extent_t){rows, 8};
  *table = (kiln_table_t){
      .cells = cells, .column_count = 3, .row_count = 2, .capacity = 8, .blocks = blocks, .most_blocks = 264};
  return table;
}

/* A plan that uses everything, over one symbol. */
static const kiln_plan_t *make_plan(void) {
  kiln_dim_t t = kiln_dim_symbol(&arena, 0), rows;
  assert_true(kiln_dim_add(&arena, t, kiln_dim_constant(-1), &rows));
  kiln_plan_tensor_t *tensors = KILN_NEW_ARRAY(&arena, kiln_plan_tensor_t, 2);
  for (int i = 0; i < 2; i++) {
    tensors[i].type = (kiln_type_t){.dtype = KILN_DTYPE_f16, .rank = 2, .dims = {t, kiln_dim_constant(8)}};
    tensors[i].strides[0] = kiln_dim_constant(8);
    tensors[i].strides[1] = kiln_dim_constant(1);
    tensors[i].align_bytes = 16;
  }
  kiln_slot_t *slots = KILN_NEW_ARRAY(&arena, kiln_slot_t, 8);
  slots[0] = (kiln_slot_t){.kind = KILN_SLOT_BUFFER, .buffer = {KILN_BUFFER_INPUT, 0}};
  slots[1] = (kiln_slot_t){.kind = KILN_SLOT_BUFFER, .buffer = {KILN_BUFFER_TEMP, 1}};
  slots[2] = (kiln_slot_t){.kind = KILN_SLOT_DIM32, .dim = rows};
  slots[3] = (kiln_slot_t){.kind = KILN_SLOT_DIM64, .dim = kiln_dim_constant(-5)};
  slots[4] = (kiln_slot_t){.kind = KILN_SLOT_CONSTANT, .buffer = {.index = 0}};
  slots[5] = (kiln_slot_t){.kind = KILN_SLOT_WORKSPACE};
  slots[6] = (kiln_slot_t){.kind = KILN_SLOT_COUNTERS};
  slots[7] = (kiln_slot_t){.kind = KILN_SLOT_TABLE};
  kiln_launch_t *launch = KILN_NEW(&arena, kiln_launch_t);
  *launch = (kiln_launch_t){
      .kernel = kiln_sha256("k", 1),
      .entry = "kiln_elementwise",
      .grid = {{rows, 256}, {kiln_dim_constant(1), 1}, {kiln_dim_constant(1), 1}},
      .block = {256, 1, 1},
      .shared_bytes = 1024,
      .scratch = {rows, kiln_dim_constant(3)},
      .slots = slots,
      .slot_count = 8,
      .table = make_table(rows),
  };
  kiln_plan_slot_t *arena_slot = KILN_NEW(&arena, kiln_plan_slot_t);
  *arena_slot = (kiln_plan_slot_t){kiln_arena_copy(&arena, &rows, sizeof rows), 1};
  kiln_constraint_t *constraint = KILN_NEW(&arena, kiln_constraint_t);
  *constraint = (kiln_constraint_t){rows, kiln_dim_constant(0), false, "a size is negative"};
  kiln_guard_t *guards = KILN_NEW_ARRAY(&arena, kiln_guard_t, 2);
  guards[0] = (kiln_guard_t){KILN_GUARD_MULTIPLE, t, 8};
  guards[1] = (kiln_guard_t){KILN_GUARD_BELOW, t, 1 << 20};
  kiln_plan_constant_t *constant = KILN_NEW(&arena, kiln_plan_constant_t);
  *constant = (kiln_plan_constant_t){"\1\2\3\4", 4};
  kiln_plan_t *plan = KILN_NEW(&arena, kiln_plan_t);
  *plan = (kiln_plan_t){
      .symbol_count = 1,
      .inputs = tensors,
      .outputs = tensors + 1,
      .input_count = 1,
      .output_count = 1,
      .slots = arena_slot,
      .temp_slots = KILN_NEW_ARRAY(&arena, uint32_t, 2),
      .slot_count = 1,
      .temp_count = 2,
      .launches = launch,
      .launch_count = 1,
      .constants = constant,
      .constant_count = 1,
      .constraints = constraint,
      .constraint_count = 1,
      .guards = guards,
      .guard_count = 2,
  };
  return plan;
}

static kiln_buffer_t *encode_plan(const kiln_plan_t *plan) {
  kiln_buffer_t *bytes = kiln_buffer_in_arena(&arena);
  kiln_plan_encode(plan, bytes);
  return bytes;
}

static void a_plan_comes_back_from_its_bytes(void **state) {
  (void)state;
  kiln_buffer_t *bytes = encode_plan(make_plan());
  const kiln_plan_t *back;
  assert_null(kiln_plan_decode(&arena, bytes->data, bytes->size, &back));
  kiln_buffer_t *again = encode_plan(back);
  assert_int_equal(again->size, bytes->size);
  assert_memory_equal(again->data, bytes->data, bytes->size);
  assert_string_equal(back->launches[0].entry, "kiln_elementwise");
  assert_int_equal(back->launches[0].slots[1].buffer.kind, KILN_BUFFER_TEMP);
  assert_int_equal(back->launches[0].slots[1].buffer.index, 1);
  assert_true(kiln_dim_is(back->launches[0].slots[3].dim, -5));
  assert_true(kiln_dim_equal(back->launches[0].scratch.workspace_bytes, back->launches[0].grid[0].dim));
  assert_true(kiln_dim_is(back->launches[0].scratch.counters, 3));
  const kiln_table_t *table = back->launches[0].table;
  assert_int_equal(table->row_count, 2);
  assert_true(kiln_dim_equal(table->cells[5].dim, back->launches[0].grid[0].dim));
  assert_int_equal(table->blocks[3].divisor, 8);
  assert_memory_equal(back->constants[0].data, "\1\2\3\4", 4);
  assert_string_equal(back->constraints[0].message, "a size is negative");
}

static void guards_decide_whether_a_plan_fits(void **state) {
  (void)state;
  const kiln_plan_t *plan = make_plan();
  assert_true(kiln_plan_guards_hold(plan, (int64_t[KILN_MAX_SYMBOLS]){16}));
  assert_false(kiln_plan_guards_hold(plan, (int64_t[KILN_MAX_SYMBOLS]){12}));
  assert_false(kiln_plan_guards_hold(plan, (int64_t[KILN_MAX_SYMBOLS]){1 << 20}));
}

static void assert_plan_refused(const kiln_plan_t *plan, const char *message) {
  kiln_buffer_t *bytes = encode_plan(plan);
  const kiln_plan_t *back;
  kiln_status_t status = kiln_plan_decode(&arena, bytes->data, bytes->size, &back);
  assert_string_equal(kiln_status_message(status), message);
  assert_int_equal(kiln_status_code(status), KILN_INVALID_ARGUMENT);
  kiln_status_free(status);
}

static void every_index_of_a_plan_is_checked(void **state) {
  (void)state;
  kiln_plan_t *plan = (kiln_plan_t *)make_plan();
  kiln_slot_t *slots = (kiln_slot_t *)plan->launches[0].slots;
  slots[0].buffer.index = 1;
  assert_plan_refused(plan, "plan.launches[0].slots[0] names a buffer that the plan has not");
  slots[0].buffer.index = 0;
  slots[1].buffer.index = 2;
  assert_plan_refused(plan, "plan.launches[0].slots[1] names a buffer that the plan has not");
  slots[1].buffer.index = 1;
  slots[4].buffer.index = 1;
  assert_plan_refused(plan, "plan.launches[0].slots[4] names a constant that the plan has not");
  slots[4].buffer.index = 0;
  ((uint32_t *)plan->temp_slots)[1] = 1;
  assert_plan_refused(plan, "plan.temporaries[1] names a slot that the arena has not");
  ((uint32_t *)plan->temp_slots)[1] = 0;
  slots[2].dim = kiln_dim_symbol(&arena, 1);
  assert_plan_refused(plan, "plan.launches[0].slots[2] is no dimension");
  slots[2].dim = kiln_dim_constant(0);
  kiln_launch_t *launch = (kiln_launch_t *)plan->launches;
  launch->scratch.workspace_bytes = kiln_dim_constant(0);
  assert_plan_refused(plan, "plan.launches[0].slots[5] names a workspace that the launch does not ask for");
  launch->scratch.workspace_bytes = kiln_dim_symbol(&arena, 1);
  assert_plan_refused(plan, "plan.launches[0].workspace is no dimension");
  launch->scratch = (kiln_scratch_t){.workspace_bytes = kiln_dim_constant(1)};
  assert_plan_refused(plan, "plan.launches[0].slots[6] names counters that the launch does not ask for");
  launch->scratch.counters = kiln_dim_constant(1);
  launch->grid[0].divisor = 0;
  assert_plan_refused(plan, "plan.launches[0].grid must be an integer from 1 to 4294967295");
}

static void every_row_of_a_table_is_checked(void **state) {
  (void)state;
  kiln_plan_t *plan = (kiln_plan_t *)make_plan();
  kiln_launch_t *launch = (kiln_launch_t *)plan->launches;
  kiln_table_t *table = (kiln_table_t *)launch->table;
  kiln_slot_t *cells = (kiln_slot_t *)table->cells, *last = (kiln_slot_t *)&launch->slots[7];
  cells[3].buffer.index = 2;
  assert_plan_refused(plan, "plan.launches[0].table[3][3] names a buffer that the plan has not");
  cells[3].buffer.index = 0;
  cells[4].kind = KILN_SLOT_DIM64;
  assert_plan_refused(plan, "plan.launches[0].table[3] has columns of several kinds");
  cells[4].kind = KILN_SLOT_WORKSPACE;
  assert_plan_refused(plan, "plan.launches[0].table[3][4] is of a kind that has no meaning here");
  cells[4].kind = KILN_SLOT_CONSTANT;
  table->capacity = 1;
  assert_plan_refused(plan, "plan.launches[0].table[3] has more rows than its capacity");
  table->capacity = 0; /* in device memory: no parameter holds it */
  assert_plan_refused(plan, "plan.launches[0].slots[7] is of a kind that has no meaning here");
  last->kind = KILN_SLOT_TABLE_ROWS;
  table->capacity = 8;
  assert_plan_refused(plan, "plan.launches[0].slots[7] is of a kind that has no meaning here");
  last->kind = KILN_SLOT_PLACE;
  assert_plan_refused(plan, "plan.launches[0].slots[7] is of a kind that has no meaning here");
  last->kind = KILN_SLOT_TABLE;
  table->column_count = 4;
  table->row_count = 1;
  assert_plan_refused(plan, "plan.launches[0].table[3] has a wide column behind a narrow one");
  launch->table = NULL;
  assert_plan_refused(plan, "plan.launches[0].slots[7] is of a kind that has no meaning here");
}

/* --- damage --------------------------------------------------------------------------------------------- */

/* Decodes bytes[0..size) from memory of exactly that size; whatever comes out must not crash. */
static bool decodes(const void *bytes, size_t size, bool plan) {
  kiln_arena_t own;
  kiln_arena_init(&own, 0);
  void *exact = malloc(size ? size : 1);
  memcpy(exact, bytes, size);
  const kiln_mpack_t *value;
  const kiln_graph_t *graph;
  const kiln_plan_t *back;
  kiln_status_t status =
      plan ? kiln_plan_decode(&own, exact, size, &back) : kiln_mpack_decode(&own, exact, size, &value);
  if (!status && !plan) status = kiln_graph_decode(&own, value, &graph);
  bool ok = !status;
  kiln_status_free(status);
  free(exact);
  kiln_arena_deinit(&own);
  return ok;
}

static void damage_everywhere(kiln_buffer_t *bytes, bool plan) {
  for (size_t cut = 0; cut < bytes->size; cut++) assert_false(decodes(bytes->data, cut, plan));
  for (size_t at = 0; at < bytes->size; at++) {
    for (int value = 0; value < 256; value += 5) {
      char old = bytes->data[at];
      bytes->data[at] = (char)(old + 1 + value);
      decodes(bytes->data, bytes->size, plan);
      bytes->data[at] = old;
    }
  }
  assert_true(decodes(bytes->data, bytes->size, plan));
}

static void damaged_bytes_never_crash_a_decoder(void **state) {
  (void)state;
  kiln_buffer_t *graph = kiln_buffer_in_arena(&arena);
  kiln_graph_encode(graph, graph_from(&arena, everything));
  damage_everywhere(graph, false);
  damage_everywhere(encode_plan(make_plan()), true);
}

/* --- exhaustion ----------------------------------------------------------------------------------------- */

/* Everything between text and key, and there and back over the wire. */
static kiln_status_t all_stages(void *argument) {
  kiln_arena_t *own = argument;
  kiln_graph_list_t list;
  const kiln_mpack_t *value;
  const kiln_graph_t *back;
  KILN_TRY(kiln_text_parse(own, "test", everything, strlen(everything), &list));
  kiln_buffer_t *bytes = kiln_buffer_in_arena(own);
  kiln_graph_encode(bytes, list.graphs[0]);
  KILN_TRY(kiln_mpack_decode(own, bytes->data, bytes->size, &value));
  KILN_TRY(kiln_graph_decode(own, value, &back));
  kiln_graph_hash(own, kiln_graph_canonicalize(own, back));
  return kiln_error(KILN_INTERNAL, "%s", text_of(own, back));
}

static void an_arena_exhausted_at_any_point_leaks_nothing(void **state) {
  (void)state;
  kiln_code_t code = KILN_OUT_OF_MEMORY;
  size_t limit = 512;
  for (; code == KILN_OUT_OF_MEMORY; limit += 512) {
    kiln_arena_t own;
    kiln_arena_init(&own, limit);
    kiln_status_t status = kiln_arena_guard(&own, all_stages, &own);
    code = kiln_status_code(status);
    kiln_status_free(status);
    kiln_arena_deinit(&own);
  }
  assert_int_equal(code, KILN_INTERNAL); /* the end was reached */
  assert_true(limit > 10000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_graph_comes_back_from_its_bytes),
      cmocka_unit_test(names_lists_and_attributes_are_optional),
      cmocka_unit_test(wrong_nodes_are_refused_by_field),
      cmocka_unit_test(wrong_structure_is_refused_by_field),
      cmocka_unit_test(a_plan_comes_back_from_its_bytes),
      cmocka_unit_test(guards_decide_whether_a_plan_fits),
      cmocka_unit_test(every_index_of_a_plan_is_checked),
      cmocka_unit_test(every_row_of_a_table_is_checked),
      cmocka_unit_test(damaged_bytes_never_crash_a_decoder),
      cmocka_unit_test(an_arena_exhausted_at_any_point_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
