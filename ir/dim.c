/* ir/dim.c: arithmetic on dimensions: multivariate polynomials with 64-bit coefficients.
 *
 * A monomial is a 64-bit word with one power per byte, so comparing words orders monomials lexicographically
 * (symbol 7 first), and adding words multiplies them. That order respects multiplication, which makes exact
 * division the schoolbook algorithm on leading terms (Cox, Little, O'Shea, "Ideals, Varieties, and
 * Algorithms", section 2.3).
 */
#include "ir/dim.h"

#include <stdlib.h>
#include <string.h>

/* A dimension's terms with the constant spelled as a term as well: what the arithmetic works on. */
typedef struct {
  const kiln_term_t *terms;
  uint32_t count;
  kiln_term_t constant; /* the storage of a lone constant */
} view_t;

/* view->terms may point into the view, so views are not copied. */
static void view_init(view_t *view, kiln_dim_t dim) {
  view->constant = (kiln_term_t){0, dim.constant};
  view->terms = dim.terms ? dim.terms : &view->constant;
  view->count = dim.terms ? dim.term_count : dim.constant != 0;
}

/* The normal form of sorted terms without zeros and repetitions; takes the array over. */
static kiln_dim_t from_terms(const kiln_term_t *terms, uint32_t count) {
  if (!count) return kiln_dim_constant(0);
  if (count == 1 && !terms[0].powers) return kiln_dim_constant(terms[0].coefficient);
  return (kiln_dim_t){.terms = terms, .term_count = count};
}

kiln_dim_t kiln_dim_constant(int64_t value) { return (kiln_dim_t){.constant = value}; }

kiln_dim_t kiln_dim_symbol(kiln_arena_t *arena, unsigned symbol) {
  kiln_term_t *term = KILN_NEW(arena, kiln_term_t);
  *term = (kiln_term_t){UINT64_C(1) << (8 * symbol), 1};
  return from_terms(term, 1);
}

/* --- arithmetic ----------------------------------------------------------------------------------------- */

/* out = a + sign * b by merging the two sorted lists of terms. */
static bool add_signed(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, int64_t sign, kiln_dim_t *out) {
  view_t left, right;
  view_init(&left, a);
  view_init(&right, b);
  kiln_term_t *terms = KILN_NEW_ARRAY(arena, kiln_term_t, left.count + right.count);
  uint32_t count = 0, i = 0, j = 0;
  while (i < left.count || j < right.count) {
    bool take_left = j == right.count || (i < left.count && left.terms[i].powers >= right.terms[j].powers);
    bool take_right = i == left.count || (j < right.count && right.terms[j].powers >= left.terms[i].powers);
    kiln_term_t term = {take_left ? left.terms[i].powers : right.terms[j].powers, 0}, added = {0};
    if (take_left) term.coefficient = left.terms[i++].coefficient;
    if (take_right && __builtin_mul_overflow(right.terms[j++].coefficient, sign, &added.coefficient))
      return false;
    if (__builtin_add_overflow(term.coefficient, added.coefficient, &term.coefficient)) return false;
    if (term.coefficient) terms[count++] = term;
  }
  *out = from_terms(terms, count);
  return count <= KILN_MAX_TERMS;
}

bool kiln_dim_add(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out) {
  if (!a.terms && !b.terms) {
    *out = kiln_dim_constant(0);
    return !__builtin_add_overflow(a.constant, b.constant, &out->constant);
  }
  return add_signed(arena, a, b, 1, out);
}

bool kiln_dim_sub(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out) {
  if (!a.terms && !b.terms) {
    *out = kiln_dim_constant(0);
    return !__builtin_sub_overflow(a.constant, b.constant, &out->constant);
  }
  return add_signed(arena, a, b, -1, out);
}

static bool multiply_powers(uint64_t a, uint64_t b, uint64_t *out) {
  for (int shift = 0; shift < 64; shift += 8) {
    if ((a >> shift & 255) + (b >> shift & 255) > 255) return false;
  }
  *out = a + b;
  return true;
}

static int by_descending_powers(const void *a, const void *b) {
  uint64_t left = ((const kiln_term_t *)a)->powers, right = ((const kiln_term_t *)b)->powers;
  return left < right ? 1 : left > right ? -1 : 0;
}

/* Adds up neighbours of equal powers and drops zeros. */
static bool combine(kiln_term_t *terms, uint32_t *count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < *count;) {
    kiln_term_t sum = terms[i++];
    for (; i < *count && terms[i].powers == sum.powers; i++) {
      if (__builtin_add_overflow(sum.coefficient, terms[i].coefficient, &sum.coefficient)) return false;
    }
    if (sum.coefficient) terms[kept++] = sum;
  }
  *count = kept;
  return kept <= KILN_MAX_TERMS;
}

bool kiln_dim_mul(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out) {
  if (!a.terms && !b.terms) {
    *out = kiln_dim_constant(0);
    return !__builtin_mul_overflow(a.constant, b.constant, &out->constant);
  }
  view_t left, right;
  view_init(&left, a);
  view_init(&right, b);
  kiln_term_t *terms = KILN_NEW_ARRAY(arena, kiln_term_t, (size_t)left.count * right.count);
  uint32_t count = 0;
  for (uint32_t i = 0; i < left.count; i++) {
    for (uint32_t j = 0; j < right.count; j++) {
      kiln_term_t *term = &terms[count++];
      if (!multiply_powers(left.terms[i].powers, right.terms[j].powers, &term->powers)) return false;
      if (__builtin_mul_overflow(left.terms[i].coefficient, right.terms[j].coefficient, &term->coefficient)) {
        return false;
      }
    }
  }
  qsort(terms, count, sizeof *terms, by_descending_powers);
  if (!combine(terms, &count)) return false;
  *out = from_terms(terms, count);
  return true;
}

/* a / b when it is exact. */
static bool divide_terms(kiln_term_t a, kiln_term_t b, kiln_term_t *out) {
  for (int shift = 0; shift < 64; shift += 8) {
    if ((a.powers >> shift & 255) < (b.powers >> shift & 255)) return false;
  }
  if (b.coefficient == -1 ? a.coefficient == INT64_MIN : a.coefficient % b.coefficient != 0) return false;
  *out = (kiln_term_t){a.powers - b.powers, a.coefficient / b.coefficient};
  return true;
}

bool kiln_dim_div(kiln_arena_t *arena, kiln_dim_t a, kiln_dim_t b, kiln_dim_t *out) {
  view_t rest, divisor;
  view_init(&divisor, b);
  if (!divisor.count) return false;
  kiln_term_t *quotient = NULL;
  size_t count = 0, capacity = 0;
  for (view_init(&rest, a); rest.count; view_init(&rest, a)) {
    kiln_term_t term;
    if (count == KILN_MAX_TERMS || !divide_terms(rest.terms[0], divisor.terms[0], &term)) return false;
    KILN_PUSH(arena, quotient, count, capacity, term);
    kiln_dim_t product;
    if (!kiln_dim_mul(arena, from_terms(&term, 1), b, &product)) return false;
    if (!kiln_dim_sub(arena, a, product, &a)) return false;
  }
  *out = from_terms(quotient, (uint32_t)count);
  return true;
}

/* --- questions ------------------------------------------------------------------------------------------ */

bool kiln_dim_is_constant(kiln_dim_t dim) { return !dim.terms; }

bool kiln_dim_is(kiln_dim_t dim, int64_t value) { return !dim.terms && dim.constant == value; }

bool kiln_dim_equal(kiln_dim_t a, kiln_dim_t b) { return kiln_dim_order(a, b) == 0; }

int kiln_dim_order(kiln_dim_t a, kiln_dim_t b) {
  view_t left, right;
  view_init(&left, a);
  view_init(&right, b);
  for (uint32_t i = 0; i < left.count && i < right.count; i++) {
    kiln_term_t x = left.terms[i], y = right.terms[i];
    if (x.powers != y.powers) return x.powers < y.powers ? -1 : 1;
    if (x.coefficient != y.coefficient) return x.coefficient < y.coefficient ? -1 : 1;
  }
  return left.count == right.count ? 0 : left.count < right.count ? -1 : 1;
}

/* a >= b when every monomial has at least as large a coefficient in a: monomials are never negative. */
bool kiln_dim_provably_ge(kiln_dim_t a, kiln_dim_t b) {
  view_t left, right;
  view_init(&left, a);
  view_init(&right, b);
  for (uint32_t i = 0, j = 0; i < left.count || j < right.count;) {
    bool take_left = j == right.count || (i < left.count && left.terms[i].powers >= right.terms[j].powers);
    bool take_right = i == left.count || (j < right.count && right.terms[j].powers >= left.terms[i].powers);
    int64_t of_a = take_left ? left.terms[i++].coefficient : 0;
    int64_t of_b = take_right ? right.terms[j++].coefficient : 0;
    if (of_a < of_b) return false;
  }
  return true;
}

/* coefficient * product of symbols[s] to its power. A factor 0 decides, however large the others are. */
static bool eval_term(kiln_term_t term, const int64_t *symbols, int64_t *out) {
  *out = term.coefficient;
  for (unsigned s = 0; s < KILN_MAX_SYMBOLS; s++) {
    if ((term.powers >> (8 * s) & 255) && !symbols[s]) *out = 0;
  }
  for (unsigned s = 0; *out && s < KILN_MAX_SYMBOLS; s++) {
    for (uint64_t power = term.powers >> (8 * s) & 255; power; power--) {
      if (__builtin_mul_overflow(*out, symbols[s], out)) return false;
    }
  }
  return true;
}

bool kiln_dim_eval(kiln_dim_t dim, const int64_t *symbols, int64_t *out) {
  view_t view;
  view_init(&view, dim);
  int64_t sum = 0;
  for (uint32_t i = 0; i < view.count; i++) {
    int64_t value;
    if (!eval_term(view.terms[i], symbols, &value)) return false;
    if (__builtin_add_overflow(sum, value, &sum)) return false;
  }
  *out = sum;
  return true;
}

/* The largest power of two up to 16 that divides the term. */
static int64_t term_multiple(kiln_term_t term, const int64_t *multiples) {
  int64_t multiple = term.coefficient & -term.coefficient;
  if (multiple < 0 || multiple > 16) multiple = 16; /* INT64_MIN is a power of two, too */
  for (unsigned s = 0; multiples && s < KILN_MAX_SYMBOLS; s++) {
    for (uint64_t power = term.powers >> (8 * s) & 255; power && multiple < 16; power--) {
      multiple *= multiples[s];
      if (multiples[s] == 1) break;
    }
  }
  return multiple < 16 ? multiple : 16;
}

int64_t kiln_dim_multiple(kiln_dim_t dim, const int64_t *multiples) {
  view_t view;
  view_init(&view, dim);
  int64_t least = 16;
  for (uint32_t i = 0; i < view.count; i++) {
    int64_t multiple = term_multiple(view.terms[i], multiples);
    if (multiple < least) least = multiple;
  }
  return least;
}

uint32_t kiln_dim_symbols(kiln_dim_t dim) {
  uint64_t powers = 0;
  for (uint32_t i = 0; i < dim.term_count; i++) powers |= dim.terms[i].powers;
  uint32_t symbols = 0;
  for (unsigned s = 0; s < KILN_MAX_SYMBOLS; s++) symbols |= (uint32_t)((powers >> (8 * s) & 255) != 0) << s;
  return symbols;
}

kiln_dim_t kiln_dim_copy(kiln_arena_t *arena, kiln_dim_t dim) {
  if (dim.terms) dim.terms = kiln_arena_copy(arena, dim.terms, dim.term_count * sizeof *dim.terms);
  return dim;
}

/* --- printing ------------------------------------------------------------------------------------------- */

static void print_term(kiln_buffer_t *out, kiln_term_t term, bool first, const char *const *names) {
  bool bare = term.powers && (term.coefficient == 1 || term.coefficient == -1); /* no number to print */
  if (!first && term.coefficient > 0) kiln_buffer_puts(out, "+");
  if (bare && term.coefficient < 0) kiln_buffer_puts(out, "-");
  if (!bare) kiln_buffer_printf(out, "%lld", (long long)term.coefficient);
  const char *separator = bare ? "" : "*";
  for (unsigned s = 0; s < KILN_MAX_SYMBOLS; s++) {
    for (uint64_t power = term.powers >> (8 * s) & 255; power; power--) {
      kiln_buffer_puts(out, separator);
      kiln_buffer_puts(out, names[s]);
      separator = "*";
    }
  }
}

void kiln_dim_print(kiln_buffer_t *out, kiln_dim_t dim, const char *const *names) {
  if (!dim.terms) kiln_buffer_printf(out, "%lld", (long long)dim.constant);
  for (uint32_t i = 0; i < dim.term_count; i++) print_term(out, dim.terms[i], !i, names);
}
