/* base/emu_checks.c: see emu_checks.h. */
#include "base/emu_checks.h"

#include "base/cuda_abi.h"

#include <stddef.h>
#include <string.h>

bool kiln_emu_checks_parse(const char *text, unsigned *out_mask) {
  static const struct {
    const char *name;
    unsigned mask;
  } rows[] = {{"all", KILN_EMU_CHECK_ALL},         {"none", 0},
              {"init", KILN_EMU_CHECK_INIT},       {"race", KILN_EMU_CHECK_RACE},
              {"barrier", KILN_EMU_CHECK_BARRIER}, {"shuffle", KILN_EMU_CHECK_SHUFFLE},
              {"leak", KILN_EMU_CHECK_LEAK}};
  const size_t row_count = sizeof rows / sizeof *rows;
  *out_mask = 0;
  for (;; text++) {
    size_t length = strcspn(text, ","), row = 0;
    while (row < row_count && (strlen(rows[row].name) != length || strncmp(rows[row].name, text, length)))
      row++;
    if (row == row_count) return false;
    *out_mask |= rows[row].mask;
    if (!text[length]) return true;
    text += length;
  }
}
