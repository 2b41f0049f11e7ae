/* base/launch_text.c: see launch_text.h. One function per row, in the order in which they are printed. */
#include "base/launch_text.h"

#include <inttypes.h>
#include <stdio.h>

/* A number with a comma between thousands; lives until the end of the expression that made it. */
typedef struct {
  char text[32];
} number_t;

static number_t grouped(uint64_t value) {
  char digits[24];
  number_t number;
  int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
  char *to = number.text;
  for (int n = 0; n < length; n++) {
    if (n && (length - n) % 3 == 0) *to++ = ',';
    *to++ = digits[n];
  }
  *to = 0;
  return number;
}
#define GROUPED(value) (grouped(value).text)

static void put_heading(kiln_buffer_t *out, const kiln_emu_launch_t *launch) {
  kiln_buffer_printf(out, "%s: grid %u x %u x %u, block %u x %u x %u", launch->kernel, launch->grid[0],
                     launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2]);
  if (launch->shared_bytes)
    kiln_buffer_printf(out, ", %s bytes of shared memory", GROUPED(launch->shared_bytes));
  kiln_buffer_puts(out, "\n");
}

static void put_instructions(kiln_buffer_t *out, const kiln_emu_counters_t *c) {
  const struct {
    const char *name;
    uint64_t count;
  } classes[] = {
      {"integer", c->integer_instructions},
      {"f32", c->f32_instructions},
      {"f64", c->f64_instructions},
      {"half", c->half_instructions},
      {"conversion", c->conversion_instructions},
      {"special", c->special_instructions},
      {"memory", c->memory_instructions},
      {"control", c->control_instructions},
      {"tensor", c->tensor_instructions},
  };
  double lanes = c->instructions ? (double)c->lane_instructions / (double)c->instructions : 0;
  kiln_buffer_printf(out, "  instructions  %s of a warp, %.1f lanes each\n", GROUPED(c->instructions), lanes);
  const char *before = "                ";
  for (size_t n = 0; n < sizeof classes / sizeof classes[0]; n++) {
    if (!classes[n].count) continue;
    kiln_buffer_printf(out, "%s%s %s", before, GROUPED(classes[n].count), classes[n].name);
    before = ", ";
  }
  if (c->instructions) kiln_buffer_puts(out, "\n");
  if (c->divergent_branches)
    kiln_buffer_printf(out, "  divergence    %s branches\n", GROUPED(c->divergent_branches));
}

static void put_memory(kiln_buffer_t *out, const kiln_emu_counters_t *c) {
  kiln_buffer_printf(out, "  bytes         %s moved; per block %s read, %s written\n",
                     GROUPED(c->bytes_moved), GROUPED(c->bytes_read), GROUPED(c->bytes_written));
  if (c->global_load_requests)
    kiln_buffer_printf(out, "  loads         %s requests for %s sectors of 32 bytes\n",
                       GROUPED(c->global_load_requests), GROUPED(c->global_load_sectors));
  if (c->global_store_requests)
    kiln_buffer_printf(out, "  stores        %s requests for %s sectors\n", GROUPED(c->global_store_requests),
                       GROUPED(c->global_store_sectors));
  if (c->shared_wavefronts)
    kiln_buffer_printf(out, "  shared        %s loads, %s stores in %s wavefronts\n",
                       GROUPED(c->shared_load_requests), GROUPED(c->shared_store_requests),
                       GROUPED(c->shared_wavefronts));
  if (c->local_bytes)
    kiln_buffer_printf(out, "  local         %s loads, %s stores of %s bytes\n",
                       GROUPED(c->local_load_requests), GROUPED(c->local_store_requests),
                       GROUPED(c->local_bytes));
}

static void put_rest(kiln_buffer_t *out, const kiln_emu_counters_t *c) {
  if (c->barriers) kiln_buffer_printf(out, "  barriers      %s passed by a warp\n", GROUPED(c->barriers));
  if (c->atomics) kiln_buffer_printf(out, "  atomics       %s requests\n", GROUPED(c->atomics));
  if (c->tensor_operations)
    kiln_buffer_printf(out, "  tensor        %s multiply-adds\n", GROUPED(c->tensor_operations));
}

void kiln_launch_text(kiln_buffer_t *out, const kiln_emu_launch_t *launch) {
  put_heading(out, launch);
  put_instructions(out, &launch->counters);
  put_memory(out, &launch->counters);
  put_rest(out, &launch->counters);
  kiln_buffer_printf(out, "  time          %.1f us on the modelled GPU (an estimate), %.1f us in emulation\n",
                     (double)launch->estimated_ns / 1e3, (double)launch->wall_ns / 1e3);
  if (launch->schedule_dependent)
    kiln_buffer_puts(out, "  schedule      blocks may wait for each other: counts depend on their order\n");
}
