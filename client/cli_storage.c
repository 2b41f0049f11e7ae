/* client/cli_storage.c: boundary tensors between their logical form and the bytes that a device sees.
 *
 * Files and the reference evaluator hold logical tensors, dense row-major; wire and device take the storage
 * that the graph declares by its strides.
 */
#include "client/cli.h"

#include <unistd.h>

kiln_status_t kiln_cli_strides(const kiln_type_t *type, const kiln_layout_t *layout, const int64_t *symbols,
                               int64_t strides[KILN_MAX_RANK]) {
  int64_t sizes[KILN_MAX_RANK], dense = 1;
  KILN_TRY(kiln_type_sizes(type, symbols, sizes));
  for (uint32_t d = type->rank; d-- > 0;) {
    strides[d] = dense;
    dense *= sizes[d];
    if (layout->has_strides && !kiln_dim_eval(layout->strides[d], symbols, &strides[d]))
      return kiln_error(KILN_INVALID_ARGUMENT, "a declared stride leaves 64 bits for these symbols");
  }
  return NULL;
}

kiln_status_t kiln_cli_check_memory(const kiln_type_t *type, const int64_t *sizes) {
  uint64_t bytes = kiln_dtype_bytes(type->dtype);
  uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  bool overflow = false, empty = false;
  for (uint32_t d = 0; d < type->rank; d++) {
    empty = empty || !sizes[d];
    overflow = __builtin_mul_overflow(bytes, (uint64_t)sizes[d], &bytes) || overflow;
  }
  if (empty || (!overflow && bytes <= physical)) return NULL;
  return kiln_error(KILN_TOO_LARGE,
                    "a tensor of this graph does not fit into the %llu MiB of this machine: "
                    "give smaller symbols",
                    (unsigned long long)(physical >> 20));
}

static kiln_status_t storage_create(kiln_arena_t *arena, const kiln_tensor_t *tensor, const int64_t *strides,
                                    kiln_cli_bytes_t *out) {
  int64_t elements = kiln_storage_elements(tensor->rank, tensor->sizes, strides);
  if (elements < 0 || elements > INT64_MAX / 16)
    return kiln_error(KILN_TOO_LARGE, "the storage of %s leaves 63 bits", kiln_cli_shape_text(arena, tensor));
  out->size_bytes = (size_t)elements * kiln_dtype_bytes(tensor->dtype);
  out->data = kiln_arena_alloc(arena, out->size_bytes);
  return NULL;
}

kiln_status_t kiln_cli_input_storage(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index,
                                     const kiln_cli_values_t *values, kiln_cli_bytes_t *out) {
  int64_t strides[KILN_MAX_RANK];
  const kiln_tensor_t *tensor = &values->inputs[index];
  KILN_TRY(kiln_cli_strides(&graph->types[index], &graph->input_layouts[index], values->symbols, strides));
  KILN_TRY(storage_create(arena, tensor, strides, out));
  kiln_storage_scatter(out->data, strides, tensor);
  return NULL;
}

kiln_status_t kiln_cli_output_storage(kiln_arena_t *arena, const kiln_graph_t *graph, uint32_t index,
                                      const int64_t *symbols, kiln_tensor_t *out_tensor,
                                      kiln_cli_bytes_t *out_storage) {
  int64_t strides[KILN_MAX_RANK], sizes[KILN_MAX_RANK];
  const kiln_type_t *type = &graph->types[graph->outputs[index]];
  KILN_TRY(kiln_type_sizes(type, symbols, sizes));
  KILN_TRY(kiln_cli_strides(type, &graph->output_layouts[index], symbols, strides));
  KILN_TRY(kiln_cli_check_memory(type, sizes));
  KILN_TRY(kiln_tensor_create(arena, type->dtype, type->rank, sizes, out_tensor));
  return storage_create(arena, out_tensor, strides, out_storage);
}

kiln_status_t kiln_cli_read_storage(const kiln_graph_t *graph, uint32_t index, const int64_t *symbols,
                                    const void *storage, const kiln_tensor_t *tensor) {
  int64_t strides[KILN_MAX_RANK];
  const kiln_type_t *type = &graph->types[graph->outputs[index]];
  KILN_TRY(kiln_cli_strides(type, &graph->output_layouts[index], symbols, strides));
  kiln_storage_gather(tensor, storage, strides);
  return NULL;
}
