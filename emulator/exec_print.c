/* emulator/exec_print.c: printf and assert of device code; see ops.h.
 *
 * NVRTC passes printf a format and a buffer in local memory in which each argument lies at its own alignment
 * (as C's varargs: integers of 4 or 8 bytes, floats as double, pointers). Text goes to the host's standard
 * output, whole lines of one thread at a time.
 */
#include "emulator/exec_memory.h"
#include "emulator/ops.h"

#include <stdio.h>
#include <string.h>

/* A string of the device, cut to fit; false when it leaves its allocation. */
static bool read_string(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t address, char *text,
                        size_t capacity) {
  for (size_t n = 0; n + 1 < capacity; n++) {
    emu_space_t space = EMU_SPACE_GENERIC;
    const unsigned char *byte = emu_lane_memory(w, i, lane, address + n, 1, &space);
    if (!byte) return false;
    text[n] = (char)*byte;
    if (!*byte) return true;
  }
  text[capacity - 1] = 0;
  return true;
}

static bool read_argument(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, uint64_t *address,
                          uint32_t bytes, void *to) {
  emu_space_t space = EMU_SPACE_GENERIC;
  *address = (*address + bytes - 1) & ~(uint64_t)(bytes - 1);
  const unsigned char *from = emu_lane_memory(w, i, lane, *address, bytes, &space);
  if (!from) return false;
  memcpy(to, from, bytes);
  *address += bytes;
  return true;
}

/* Appends one conversion, `spec` with the length modifier removed; *address moves behind its argument. */
static bool print_argument(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, char *spec, bool is_long,
                           uint64_t *address, kiln_buffer_t *out) {
  size_t length = strlen(spec);
  char conversion = spec[length - 1], text[256];
  long long integer = 0;
  double real = 0;
  int narrow = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                               \
    "-Wformat-nonliteral" /* the format is the kernel's, checked to be one conversion */
  if (strchr("aAeEfFgG", conversion)) {
    if (!read_argument(w, i, lane, address, 8, &real)) return false;
    kiln_buffer_printf(out, spec, real);
  } else if (conversion == 's') {
    uint64_t string;
    if (!read_argument(w, i, lane, address, 8, &string) ||
        !read_string(w, i, lane, string, text, sizeof text))
      return false;
    kiln_buffer_printf(out, spec, text);
  } else if (conversion == 'p' || is_long) {
    if (!read_argument(w, i, lane, address, 8, &integer)) return false;
    if (conversion == 'p') conversion = 'x', kiln_buffer_puts(out, "0x");
    snprintf(spec + length - 1, 4, "ll%c", conversion);
    kiln_buffer_printf(out, spec, integer);
  } else {
    if (!read_argument(w, i, lane, address, 4, &narrow)) return false;
    kiln_buffer_printf(out, spec, narrow);
  }
#pragma GCC diagnostic pop
  return true;
}

/* Moves a conversion's flags, width and precision from *format to `spec`; '*' takes a number from the
 * arguments, and a negative precision counts as none. False when they do not fit. */
static bool read_flags(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, const char **format,
                       uint64_t *address, char *spec, size_t capacity) {
  size_t length = strlen(spec);
  for (; **format && strchr("-+ #0123456789.*", **format); ++*format) {
    int number = 0;
    if (length + 16 > capacity) return false;
    if (**format != '*') {
      spec[length++] = **format;
      continue;
    }
    if (!read_argument(w, i, lane, address, 4, &number)) return false;
    if (number < 0 && spec[length - 1] == '.')
      length--;
    else
      length += (size_t)snprintf(spec + length, capacity - length, "%d", number);
  }
  spec[length] = 0;
  return true;
}

/* Splits the format into text and conversions. */
static bool print_format(emu_warp_t *w, const emu_inst_t *i, uint32_t lane, const char *format,
                         uint64_t address, kiln_buffer_t *out) {
  while (*format) {
    size_t plain = strcspn(format, "%");
    kiln_buffer_append(out, format, plain);
    format += plain;
    if (!*format) break;
    if (format[1] == '%') {
      kiln_buffer_puts(out, "%");
      format += 2;
      continue;
    }
    char spec[64] = "%";
    format++;
    if (!read_flags(w, i, lane, &format, &address, spec, sizeof spec - 8)) return false;
    size_t modifiers = strspn(format, "hljzt"), length = strlen(spec);
    bool is_long = modifiers && *format != 'h';
    for (size_t n = 0; n < modifiers && n < 2 && !is_long; n++) spec[length++] = 'h';
    format += modifiers;
    if (!*format || !strchr("diouxXcsaAeEfFgGp", *format)) return false;
    spec[length++] = *format++;
    spec[length] = 0;
    if (!print_argument(w, i, lane, spec, is_long, &address, out)) return false;
  }
  return true;
}

/* arg: result or 0, format, arguments; both generic addresses. */
const emu_inst_t *emu_exec_printf(emu_warp_t *w, const emu_inst_t *i) {
  EMU_EACH_LANE(lane, w->mask) {
    char format[2048];
    kiln_buffer_t out;
    kiln_buffer_init(&out);
    uint64_t arguments = emu_u64(w, i->arg[2])[lane];
    bool fine = read_string(w, i, lane, emu_u64(w, i->arg[1])[lane], format, sizeof format) &&
                print_format(w, i, lane, format, arguments, &out);
    if (fine && !out.failed) fwrite(kiln_buffer_text(&out), 1, out.size, stdout);
    if (i->arg[0]) emu_u32(w, i->arg[0])[lane] = fine ? (uint32_t)out.size : ~0u;
    kiln_buffer_deinit(&out);
  }
  return i + 1;
}

/* arg: message, file, line, function; generic addresses but for the line. */
const emu_inst_t *emu_exec_assert(emu_warp_t *w, const emu_inst_t *i) {
  uint32_t lane = (uint32_t)__builtin_ctz(w->mask);
  char message[128] = "", file[96] = "";
  if (!read_string(w, i, lane, emu_u64(w, i->arg[0])[lane], message, sizeof message) ||
      !read_string(w, i, lane, emu_u64(w, i->arg[1])[lane], file, sizeof file))
    return emu_fault(w, i, lane, CUDA_ERROR_ASSERT, "assertion failed");
  return emu_fault(w, i, lane, CUDA_ERROR_ASSERT, "assertion failed: %s, at %s:%u", message, file,
                   emu_u32(w, i->arg[2])[lane]);
}
