/* base/map.c: byte strings to 64-bit values: uthash's table under a keyed hash of our own.
 *
 * uthash's macros name their memory functions; here those see the local `map` of the function that uses the
 * macro, and take memory from its arena or the heap. The hash is SipHash-1-3 (J.-P. Aumasson and D. J.
 * Bernstein, "SipHash: a fast short-input PRF", 2012, with the round counts that Rust's and Python's tables
 * use), keyed by the 16 random bytes that the kernel hands every process (AT_RANDOM), so no global holds a
 * key.
 */
#include "base/map.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) map_alloc(map, (size))
#define uthash_free(memory, size) map_free(map, (memory))
#include <uthash.h>

struct kiln_map_entry {
  UT_hash_handle hh;
  uint64_t value;
  char key[];
};

struct kiln_map {
  kiln_arena_t *arena; /* NULL: the heap */
  kiln_map_entry_t *entries;
  uint64_t seed[2];
};

static void *map_alloc(const kiln_map_t *map, size_t size) {
  return map->arena ? kiln_arena_alloc(map->arena, size) : malloc(size);
}

static void map_free(const kiln_map_t *map, void *memory) {
  if (!map->arena) free(memory);
}

/* --- SipHash-1-3 ---------------------------------------------------------------------------------------- */

static uint64_t rotate_left(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[1] = rotate_left(v[1], 13) ^ v[0];
  v[0] = rotate_left(v[0], 32);
  v[2] += v[3];
  v[3] = rotate_left(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = rotate_left(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = rotate_left(v[1], 17) ^ v[2];
  v[2] = rotate_left(v[2], 32);
}

static void sip_absorb(uint64_t v[4], uint64_t word) {
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
}

static uint64_t siphash(const uint64_t seed[2], const void *data, size_t size) {
  uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575, seed[1] ^ 0x646f72616e646f6d, seed[0] ^ 0x6c7967656e657261,
                   seed[1] ^ 0x7465646279746573};
  const unsigned char *bytes = data;
  size_t whole = size & ~(size_t)7;
  uint64_t word;
  for (size_t i = 0; i < whole; i += 8) {
    memcpy(&word, bytes + i, 8);
    sip_absorb(v, word);
  }
  word = 0;
  if (size > whole) memcpy(&word, bytes + whole, size - whole);
  sip_absorb(v, word | (uint64_t)size << 56);
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static unsigned hash_key(const kiln_map_t *map, const void *key, size_t key_size) {
  assert(key_size <= UINT_MAX); /* the width of uthash's key length */
  return (unsigned)siphash(map->seed, key, key_size);
}

/* --- the map -------------------------------------------------------------------------------------------- */

kiln_map_t *kiln_map_create(kiln_arena_t *arena) {
  kiln_map_t *map = arena ? KILN_NEW(arena, kiln_map_t) : calloc(1, sizeof *map);
  if (!map) return NULL;
  map->arena = arena;
  const void *random = (const void *)getauxval(AT_RANDOM);
  if (random) memcpy(map->seed, random, sizeof map->seed);
  return map;
}

void kiln_map_destroy(kiln_map_t *map) {
  if (!map) return;
  assert(!map->arena);
  for (kiln_map_entry_t *entry = map->entries, *next; entry; entry = next) {
    next = kiln_map_next(entry);
    HASH_DELETE(hh, map->entries, entry);
    free(entry);
  }
  free(map);
}

static kiln_map_entry_t *find(const kiln_map_t *map, const void *key, size_t key_size, unsigned hash) {
  kiln_map_entry_t *entry = NULL;
  HASH_FIND_BYHASHVALUE(hh, map->entries, key, (unsigned)key_size, hash, entry);
  return entry;
}

static kiln_map_entry_t *add(kiln_map_t *map, const void *key, size_t key_size, unsigned hash) {
  kiln_map_entry_t *entry = map_alloc(map, sizeof *entry + key_size);
  if (!entry) return NULL;
  memset(entry, 0, sizeof *entry);
  if (key_size) memcpy(entry->key, key, key_size);
  HASH_ADD_KEYPTR_BYHASHVALUE(hh, map->entries, entry->key, key_size, hash, entry);
  if (entry->hh.tbl) return entry;
  map_free(map, entry); /* uthash found no memory for its table */
  return NULL;
}

uint64_t *kiln_map_find(const kiln_map_t *map, const void *key, size_t key_size) {
  kiln_map_entry_t *entry = find(map, key, key_size, hash_key(map, key, key_size));
  return entry ? &entry->value : NULL;
}

uint64_t *kiln_map_put(kiln_map_t *map, const void *key, size_t key_size, bool *out_added) {
  unsigned hash = hash_key(map, key, key_size);
  kiln_map_entry_t *entry = find(map, key, key_size, hash);
  bool added = !entry;
  if (added) entry = add(map, key, key_size, hash);
  if (out_added) *out_added = added && entry;
  return entry ? &entry->value : NULL;
}

bool kiln_map_remove(kiln_map_t *map, const void *key, size_t key_size) {
  kiln_map_entry_t *entry = find(map, key, key_size, hash_key(map, key, key_size));
  if (!entry) return false;
  HASH_DELETE(hh, map->entries, entry);
  map_free(map, entry);
  return true;
}

size_t kiln_map_count(const kiln_map_t *map) { return HASH_COUNT(map->entries); }

kiln_map_entry_t *kiln_map_first(const kiln_map_t *map) { return map->entries; }

kiln_map_entry_t *kiln_map_next(const kiln_map_entry_t *entry) { return entry->hh.next; }

const void *kiln_map_key(const kiln_map_entry_t *entry, size_t *out_size) {
  if (out_size) *out_size = entry->hh.keylen;
  return entry->key;
}

uint64_t *kiln_map_value(kiln_map_entry_t *entry) { return &entry->value; }
