/* tests/unit/test_codegen_random_sm90.c: random graphs over all families on the emulated device: the
 * reference's values for sm_90 code (see test_codegen_random.c, which does sm_80).
 *
 * A failure prints its seed and a minimal graph; KILN_SEED=<number> runs that seed alone, KILN_COUNT=<number>
 * that many.
 * Labels: device
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/random_check.h"

static void random_graphs_have_the_reference_values_fused_and_unfused(void **state) {
  (void)state;
  kiln_random_check(&(kiln_random_check_t){"sm_90", 8000000, 1000});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_graphs_have_the_reference_values_fused_and_unfused),
  };
  return cmocka_run_group_tests_name("codegen: random graphs, sm_90", tests, NULL, NULL);
}
