/* ir/reference.h: the right answer: every op and dtype evaluated on the CPU, with an error bound per element.
 *
 * Slow and simple on purpose: doubles and 64-bit integers inside, each node rounded to its dtype as the
 * design's rounding rules say. Views, cat, where and gather move storage bits. A bound of 0 means that only
 * these very bits are right; the least double (5e-324) frees the payload of a NaN, as every computed one has
 * it, or the sign of a zero; infinity means that the element is undecided and not compared. Rules and
 * formulas: docs/numerics.md.
 */
#ifndef KILN_IR_REFERENCE_H
#define KILN_IR_REFERENCE_H

#include "ir/target.h"
#include "ir/tensor.h"

typedef struct {
  kiln_tensor_t value;
  double *bound; /* per element, in the value's own unit; absolute */
} kiln_reference_t;

/* Evaluates all outputs of any graph, which is verified first. symbols has one value per symbol, -1 to
 * take it from the inputs' shapes. outputs has room for graph->output_count; what they point to lives as long
 * as the arena, except that a returned input shares the input's data. TOO_LARGE when more than limit_bytes
 * (0: 8 GiB) would be needed at once; INVALID_ARGUMENT when a constraint on symbols fails or an input is not
 * as declared; OUT_OF_MEMORY. */
kiln_status_t kiln_reference_run(kiln_arena_t *arena, const kiln_graph_t *graph, const int64_t *symbols,
                                 const kiln_tensor_t *inputs, uint64_t limit_bytes,
                                 kiln_reference_t *outputs);
/* The same with bounds that allow for what these options permit a device to do: with allow_tf32, to round the
 * operands of f32 contractions to 10 bits of fraction. */
kiln_status_t kiln_reference_run_with(kiln_arena_t *arena, const kiln_graph_t *graph,
                                      const kiln_options_t *options, const int64_t *symbols,
                                      const kiln_tensor_t *inputs, uint64_t limit_bytes,
                                      kiln_reference_t *outputs);

typedef struct {
  int64_t elements, undecided, wrong;
  int64_t first_wrong;         /* flat index; -1: none */
  double worst_ratio;          /* largest |got - value| / bound over elements with a bound above 0 */
  double got, expected, bound; /* at first_wrong */
} kiln_comparison_t;

/* Compares a computed tensor, of the reference's dtype and shape, with the reference. */
kiln_comparison_t kiln_reference_compare(const kiln_reference_t *reference, const kiln_tensor_t *got);

#endif
