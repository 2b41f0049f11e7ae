/* ir/dim.h: a dimension: an integer, or a polynomial over the graph's symbols.
 *
 * Kept in a normal form (terms sorted by powers, no zero coefficient, a lone constant never has terms), so
 * that two dimensions are equal exactly when their forms are equal. A kiln_dim_t is a plain value; its terms
 * live in an arena. Arithmetic is checked: it returns false when a coefficient leaves 64 bits, a power
 * leaves 255 or the terms pass KILN_MAX_TERMS.
 */
#ifndef KILN_IR_DIM_H
#define KILN_IR_DIM_H

#include "base/arena.h"
#include "base/buffer.h"

#define KILN_MAX_SYMBOLS 8
#define KILN_MAX_RANK 8
#define KILN_MAX_TERMS 256 /* of one dimension; arithmetic refuses more */

typedef struct {
  uint64_t powers; /* the power of symbol s in byte s; 0 for the constant term */
  int64_t coefficient;
} kiln_term_t;

typedef struct {
  int64_t constant;         /* the value when terms is NULL, else unused and 0 */
  const kiln_term_t *terms; /* sorted by descending powers; the constant term last */
  uint32_t term_count;
} kiln_dim_t;

kiln_dim_t kiln_dim_constant(int64_t value);
kiln_dim_t kiln_dim_symbol(kiln_arena_t *arena, unsigned symbol);
bool kiln_dim_add(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out);
bool kiln_dim_sub(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out);
bool kiln_dim_mul(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out);
/* Exact division: true only when a polynomial q with a = q * b exists and b is not 0. */
bool kiln_dim_div(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out);

bool kiln_dim_is_constant(kiln_dim_t dim);
bool kiln_dim_is(kiln_dim_t dim, int64_t value); /* the constant value, nothing else */
bool kiln_dim_equal(kiln_dim_t a, kiln_dim_t b);
/* A total order of forms (no meaning beyond determinism): negative, 0, positive. */
int kiln_dim_order(kiln_dim_t a, kiln_dim_t b);
/* What can be proven when every symbol is at least 0: is a >= b? (true: proven; false: not proven) */
bool kiln_dim_provably_ge(kiln_dim_t a, kiln_dim_t b);
/* The dimension with symbol s = symbols[s]; false on overflow. */
bool kiln_dim_eval(kiln_dim_t dim, const int64_t *symbols, int64_t *out);
/* The largest power of two, at most 16, that divides the dimension whatever the symbols are, given that
 * symbol s is a multiple of multiples[s] (1 when nothing is known; NULL: all 1). 16 for the constant 0. */
int64_t kiln_dim_multiple(kiln_dim_t dim, const int64_t *multiples);
/* Bit s is set when symbol s occurs. */
uint32_t kiln_dim_symbols(kiln_dim_t dim);
kiln_dim_t kiln_dim_copy(kiln_arena_t *arena, kiln_dim_t dim);
/* Prints "128", "T", "2*T*T+3*T-1"; names[s] is symbol s's name. */
void kiln_dim_print(kiln_buffer_t *out, kiln_dim_t dim, const char *const *names);

#endif
