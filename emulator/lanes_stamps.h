/* emulator/lanes_stamps.h: the race checkers' comparisons of vectors of stamps, for one instruction set.
 *
 * Each looks whether accesses that may conflict with the one that happens now are among the stamps of its
 * bytes (shared memory, shadow.h) or words (global memory, memory.h) and, when none is, leaves its own stamp.
 * They may call a stamp suspicious that is none on a second look, never the other way round. Included by
 * lanes_loops.h; called by shadow.c and checks.c, on any worker's thread.
 */
#include "emulator/shadow.h"

#define STAMPS INDEPENDENT for (uint32_t n = 0; n < count; n++)

/* --- shared memory: one warp now, the others before --- */

/* Not 0 when the stamp is another warp's and not older than `bound`. Stamps are below 2^31. */
static inline uint32_t is_suspicious(uint32_t stamp, uint32_t now, uint32_t bound) {
  uint32_t foreign = ((stamp ^ now) & EMU_STAMP_WARP) ? ~0u : 0,
           recent = (int32_t)stamp >= (int32_t)bound ? ~0u : 0;
  return foreign & recent;
}

static inline __attribute__((always_inline)) bool read_bytes(const emu_stamps_t *stamps, uint32_t offset,
                                                             uint32_t count, uint32_t now, uint32_t bound) {
  const uint32_t *restrict written = stamps->written + offset;
  uint32_t *restrict last = stamps->read[0] + offset, *restrict other = stamps->read[1] + offset;
  uint32_t suspicious = 0;
  STAMPS suspicious |= is_suspicious(written[n], now, bound);
  if (suspicious) return false;
  STAMPS {
    uint32_t before = last[n];
    other[n] = (before ^ now) & EMU_STAMP_WARP ? before : other[n];
    last[n] = now;
  }
  return true;
}

static inline __attribute__((always_inline)) bool write_bytes(const emu_stamps_t *stamps, uint32_t offset,
                                                              uint32_t count, uint32_t now, uint32_t bound) {
  uint32_t *restrict written = stamps->written + offset;
  const uint32_t *restrict last = stamps->read[0] + offset, *restrict other = stamps->read[1] + offset;
  uint32_t suspicious = 0;
  STAMPS suspicious |= is_suspicious(written[n], now, bound) | is_suspicious(last[n], now, bound) |
                       is_suspicious(other[n], now, bound);
  if (suspicious) return false;
  STAMPS written[n] = now;
  return true;
}

/* Gives the lanes with suspicious bytes. Counts of bytes that are usual are known to the compiler. */
#define EACH_ACCESS(name, one)                                                                               \
  static uint32_t name(const emu_stamps_t *stamps, uint32_t lanes, const uint32_t *offsets, uint32_t bytes,  \
                       uint32_t now, uint32_t bound) {                                                       \
    uint32_t left = 0;                                                                                       \
    if (bytes == 4)                                                                                          \
      EMU_EACH_LANE(lane, lanes) left |= (uint32_t)!one(stamps, offsets[lane], 4, now, bound) << lane;       \
    else if (bytes == 16)                                                                                    \
      EMU_EACH_LANE(lane, lanes) left |= (uint32_t)!one(stamps, offsets[lane], 16, now, bound) << lane;      \
    else                                                                                                     \
      EMU_EACH_LANE(lane, lanes) left |= (uint32_t)!one(stamps, offsets[lane], bytes, now, bound) << lane;   \
    return left;                                                                                             \
  }
EACH_ACCESS(warp_reads, read_bytes)
EACH_ACCESS(warp_writes, write_bytes)
#undef EACH_ACCESS

/* --- global memory: one block now, the others before; whole words only --- */

static inline uint32_t is_other_block(uint32_t stamp, uint32_t now) {
  uint32_t apart = stamp ^ now;
  return !(apart & EMU_BLOCK_STAMP_LAUNCH) && apart & EMU_BLOCK_STAMP_BLOCK ? ~0u : 0;
}

/* Other blocks' workers may change the stamps meanwhile: aligned words of vectors are whole on every CPU, and
 * which of two blocks comes first is open anyway. So they need not be atomic one by one. */
#define UNORDERED __attribute__((no_sanitize("thread")))

UNORDERED static bool block_reads(const uint32_t *restrict written, uint32_t *restrict read, uint32_t count,
                                  uint32_t now) {
  uint32_t conflicts = 0;
  STAMPS conflicts |= is_other_block(written[n], now);
  if (conflicts) return false;
  STAMPS read[n] = is_other_block(read[n], now) ? now | EMU_BLOCK_STAMP_BLOCK : now;
  return true;
}

UNORDERED static bool block_writes(uint32_t *restrict written, const uint32_t *restrict read, uint32_t count,
                                   uint32_t now) {
  uint32_t conflicts = 0;
  STAMPS conflicts |= is_other_block(written[n], now) | is_other_block(read[n], now);
  if (conflicts) return false;
  STAMPS written[n] = now;
  return true;
}
#undef STAMPS
#undef UNORDERED
