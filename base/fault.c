/* base/fault.c: arming and asking fault points. An armed set belongs to one process and is read by one
 * thread. */
#include "base/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[KILN_FAULT_COUNT] = {
#define KILN_FAULT(name, what) #name,
#include "base/faults.def"
#undef KILN_FAULT
};

static int find_point(const char *name, size_t length) {
  for (int point = 0; point < KILN_FAULT_COUNT; point++) {
    if (strlen(names[point]) == length && !memcmp(names[point], name, length)) return point;
  }
  return -1;
}

/* Reads ":<number>" at *text, when there is a colon, and moves past it. */
static bool parse_number(const char **text, int64_t *out) {
  if (**text != ':') return true;
  char *end;
  errno = 0;
  *out = strtoll(*text + 1, &end, 10);
  bool ok = end != *text + 1 && !errno;
  *text = end;
  return ok;
}

bool kiln_faults_parse(kiln_faults_t *faults, const char *specification) {
  memset(faults, 0, sizeof *faults);
  const char *text = specification ? specification : "";
  while (*text) {
    size_t length = strcspn(text, ":,");
    int point = find_point(text, length);
    if (point < 0) return false;
    text += length;
    faults->points[point].remaining = 1;
    if (!parse_number(&text, &faults->points[point].remaining)) return false;
    if (!parse_number(&text, &faults->points[point].argument)) return false;
    if (*text == ',') {
      text++;
    } else if (*text) {
      return false;
    }
  }
  return true;
}

bool kiln_fault(kiln_faults_t *faults, kiln_fault_point_t point, int64_t *out_argument) {
  if (!faults || !faults->points[point].remaining) return false;
  if (faults->points[point].remaining > 0) faults->points[point].remaining--;
  if (out_argument) *out_argument = faults->points[point].argument;
  return true;
}
