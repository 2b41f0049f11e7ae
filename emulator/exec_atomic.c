/* emulator/exec_atomic.c: atom and red: one compare-and-swap loop per lane, whatever the operation and the
 * type.
 *
 * The lanes of a warp go in order, blocks on other threads in between. Atomic addition of f32 in global
 * memory flushes denormals, as GPUs do; all others keep them. See ops.h for who calls these.
 */
#include "emulator/exec_memory.h"
#include "emulator/lane_math.h"
#include "emulator/ops.h"

static uint64_t load_atomic(const unsigned char *p, uint32_t bytes) {
  return bytes == 8   ? __atomic_load_n((const uint64_t *)p, __ATOMIC_SEQ_CST)
         : bytes == 4 ? __atomic_load_n((const uint32_t *)p, __ATOMIC_SEQ_CST)
                      : __atomic_load_n((const uint16_t *)p, __ATOMIC_SEQ_CST);
}

/* Stores `desired` when *p is still *expected; otherwise *expected becomes what it is. */
static bool swap_atomic(unsigned char *p, uint32_t bytes, uint64_t *expected, uint64_t desired) {
  uint32_t word = (uint32_t)*expected;
  uint16_t half = (uint16_t)*expected;
  bool done;
  if (bytes == 8)
    return __atomic_compare_exchange_n((uint64_t *)p, expected, desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
  if (bytes == 4) {
    done = __atomic_compare_exchange_n((uint32_t *)p, &word, (uint32_t)desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
    *expected = word;
  } else {
    done = __atomic_compare_exchange_n((uint16_t *)p, &half, (uint16_t)desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
    *expected = half;
  }
  return done;
}

static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static uint32_t half_result(emu_atomic_op_t op, emu_atomic_type_t type, uint32_t old, uint32_t b) {
  bool is_bf16 = type == EMU_ATOMIC_BF16 || type == EMU_ATOMIC_BF16X2;
  float x = is_bf16 ? f32_of_bits(old << 16) : f32_of_f16(old),
        y = is_bf16 ? f32_of_bits(b << 16) : f32_of_f16(b);
  float r = op == EMU_ATOMIC_ADD ? x + y : op == EMU_ATOMIC_MIN ? minimum_f32(x, y) : maximum_f32(x, y);
  return is_bf16 ? bf16_of_f32(r) : f16_of_f32(r);
}

static uint64_t float_result(const emu_inst_t *i, uint64_t old, uint64_t b, bool global) {
  emu_atomic_op_t op = (emu_atomic_op_t)i->kind;
  emu_atomic_type_t type = (emu_atomic_type_t)i->mode;
  if (type == EMU_ATOMIC_F64) return bits_of_f64(f64_of_bits(old) + f64_of_bits(b));
  if (type == EMU_ATOMIC_F32) {
    float x = f32_of_bits((uint32_t)old), y = f32_of_bits((uint32_t)b);
    return canonical_f32(global ? flushed(flushed(x) + flushed(y)) : x + y);
  }
  uint32_t low = half_result(op, type, (uint32_t)old & 0xffff, (uint32_t)b & 0xffff);
  if (type == EMU_ATOMIC_F16 || type == EMU_ATOMIC_BF16) return low;
  return low | half_result(op, type, (uint32_t)old >> 16, (uint32_t)(b >> 16) & 0xffff) << 16;
}

static uint64_t integer_result(const emu_inst_t *i, uint64_t old, uint64_t b, uint64_t c) {
  uint64_t flip = i->is_signed ? 1ull << (8 * i->bytes - 1) : 0;
  switch ((emu_atomic_op_t)i->kind) {
  case EMU_ATOMIC_ADD:
    return old + b;
  case EMU_ATOMIC_MIN:
    return (b ^ flip) < (old ^ flip) ? b : old;
  case EMU_ATOMIC_MAX:
    return (b ^ flip) > (old ^ flip) ? b : old;
  case EMU_ATOMIC_AND:
    return old & b;
  case EMU_ATOMIC_OR:
    return old | b;
  case EMU_ATOMIC_XOR:
    return old ^ b;
  case EMU_ATOMIC_EXCHANGE:
    return b;
  case EMU_ATOMIC_CAS:
    return old == b ? c : old;
  case EMU_ATOMIC_INC:
    return old >= b ? 0 : old + 1;
  case EMU_ATOMIC_DEC:
    return old == 0 || old > b ? b : old - 1;
  }
  return old;
}

uint64_t emu_atomic_update(unsigned char *p, const emu_inst_t *i, uint64_t b, uint64_t c, bool global) {
  uint64_t old = load_atomic(p, i->bytes), desired;
  do desired = i->mode == EMU_ATOMIC_INTEGER ? integer_result(i, old, b, c) : float_result(i, old, b, global);
  while (!swap_atomic(p, i->bytes, &old, desired));
  return old;
}

static uint64_t operand(emu_warp_t *w, const emu_inst_t *i, uint32_t offset, uint32_t lane) {
  if (i->bytes == 8) return emu_u64(w, offset)[lane];
  uint32_t value = emu_u32(w, offset)[lane];
  return i->bytes == 2 ? value & 0xffff : value;
}

static bool begin(emu_warp_t *w, const emu_inst_t *i, uint32_t address, bool has_result, emu_request_t *r) {
  if (has_result) atomic_store_explicit(&w->block->launch->waits, true, memory_order_relaxed);
  if (!emu_request(w, i, address, EMU_ACCESS_ATOMIC, r)) return false;
  w->worker->counters.atomics++;
  return true;
}

/* arg: old value or 0, address, b, c. kind: the operation, mode: the type, width: of the address. */
const emu_inst_t *emu_exec_atomic(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  if (!begin(w, i, i->arg[1], i->arg[0] != 0, &r)) return NULL;
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t b = operand(w, i, i->arg[2], lane), c = i->arg[3] ? operand(w, i, i->arg[3], lane) : 0;
    uint64_t old = emu_atomic_update(r.pointers[lane], i, b, c, r.space == EMU_SPACE_GLOBAL);
    if (!i->arg[0]) continue;
    if (i->bytes == 8)
      emu_u64(w, i->arg[0])[lane] = old;
    else
      emu_u32(w, i->arg[0])[lane] = (uint32_t)old;
  }
  return i + 1;
}

/* args: old values (where arg_count is 1), address, values. Each element is atomic by itself. */
const emu_inst_t *emu_exec_atomic_vector(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  uint32_t count = i->vector;
  if (!begin(w, i, i->args[count], i->arg_count != 0, &r)) return NULL;
  EMU_EACH_LANE(lane, w->mask) {
    for (uint32_t n = 0; n < count; n++) {
      uint64_t b = operand(w, i, i->args[count + 1 + n], lane);
      uint64_t old = emu_atomic_update(r.pointers[lane] + n * i->bytes, i, b, 0, r.space == EMU_SPACE_GLOBAL);
      if (i->arg_count) emu_u32(w, i->args[n])[lane] = (uint32_t)old;
    }
  }
  return i + 1;
}

/* arg: old value or 0, address, b, c, each 128 bits. Compilers have no portable operation of that width, so
 * these exclude each other by a lock. */
const emu_inst_t *emu_exec_atomic_wide(emu_warp_t *w, const emu_inst_t *i) {
  emu_request_t r;
  pthread_mutex_t *lock = &w->block->launch->memory->lock;
  if (!begin(w, i, i->arg[1], i->arg[0] != 0, &r)) return NULL;
  EMU_EACH_LANE(lane, w->mask) {
    uint64_t *p = (uint64_t *)(void *)r.pointers[lane], old[2], wanted[2] = {0};
    pthread_mutex_lock(lock);
    for (uint32_t half = 0; half < 2; half++) {
      old[half] = __atomic_load_n(&p[half], __ATOMIC_RELAXED);
      if (i->arg[3]) wanted[half] = emu_u64(w, i->arg[2] + half * EMU_WIDE_HALF)[lane];
    }
    bool stores = !i->arg[3] || (old[0] == wanted[0] && old[1] == wanted[1]);
    uint32_t value = i->arg[3] ? i->arg[3] : i->arg[2];
    for (uint32_t half = 0; half < 2 && stores; half++)
      __atomic_store_n(&p[half], emu_u64(w, value + half * EMU_WIDE_HALF)[lane], __ATOMIC_RELAXED);
    pthread_mutex_unlock(lock);
    for (uint32_t half = 0; half < 2 && i->arg[0]; half++)
      emu_u64(w, i->arg[0] + half * EMU_WIDE_HALF)[lane] = old[half];
  }
  return i + 1;
}
