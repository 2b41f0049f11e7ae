/* tests/support/cuda_headers.h: CUDA's own headers, for tests that compile what users write: those of an
 * installed toolkit, else of the PyPI packages that scripts/setup.sh unpacks. Thread: one at a time. */
#ifndef KILN_TESTS_CUDA_HEADERS_H
#define KILN_TESTS_CUDA_HEADERS_H

#include <stddef.h>

/* "-I<folder>" for each folder, NULL behind the last; NULL when there is no <cuda_fp16.h>. */
const char *const *test_cuda_include_options(void);
/* The text of a header such as "crt/math_functions.h", owned by the caller; NULL when it is not there. */
char *test_cuda_header(const char *name);

/* A function that a header declares. */
typedef struct {
  char *result, *name, *parameters;
} test_cuda_function_t;
/* The functions that a header's text declares for the device, each overload once, operators left out. */
test_cuda_function_t *test_cuda_functions(const char *header, size_t *out_count);
void test_cuda_functions_free(test_cuda_function_t *functions, size_t count);

#endif
