/* ir/tensor.c: tensors in host memory: making them, moving them between logical and strided form, and
 * finding the values of a graph's symbols from the shapes of its inputs.
 *
 * Called by the reference evaluator, the command line, the server's input checks and tests. Any thread.
 */
#include "ir/tensor.h"

#include "ir/walk.h"

#include <string.h>

int64_t kiln_tensor_elements(const kiln_tensor_t *tensor) {
  int64_t elements = 1;
  for (uint32_t axis = 0; axis < tensor->rank; axis++) elements *= tensor->sizes[axis];
  return elements;
}

/* The bytes of a dense tensor; false when they leave 63 bits. Zeros are left out of the product, so that
 * the strides of an empty tensor stay in range as well. */
static bool dense_bytes(kiln_dtype_t dtype, uint32_t rank, const int64_t *sizes, int64_t *out_bytes) {
  int64_t bytes = (int64_t)kiln_dtype_bytes(dtype);
  bool empty = false;
  for (uint32_t axis = 0; axis < rank; axis++) {
    if (sizes[axis] < 0) return false;
    if (!sizes[axis]) empty = true;
    if (sizes[axis] && __builtin_mul_overflow(bytes, sizes[axis], &bytes)) return false;
  }
  *out_bytes = empty ? 0 : bytes;
  return true;
}

kiln_status_t kiln_tensor_create(kiln_arena_t *arena, kiln_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                                 kiln_tensor_t *out) {
  int64_t bytes;
  if (rank > KILN_MAX_RANK)
    return kiln_error(KILN_TOO_LARGE, "a tensor of rank %u; the limit is %d", rank, KILN_MAX_RANK);
  if (!dense_bytes(dtype, rank, sizes, &bytes))
    return kiln_error(KILN_TOO_LARGE, "a tensor whose bytes leave 63 bits");
  *out = (kiln_tensor_t){.dtype = dtype, .rank = rank};
  if (rank) memcpy(out->sizes, sizes, rank * sizeof *sizes);
  out->data = kiln_arena_alloc(arena, (size_t)bytes);
  return NULL;
}

kiln_status_t kiln_type_sizes(const kiln_type_t *type, const int64_t *symbols, int64_t sizes[KILN_MAX_RANK]) {
  for (uint32_t axis = 0; axis < type->rank; axis++) {
    if (!kiln_dim_eval(type->dims[axis], symbols, &sizes[axis]))
      return kiln_error(KILN_INVALID_ARGUMENT, "the size of dimension %u leaves 64 bits", axis);
    if (sizes[axis] < 0)
      return kiln_error(KILN_INVALID_ARGUMENT, "dimension %u has the negative size %lld", axis,
                        (long long)sizes[axis]);
  }
  return NULL;
}

/* -- strided storage ------------------------------------------------------------------------------------ */

int64_t kiln_storage_elements(uint32_t rank, const int64_t *sizes, const int64_t *strides) {
  int64_t last = 0;
  for (uint32_t axis = 0; axis < rank; axis++) {
    int64_t reach;
    if (!sizes[axis]) return 0;
    if (__builtin_mul_overflow(sizes[axis] - 1, strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return INT64_MAX;
  }
  return last == INT64_MAX ? last : last + 1;
}

/* Copies between a dense tensor and strided storage, in the direction asked for. */
static void copy_strided(const kiln_tensor_t *tensor, char *storage, const int64_t *strides,
                         bool to_storage) {
  kiln_walk_t walk = {0};
  size_t bytes = kiln_dtype_bytes(tensor->dtype);
  char *dense = tensor->data;
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    kiln_walk_axis(&walk, tensor->sizes[axis], strides[axis], 0);
  int64_t count = kiln_walk_count(&walk);
  for (int64_t i = 0; i < count; i++, dense += bytes, kiln_walk_next(&walk)) {
    char *strided = storage + walk.at[0] * (int64_t)bytes;
    memcpy(to_storage ? strided : dense, to_storage ? dense : strided, bytes);
  }
}

void kiln_storage_gather(const kiln_tensor_t *out, const void *storage, const int64_t *strides) {
  copy_strided(out, (char *)(uintptr_t)storage, strides, false); /* only read: the direction says so */
}

void kiln_storage_scatter(void *storage, const int64_t *strides, const kiln_tensor_t *tensor) {
  copy_strided(tensor, storage, strides, true);
}

/* -- symbols -------------------------------------------------------------------------------------------- */

/* True when the dimension is one symbol and nothing else. */
static bool is_bare_symbol(kiln_dim_t dim, uint32_t symbol_count, uint32_t *out_symbol) {
  if (!dim.terms || dim.term_count != 1 || dim.terms[0].coefficient != 1) return false;
  for (uint32_t s = 0; s < symbol_count; s++) {
    if (dim.terms[0].powers == UINT64_C(1) << 8 * s) {
      *out_symbol = s;
      return true;
    }
  }
  return false;
}

static void bind_bare_symbols(uint32_t symbol_count, const kiln_type_t *type, const kiln_tensor_t *input,
                              int64_t *symbols) {
  for (uint32_t axis = 0; axis < type->rank; axis++) {
    uint32_t symbol;
    if (is_bare_symbol(type->dims[axis], symbol_count, &symbol) && symbols[symbol] == -1)
      symbols[symbol] = input->sizes[axis];
  }
}

static kiln_status_t check_rank_and_dtype(const kiln_type_t *type, const kiln_tensor_t *input) {
  if (input->dtype != type->dtype)
    return kiln_error(KILN_INVALID_ARGUMENT, "it holds %s, the graph wants %s", kiln_dtype_name(input->dtype),
                      kiln_dtype_name(type->dtype));
  if (input->rank != type->rank)
    return kiln_error(KILN_INVALID_ARGUMENT, "it has rank %u, the graph wants %u", input->rank, type->rank);
  return NULL;
}

static kiln_status_t check_sizes(const kiln_type_t *type, const kiln_tensor_t *input,
                                 const int64_t *symbols) {
  int64_t sizes[KILN_MAX_RANK];
  KILN_TRY(kiln_type_sizes(type, symbols, sizes));
  for (uint32_t axis = 0; axis < type->rank; axis++) {
    if (sizes[axis] != input->sizes[axis])
      return kiln_error(KILN_INVALID_ARGUMENT, "dimension %u is %lld, the graph wants %lld", axis,
                        (long long)input->sizes[axis], (long long)sizes[axis]);
  }
  return NULL;
}

static kiln_status_t at_input(kiln_status_t status, uint32_t input) {
  return kiln_error_detail(kiln_error_note(status, "checking input %u", input), "field", "inputs[%u]", input);
}

kiln_status_t kiln_symbols_bind(const kiln_symbol_t *symbol_names, uint32_t symbol_count,
                                const kiln_type_t *input_types, uint32_t input_count,
                                const kiln_tensor_t *inputs, int64_t *symbols) {
  for (uint32_t i = 0; i < input_count; i++) {
    kiln_status_t status = check_rank_and_dtype(&input_types[i], &inputs[i]);
    if (status) return at_input(status, i);
    bind_bare_symbols(symbol_count, &input_types[i], &inputs[i], symbols);
  }
  for (uint32_t s = 0; s < symbol_count; s++) {
    if (symbols[s] < 0)
      return kiln_error_detail(
          kiln_error(KILN_INVALID_ARGUMENT, "symbol %s has no value%s", symbol_names[s].name,
                     symbols[s] == -1 ? ": give one, no input has it as a dimension" : " of 0 or more"),
          "field", "symbols.%s", symbol_names[s].name);
  }
  for (uint32_t i = 0; i < input_count; i++) {
    kiln_status_t status = check_sizes(&input_types[i], &inputs[i], symbols);
    if (status) return at_input(status, i);
  }
  return NULL;
}
