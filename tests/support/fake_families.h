/* tests/support/fake_families.h: kernel families for tests of grouping: they take what the real ones take,
 * and tell classes by structure alone, without codegen. */
#ifndef KILN_TESTS_SUPPORT_FAKE_FAMILIES_H
#define KILN_TESTS_SUPPORT_FAKE_FAMILIES_H

#include "ir/group.h"

/* "elementwise", "rows" and "contraction". Groups are of one class when their nodes have the same ops and
 * dtypes; for rows, when the lengths of the rows are within the same power of two besides. A block of a
 * contraction makes 64 x 64 elements in 2 ns for each element of K; a block of the others makes 1,024
 * elements in 1 us. */
kiln_families_t kiln_test_families(void);
/* The same without classes: no launch is shared. */
kiln_families_t kiln_test_families_alone(void);

#endif
