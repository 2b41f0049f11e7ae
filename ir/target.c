/* ir/target.c: the table of targets, made from targets.def. */
#include "ir/target.h"

#include "base/arena.h"
#include "base/buffer.h"

#include <string.h>

static const kiln_target_t targets[] = {
#define KILN_TARGET(name, cc_major, cc_minor, sms, block_kib, sm_kib, threads, l2_mb, memory_gb, gb_per_s)   \
  {.arch = #name,                                                                                            \
   .major = cc_major,                                                                                        \
   .minor = cc_minor,                                                                                        \
   .sm_count = sms,                                                                                          \
   .shared_bytes_per_block = block_kib << 10,                                                                \
   .shared_bytes_per_sm = sm_kib << 10,                                                                      \
   .registers_per_sm = 65536,                                                                                \
   .threads_per_sm = threads,                                                                                \
   .l2_bytes = l2_mb * UINT64_C(1000000),                                                                    \
   .memory_bytes = memory_gb * UINT64_C(1000000000),                                                         \
   .memory_gb_per_s = gb_per_s},
#include "ir/targets.def"
#undef KILN_TARGET
};

enum { TARGET_COUNT = sizeof targets / sizeof *targets };

const char *kiln_target_name(size_t index) { return index < TARGET_COUNT ? targets[index].arch : NULL; }

static kiln_status_t unknown_target(const char *name) {
  kiln_buffer_t known;
  kiln_buffer_init(&known);
  for (size_t i = 0; i < TARGET_COUNT; i++)
    kiln_buffer_printf(&known, "%s%s", i ? ", " : "", targets[i].arch);
  kiln_status_t status =
      kiln_error(KILN_UNSUPPORTED, "unknown target '%.32s'; known are %s", name, kiln_buffer_text(&known));
  kiln_buffer_deinit(&known);
  return status;
}

kiln_status_t kiln_target_parse(const char *name, kiln_target_t *out) {
  for (size_t i = 0; i < TARGET_COUNT; i++) {
    if (strcmp(targets[i].arch, name)) continue;
    *out = targets[i];
    return NULL;
  }
  return unknown_target(name);
}
