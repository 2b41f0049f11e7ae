/* ir/reference_impl.h: what the files of the reference evaluator share; private to ir/reference*.c.
 *
 * reference.c            the walk over the nodes, memory, comparison
 * reference_scalar.c     one element: reading, rounding, casting, settling on a value and its bound;
 * kiln_ref_* of ops.def reference_accumulate.c sums and their errors reference_elementwise.c, _views.c,
 * _reduce.c, _normalize.c, _contract.c   the classes of ops
 *
 * Numbers: exact or nearly exact arithmetic in (long) double with an error that the device may make beside
 * it, until kiln_ref_settle rounds both. Bounds are made on the first non-zero one, so exact graphs pay for
 * none.
 */
#ifndef KILN_IR_REFERENCE_IMPL_H
#define KILN_IR_REFERENCE_IMPL_H

#include "ir/reference.h"
#include "ir/walk.h"

#include <float.h>
#include <limits.h>
#include <math.h>

/* The smallest bound there is. On a zero it frees the sign, on a NaN the payload, and it says nothing else.
 */
#define KILN_REF_ANY_FORM DBL_TRUE_MIN

typedef struct {
  kiln_tensor_t tensor;
  double *bound;    /* NULL while all are 0 */
  int64_t elements; /* of tensor */
  uint32_t uses;    /* reads still to come; outputs count as one that never comes */
  bool owned;       /* data is ours to free */
} kiln_ref_value_t;

typedef struct {
  const kiln_graph_t *graph;
  int64_t symbols[KILN_MAX_SYMBOLS];
  kiln_ref_value_t *values; /* per value of the graph */
  uint32_t value_count;
  bool allows_tf32; /* operands of f32 contractions may be rounded */
  uint64_t used_bytes, limit_bytes;
  kiln_code_t refused; /* why memory was refused; KILN_OK when it was not. Checked after each node. */
} kiln_ref_run_t;

/* One node being evaluated: its results have storage, its operands values. */
typedef struct {
  kiln_ref_run_t *run;
  const kiln_node_t *node;
  kiln_ref_value_t *results; /* node->result_count of them */
} kiln_ref_call_t;

/* NULL when the operand is `none` or beyond those given. */
const kiln_ref_value_t *kiln_ref_operand(const kiln_ref_call_t *call, uint32_t index);
/* Counted, zeroed heap memory; NULL when refused (run->refused says why), and then the node gives up. */
void *kiln_ref_alloc(kiln_ref_run_t *run, int64_t count, size_t item_bytes);
void kiln_ref_free(kiln_ref_run_t *run, void *memory, int64_t count, size_t item_bytes);

/* -- one element
 * --------------------------------------------------------------------------------------------------- */
typedef struct {
  double real;     /* of floats */
  int64_t integer; /* of integers and bool */
  double bound;
} kiln_ref_scalar_t;

double kiln_ref_read_real(const kiln_tensor_t *tensor, int64_t at);     /* of any dtype */
int64_t kiln_ref_read_integer(const kiln_tensor_t *tensor, int64_t at); /* of integers and bool */
void kiln_ref_write_integer(const kiln_tensor_t *tensor, int64_t at,
                            int64_t value); /* wraps; bool: is it 0? */
static inline double kiln_ref_bound(const kiln_ref_value_t *value, int64_t at) {
  return value->bound ? value->bound[at] : 0;
}
void kiln_ref_set_bound(kiln_ref_run_t *run, kiln_ref_value_t *value, int64_t at, double bound);

kiln_ref_scalar_t kiln_ref_read(const kiln_ref_value_t *value, int64_t at);
void kiln_ref_write(kiln_ref_run_t *run, kiln_ref_value_t *value, int64_t at, kiln_ref_scalar_t scalar);
kiln_ref_scalar_t kiln_ref_cast(kiln_ref_scalar_t scalar, kiln_dtype_t from, kiln_dtype_t to);

/* A float result that the device has before rounding somewhere within value +- error. Rounds to the dtype as
 * a node does (halves through f32) and bounds by the rounded ends of that interval: rounding is monotone, so
 * no more is possible. An infinite or NaN error: undecided. */
void kiln_ref_settle(kiln_ref_run_t *run, kiln_ref_value_t *result, int64_t at, long double value,
                     double error);

/* The type that a float dtype computes in: f64, or f32 for all others. */
double kiln_ref_ulp(kiln_dtype_t dtype, double value); /* its spacing at value; 0 at infinities and NaN */
double kiln_ref_epsilon(kiln_dtype_t dtype);           /* its largest relative rounding error */
double kiln_ref_largest(kiln_dtype_t dtype);
double kiln_ref_round_arithmetic(kiln_dtype_t dtype, long double value);

/* -- accumulations
 * --------------------------------------------------------------------------------------------------- */
typedef struct {
  long double total, magnitudes; /* magnitudes: sum of |x| of the finite terms */
  double carried;                /* sum of the terms' errors */
  int64_t count;
  int quantum; /* the least of the terms' */
} kiln_ref_sum_t;
#define KILN_REF_EMPTY_SUM ((kiln_ref_sum_t){.quantum = INT_MAX})

double kiln_ref_error(kiln_dtype_t dtype, double bound); /* a bound as an error of the number alone */
/* Whether the sum is exact is known only when all values are doubles. */
void kiln_ref_sum_add(kiln_ref_sum_t *sum, long double value, double error);
/* How far a tree-shaped sum in the arithmetic type may be from total; 0 when all orders are exact. */
double kiln_ref_sum_error(const kiln_ref_sum_t *sum, kiln_dtype_t dtype);
double kiln_ref_squares_error(const kiln_ref_sum_t *squares, kiln_dtype_t dtype); /* of rounded differences */
/* The mean and the error before the rounding of its division; beside an exact sum that is the only one. */
double kiln_ref_mean(const kiln_ref_sum_t *sum, kiln_dtype_t dtype, long double *out_mean);
/* The error after that rounding, for those that go on with the mean. */
double kiln_ref_stored_mean(const kiln_ref_sum_t *sum, kiln_dtype_t dtype, long double *out_mean);
bool kiln_ref_sum_exact(const kiln_ref_sum_t *sum, kiln_dtype_t dtype);

/* A sum is exact in every order when all terms are multiples of one power of two and the sum of their
 * magnitudes stays within the significand. The quantum of a value is the exponent of the greatest power of
 * two that divides it: INT_MAX for zero, INT_MIN for what is not finite. */
int kiln_ref_quantum(double value);
bool kiln_ref_sum_is_exact(kiln_dtype_t dtype, int quantum, long double magnitudes);
/* Relative error of a tree-shaped accumulation in units of epsilon. */
double kiln_ref_tree_depth(int64_t count);

/* The sigmoid of a value that may be off by error, and how far that may be off. */
double kiln_ref_sigmoid_of(kiln_dtype_t dtype, long double value, double error, long double *out_sigmoid);

/* -- the reference columns of ops.def
 * ------------------------------------------------------------------------------ */
long double kiln_ref_wide_sigmoid(long double a);
double kiln_ref_sigmoid(double a);
double kiln_ref_silu(double a);
double kiln_ref_gelu(double a, const kiln_node_t *node);
double kiln_ref_clamp(double a, const kiln_node_t *node);
int64_t kiln_ref_clamp_int(int64_t a, const kiln_node_t *node);
double kiln_ref_floordiv(double a, double b);
int64_t kiln_ref_floordiv_int(int64_t a, int64_t b);
double kiln_ref_remainder(double a, double b);
int64_t kiln_ref_remainder_int(int64_t a, int64_t b);
int64_t kiln_ref_pow_int(int64_t a, int64_t b);
double kiln_ref_maximum(double a, double b);
double kiln_ref_minimum(double a, double b);
int64_t kiln_ref_shift_left(int64_t a, int64_t b, int width_bits);
int64_t kiln_ref_shift_right(int64_t a, int64_t b, int width_bits);

/* -- the classes
 * ----------------------------------------------------------------------------------------------------- */
kiln_status_t kiln_ref_elementwise(const kiln_ref_call_t *call);
kiln_status_t kiln_ref_view(const kiln_ref_call_t *call);
kiln_status_t kiln_ref_creation(const kiln_ref_call_t *call);
kiln_status_t kiln_ref_indexing(const kiln_ref_call_t *call);
kiln_status_t kiln_ref_reduction(const kiln_ref_call_t *call);
kiln_status_t kiln_ref_normalization(const kiln_ref_call_t *call);
kiln_status_t kiln_ref_contraction(const kiln_ref_call_t *call);

#endif
