/* tests/support/conform.h: single PTX instructions on the emulated device against values computed on the
 * host.
 *
 * The conformance suite (tests/unit/test_conform_*.c) states instructions as rows: the PTX text, the types of
 * its operands, and a host function that computes what must come out. Each row becomes a kernel of its own,
 * written as PTX so that no compiler stands between, and runs on 65,536 operands: special values in all
 * pairs, then random ones; the first operand of 16 bits takes every value there is. Thread: the test's.
 */
#ifndef KILN_TESTS_CONFORM_H
#define KILN_TESTS_CONFORM_H

#include "tests/support/emu_device.h"

#include <stddef.h>
#include <stdint.h>

#define CONFORM_COUNT 65536u

/* Computes in the host's rounding mode, which conform_check sets to the row's. Operands and result are bits.
 */
typedef uint64_t (*conform_expected_t)(uint64_t a, uint64_t b, uint64_t c);

/* `text` is statements over the registers d, a, b, c of `types` ("s32 s16 s16": d first), predicates p and q,
 * and scratch h0 h1 (16 bits) r0 r1 r2 (32) w0 w1 (64). A "%s" in it stands for rn, rz, rm and rp in turn. */
typedef struct {
  const char *text, *types;
  conform_expected_t expected;
} conform_row_t;

/* Rows from a list macro: #define SUMS(X) X(name, text, types, expression of a, b, c) ...;
 * SUMS(CONFORM_FUNCTION) makes the functions, {SUMS(CONFORM_ENTRY)} the rows. */
#define CONFORM_FUNCTION(name, text, types, expression)                                                      \
  static uint64_t name(uint64_t a, uint64_t b, uint64_t c) {                                                 \
    (void)a, (void)b, (void)c;                                                                               \
    return (uint64_t)(expression);                                                                           \
  }
#define CONFORM_ENTRY(name, text, types, expression) {text, types, name},

/* Fails the test when a row's result is another one, with the first such operands on standard error. NaN
 * payloads of f64 are open. */
void conform_check(const conform_row_t *rows, size_t count);
#define CONFORM_ROWS(rows) conform_check((rows), sizeof(rows) / sizeof(rows)[0])

/* An approximate unary instruction: how far it may be from the exact value. */
typedef struct {
  const char *text, *types;
  double (*exact)(double x);
  double relative, absolute; /* either bound is enough */
  double least, most;        /* inputs of larger or smaller magnitude are not judged */
} conform_bound_t;
void conform_check_bounds(const conform_bound_t *rows, size_t count);

/* Operand `which` (0 to 2) of case n for a type such as "u32", "bf16" or "f16x2". */
uint64_t conform_operand(const char *type, uint32_t n, uint32_t which);
uint32_t conform_bytes(const char *type);

/* Values and bits. A NaN becomes the GPU's canonical one: 0x7fffffff, 0x7fff. */
float conform_f32(uint64_t bits);
double conform_f64(uint64_t bits);
uint64_t conform_f32_bits(float value);
uint64_t conform_f64_bits(double value);
/* Of "f16", "bf16", "f32" or "f64". */
double conform_value(const char *type, uint64_t bits);
/* x rounded once to f16 or bf16 in the host's rounding mode. */
uint64_t conform_round_f16(double x);
uint64_t conform_round_bf16(double x);
/* Denormals to zero, with their sign. */
float conform_flush(float x);

/* Loads PTX text and gives its kernel "k". */
CUfunction conform_kernel(const char *ptx);

#endif
