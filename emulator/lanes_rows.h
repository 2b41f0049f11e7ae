/* emulator/lanes_rows.h: memory requests of whole warps, for one instruction set.
 *
 * Nearly every request of a well-written kernel is a ROW, where lane n wants the n-th of 32 elements that lie
 * behind each other, or wants the SAME element in all lanes. Those are found by comparing vectors of
 * addresses, need one look at the bounds, and move as vectors; a watcher (watch_row: checkers and counters)
 * is told of the whole row. Everything else, and whatever a watcher has an objection to, goes the long way
 * through emu_exec_load and emu_exec_store (exec_memory.c), whose search for the bounds is here too.
 * Included by lanes_loops.h; called by warp run loops, on any worker's thread.
 */
#include "emulator/exec_memory.h"
#include "emulator/ops.h"

/* The pattern of 32 addresses for elements of `bytes`. */
#define PATTERN(name, T)                                                                                     \
  static inline emu_pattern_t name(const T *a, uint32_t bytes) {                                             \
    T unlike_row = 0, unlike_first = 0, first = a[0];                                                        \
    EACH_LANE {                                                                                              \
      T apart = a[l] - first;                                                                                \
      unlike_first |= apart;                                                                                 \
      unlike_row |= apart ^ (T)(l * bytes);                                                                  \
    }                                                                                                        \
    return !unlike_row ? EMU_PATTERN_ROW : !unlike_first ? EMU_PATTERN_SAME : EMU_PATTERN_ANY;               \
  }
PATTERN(pattern_of_wide, uint64_t)
PATTERN(pattern_of_narrow, uint32_t)

/* Where `bytes` at `address` are, if that is memory this instruction touched before or the block's own. */
static inline unsigned char *row_memory(const emu_warp_t *w, const emu_inst_t *i, uint64_t address,
                                        uint64_t bytes) {
  if (i->space == EMU_SPACE_SHARED) {
    uint64_t limit = w->worker->shared_bytes;
    return address < limit && bytes <= limit - address ? w->block->shared + address : NULL;
  }
  const emu_range_t *range = &w->worker->ranges[i->target];
  uint64_t offset = address - range->base;
  bool inside = i->space <= EMU_SPACE_GLOBAL && offset < range->bytes && bytes <= range->bytes - offset;
  return inside ? (unsigned char *)(uintptr_t)address : NULL;
}

/* Finds the request's memory; false when it must go the long way. */
static inline bool find_row(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_access_t access,
                            emu_row_t *row) {
  uint32_t each = (uint32_t)i->bytes * i->vector;
  if (w->mask != ~0u || i->strong) return false;
  if (i->width == 8) {
    row->pattern = pattern_of_wide(emu_u64(w, operand), each);
    row->address = emu_u64(w, operand)[0] + (uint64_t)i->offset;
  } else {
    row->pattern = pattern_of_narrow(emu_u32(w, operand), each);
    row->address = (uint32_t)(emu_u32(w, operand)[0] + (uint32_t)i->offset);
  }
  if (row->pattern == EMU_PATTERN_ANY || row->address & (each - 1)) return false;
  row->bytes = row->pattern == EMU_PATTERN_ROW ? 32 * each : each;
  row->memory = row_memory(w, i, row->address, row->bytes);
  row->access = access;
  __builtin_prefetch(row->memory + row->bytes); /* likely the next warp's row */
  __builtin_prefetch(row->memory + row->bytes + 64);
  return row->memory && (!w->worker->watched || emu_watch_row(w, i, row));
}

/* --- moving rows --- */

/* Elements of fewer than 4 bytes are widened to lanes of 4. */
#define NARROW_ROW(M)                                                                                        \
  static inline void load_row_##M(const M *restrict from, uint32_t *restrict to, uint32_t vector) {          \
    if (vector == 1) EACH_LANE {                                                                             \
        to[l] = (uint32_t)from[l];                                                                           \
      }                                                                                                      \
    else                                                                                                     \
      EACH_LANE { to[l] = (uint32_t)from[l * vector]; }                                                      \
  }                                                                                                          \
  static inline void store_row_##M(M *restrict to, const uint32_t *restrict from, uint32_t vector) {         \
    if (vector == 1) EACH_LANE {                                                                             \
        to[l] = (M)from[l];                                                                                  \
      }                                                                                                      \
    else                                                                                                     \
      for (uint32_t l = 0; l < 32; l++) to[l * vector] = (M)from[l];                                         \
  }
NARROW_ROW(uint8_t)
NARROW_ROW(int8_t)
NARROW_ROW(uint16_t)
NARROW_ROW(int16_t)
#undef NARROW_ROW

/* A row of whole elements as the compiler's own vector, so that it is moved in the widest registers. */
typedef uint32_t row_of_uint32_t __attribute__((vector_size(128), aligned(4)));
typedef uint64_t row_of_uint64_t __attribute__((vector_size(256), aligned(8)));

/* Vectors of 1, 2 and 4 move all their elements in one loop, which compilers turn into shuffles. */
#define WHOLE_ROW(T)                                                                                         \
  static inline void load_row_##T(const T *restrict from, T *const *to, uint32_t vector) {                   \
    T *restrict a = to[0], *restrict b = to[1], *restrict c = to[2], *restrict d = to[3];                    \
    if (vector == 1)                                                                                         \
      *(row_of_##T *)a = *(const row_of_##T *)from;                                                          \
    else if (vector == 2)                                                                                    \
      EACH_LANE { a[l] = from[2 * l], b[l] = from[2 * l + 1]; }                                              \
    else if (vector == 4)                                                                                    \
      EACH_LANE {                                                                                            \
        a[l] = from[4 * l], b[l] = from[4 * l + 1], c[l] = from[4 * l + 2], d[l] = from[4 * l + 3];          \
      }                                                                                                      \
    else                                                                                                     \
      for (uint32_t n = 0; n < vector; n++)                                                                  \
        for (uint32_t l = 0; l < 32; l++) to[n][l] = from[vector * l + n];                                   \
  }                                                                                                          \
  static inline void store_row_##T(T *restrict to, T *const *from, uint32_t vector) {                        \
    const T *restrict a = from[0], *restrict b = from[1], *restrict c = from[2], *restrict d = from[3];      \
    if (vector == 1)                                                                                         \
      *(row_of_##T *)to = *(const row_of_##T *)a;                                                            \
    else if (vector == 2)                                                                                    \
      EACH_LANE { to[2 * l] = a[l], to[2 * l + 1] = b[l]; }                                                  \
    else if (vector == 4)                                                                                    \
      EACH_LANE { to[4 * l] = a[l], to[4 * l + 1] = b[l], to[4 * l + 2] = c[l], to[4 * l + 3] = d[l]; }      \
    else                                                                                                     \
      for (uint32_t n = 0; n < vector; n++)                                                                  \
        for (uint32_t l = 0; l < 32; l++) to[vector * l + n] = from[n][l];                                   \
  }
WHOLE_ROW(uint32_t)
WHOLE_ROW(uint64_t)
#undef WHOLE_ROW

/* The frame vectors of the elements; those that are not there are the first, and not touched. */
#define ROW_REGISTERS(T, registers)                                                                          \
  T *to[8];                                                                                                  \
  for (uint32_t n = 0; n < 8; n++) to[n] = (T *)(w->frame + (registers)[n < i->vector ? n : 0])

static inline void load_row(emu_warp_t *w, const emu_inst_t *i, const void *from) {
  const uint32_t *args = i->args;
  if (i->bytes == 4) {
    ROW_REGISTERS(uint32_t, args);
    load_row_uint32_t(from, to, i->vector);
  } else if (i->bytes == 8) {
    ROW_REGISTERS(uint64_t, args);
    load_row_uint64_t(from, to, i->vector);
  } else
    for (uint32_t n = 0; n < i->vector; n++) {
      uint32_t *lanes = emu_u32(w, args[n]);
      if (i->bytes == 2 && i->is_signed) load_row_int16_t((const int16_t *)from + n, lanes, i->vector);
      if (i->bytes == 2 && !i->is_signed) load_row_uint16_t((const uint16_t *)from + n, lanes, i->vector);
      if (i->bytes == 1 && i->is_signed) load_row_int8_t((const int8_t *)from + n, lanes, i->vector);
      if (i->bytes == 1 && !i->is_signed) load_row_uint8_t((const uint8_t *)from + n, lanes, i->vector);
    }
}

static inline void store_row(emu_warp_t *w, const emu_inst_t *i, void *memory) {
  const uint32_t *args = i->args + 1;
  if (i->bytes == 4) {
    ROW_REGISTERS(uint32_t, args);
    store_row_uint32_t(memory, to, i->vector);
  } else if (i->bytes == 8) {
    ROW_REGISTERS(uint64_t, args);
    store_row_uint64_t(memory, to, i->vector);
  } else
    for (uint32_t n = 0; n < i->vector; n++) {
      const uint32_t *lanes = emu_u32(w, args[n]);
      if (i->bytes == 2) store_row_uint16_t((uint16_t *)memory + n, lanes, i->vector);
      if (i->bytes == 1) store_row_uint8_t((uint8_t *)memory + n, lanes, i->vector);
    }
}

/* Single elements are relaxed atomic, as in exec_memory.c: lanes on other threads see whole values. */
static inline uint64_t read_element(const void *p, uint32_t bytes, bool is_signed) {
  if (bytes == 4) return __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
  if (bytes == 8) return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
  uint32_t value = bytes == 2 ? __atomic_load_n((const uint16_t *)p, __ATOMIC_RELAXED)
                              : __atomic_load_n((const uint8_t *)p, __ATOMIC_RELAXED);
  if (!is_signed) return value;
  return bytes == 2 ? (uint64_t)(int16_t)value : (uint64_t)(int8_t)value;
}

static inline void write_element(void *p, uint32_t bytes, uint64_t value) {
  if (bytes == 8)
    __atomic_store_n((uint64_t *)p, value, __ATOMIC_RELAXED);
  else if (bytes == 4)
    __atomic_store_n((uint32_t *)p, (uint32_t)value, __ATOMIC_RELAXED);
  else if (bytes == 2)
    __atomic_store_n((uint16_t *)p, (uint16_t)value, __ATOMIC_RELAXED);
  else
    __atomic_store_n((uint8_t *)p, (uint8_t)value, __ATOMIC_RELAXED);
}

static inline void load_same(emu_warp_t *w, const emu_inst_t *i, const unsigned char *from) {
  for (uint32_t n = 0; n < i->vector; n++) {
    uint64_t value = read_element(from + n * i->bytes, i->bytes, i->is_signed);
    uint64_t *wide = emu_u64(w, i->args[n]);
    uint32_t *narrow = emu_u32(w, i->args[n]);
    if (i->bytes == 8) EACH_LANE {
        wide[l] = value;
      }
    else
      EACH_LANE { narrow[l] = (uint32_t)value; }
  }
}

/* The last lane's value stays, as when lanes write in order. */
static inline void store_same(emu_warp_t *w, const emu_inst_t *i, unsigned char *memory) {
  for (uint32_t n = 0; n < i->vector; n++) {
    uint64_t value = i->bytes == 8 ? emu_u64(w, i->args[n + 1])[31] : emu_u32(w, i->args[n + 1])[31];
    write_element(memory + n * i->bytes, i->bytes, value);
  }
}

/* --- handlers; see emu_exec_load and emu_exec_store for the operands --- */

static const emu_inst_t *rows_load(emu_warp_t *w, const emu_inst_t *i) {
  emu_row_t row;
  if (!find_row(w, i, i->args[i->vector], EMU_ACCESS_READ, &row)) return emu_exec_load(w, i);
  if (row.pattern == EMU_PATTERN_ROW)
    load_row(w, i, row.memory);
  else
    load_same(w, i, row.memory);
  return i + 1;
}

static const emu_inst_t *rows_store(emu_warp_t *w, const emu_inst_t *i) {
  emu_row_t row;
  if (!find_row(w, i, i->args[0], EMU_ACCESS_WRITE, &row)) return emu_exec_store(w, i);
  if (row.pattern == EMU_PATTERN_ROW)
    store_row(w, i, row.memory);
  else
    store_same(w, i, row.memory);
  return i + 1;
}

/* A matrix product's inner loops: see exec_tensor.c. Four rows at a time keep the adders busy. */
typedef double row_of_sums __attribute__((vector_size(64), aligned(8)));
static void tensor_rows(const double *a, uint32_t stride, const double (*b)[8], uint32_t depth,
                        double (*sum)[8]) {
  row_of_sums *out = (row_of_sums *)sum, s0 = out[0], s1 = out[1], s2 = out[2], s3 = out[3];
  for (uint32_t k = 0; k < depth; k++) {
    const row_of_sums column = *(const row_of_sums *)b[k];
    s0 += column * a[k];
    s1 += column * a[k + stride];
    s2 += column * a[k + 2 * stride];
    s3 += column * a[k + 3 * stride];
  }
  out[0] = s0, out[1] = s1, out[2] = s2, out[3] = s3;
}

/* The addresses of a request and what they have in common. Lanes that are off get the first active lane's
 * address, so that no later step looks at the mask. */
static void survey(emu_warp_t *w, const emu_inst_t *i, uint32_t operand, emu_request_t *r) {
  uint32_t mask = w->mask, first = (uint32_t)__builtin_ctz(mask), each = (uint32_t)i->bytes * i->vector;
  const uint64_t *wide = emu_u64(w, operand);
  const uint32_t *narrow = emu_u32(w, operand);
  uint64_t *addresses = r->addresses;
  if (i->width == 8) EACH_LANE {
      addresses[l] = wide[l] + (uint64_t)i->offset;
    }
  else
    EACH_LANE { addresses[l] = (uint32_t)(narrow[l] + (uint32_t)i->offset); }
  uint64_t of_first = addresses[first];
  if (mask != ~0u) EACH_LANE {
      addresses[l] = mask >> l & 1 ? addresses[l] : of_first;
    }
  int64_t low = (int64_t)of_first, high = low; /* no valid address is negative */
  uint64_t bits = 0;
  EACH_LANE {
    int64_t address = (int64_t)addresses[l];
    low = address < low ? address : low;
    high = address > high ? address : high;
    bits |= addresses[l];
  }
  r->low = (uint64_t)low;
  r->high = (uint64_t)high;
  r->bits = bits;
  r->pattern = mask == ~0u ? pattern_of_wide(addresses, each) : EMU_PATTERN_ANY;
}
