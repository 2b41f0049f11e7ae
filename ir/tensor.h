/* ir/tensor.h: a tensor in host memory, as the reference evaluator, the command line and tests hold it. */
#ifndef KILN_IR_TENSOR_H
#define KILN_IR_TENSOR_H

#include "ir/graph.h"

typedef struct {
  kiln_dtype_t dtype;
  uint32_t rank;
  int64_t sizes[KILN_MAX_RANK];
  void *data; /* logical elements, dense row-major, in storage form */
} kiln_tensor_t;

/* Product of sizes; sizes were checked when the tensor was made. */
int64_t kiln_tensor_elements(const kiln_tensor_t *tensor);
/* Zeroed data in the arena; TOO_LARGE when the bytes leave 63 bits. */
kiln_status_t kiln_tensor_create(kiln_arena_t *arena, kiln_dtype_t dtype, uint32_t rank, const int64_t *sizes,
                                 kiln_tensor_t *out);
/* The type's sizes for these symbols; INVALID_ARGUMENT when one is negative or leaves 64 bits. */
kiln_status_t kiln_type_sizes(const kiln_type_t *type, const int64_t *symbols, int64_t sizes[KILN_MAX_RANK]);

/* Storage range of a boundary tensor in elements (1 + last offset; 0 when empty). */
int64_t kiln_storage_elements(uint32_t rank, const int64_t *sizes, const int64_t *strides);
/* Copies between the logical tensor and its storage with element strides. */
void kiln_storage_gather(const kiln_tensor_t *out, const void *storage, const int64_t *strides);
void kiln_storage_scatter(void *storage, const int64_t *strides, const kiln_tensor_t *tensor);

/* Symbols' values from the shapes of the inputs: symbols[s] >= 0 are given, -1 are to be found where a
 * dimension is a bare symbol (others are then checked). INVALID_ARGUMENT names the input that does not fit,
 * or the symbol that stays unknown. */
kiln_status_t kiln_symbols_bind(const kiln_symbol_t *symbol_names, uint32_t symbol_count,
                                const kiln_type_t *input_types, uint32_t input_count,
                                const kiln_tensor_t *inputs, int64_t *symbols);

/* .npy files, version 1.0 and 2.0; bf16 as uint16 bits, both ways. C order only is written, both are read. */
kiln_status_t kiln_npy_read(kiln_arena_t *arena, const char *path, kiln_dtype_t expected, kiln_tensor_t *out);
kiln_status_t kiln_npy_write(const char *path, const kiln_tensor_t *tensor);

#endif
