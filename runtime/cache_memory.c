/* runtime/cache_memory.c: the memory tier: entries by key, the least recently used evicted by bytes.
 *
 * The first place where the server looks a request's key up; belongs to its loop thread (see cache.h). A map
 * finds a slot, a list through the slots keeps the order of use. A slot owns its copy of the full key and the
 * cache's hold on the entry.
 */
#include "base/map.h"
#include "runtime/cache.h"

#include <stdlib.h>
#include <string.h>

typedef struct slot {
  struct slot *newer, *older;
  kiln_digest_t key;
  void *entry;
  uint64_t bytes; /* of the entry, the full key and the slot */
  void *full_key; /* behind the slot */
  size_t full_key_bytes;
} slot_t;

struct kiln_memory_cache {
  kiln_map_t *slots; /* key -> slot_t * */
  slot_t ends;       /* ends.older is the newest, ends.newer the oldest */
  uint64_t bytes, limit_bytes;
  void (*destroy)(void *entry);
};

kiln_memory_cache_t *kiln_memory_cache_create(uint64_t limit_bytes, void (*destroy)(void *entry)) {
  kiln_memory_cache_t *cache = calloc(1, sizeof *cache);
  kiln_map_t *slots = cache ? kiln_map_create(NULL) : NULL;
  if (!slots) {
    free(cache);
    return NULL;
  }
  cache->slots = slots;
  cache->ends.newer = cache->ends.older = &cache->ends;
  cache->limit_bytes = limit_bytes;
  cache->destroy = destroy;
  return cache;
}

static void unlink_slot(slot_t *slot) {
  slot->newer->older = slot->older;
  slot->older->newer = slot->newer;
}

static void link_as_newest(kiln_memory_cache_t *cache, slot_t *slot) {
  slot->newer = &cache->ends;
  slot->older = cache->ends.older;
  slot->older->newer = slot;
  cache->ends.older = slot;
}

static void drop(kiln_memory_cache_t *cache, slot_t *slot) {
  kiln_map_remove(cache->slots, &slot->key, sizeof slot->key);
  unlink_slot(slot);
  cache->bytes -= slot->bytes;
  cache->destroy(slot->entry);
  free(slot);
}

void kiln_memory_cache_destroy(kiln_memory_cache_t *cache) {
  if (!cache) return;
  while (cache->ends.newer != &cache->ends) drop(cache, cache->ends.newer);
  kiln_map_destroy(cache->slots);
  free(cache);
}

static slot_t *find(const kiln_memory_cache_t *cache, const kiln_digest_t *key) {
  const uint64_t *place = kiln_map_find(cache->slots, key, sizeof *key);
  return place ? (slot_t *)(uintptr_t)*place : NULL;
}

void *kiln_memory_cache_get(kiln_memory_cache_t *cache, const kiln_digest_t *key, const void *full_key,
                            size_t full_key_bytes) {
  slot_t *slot = find(cache, key);
  if (!slot || slot->full_key_bytes != full_key_bytes) return NULL;
  if (full_key_bytes && memcmp(slot->full_key, full_key, full_key_bytes) != 0) return NULL;
  unlink_slot(slot);
  link_as_newest(cache, slot);
  return slot->entry;
}

kiln_status_t kiln_memory_cache_put(kiln_memory_cache_t *cache, const kiln_digest_t *key,
                                    const void *full_key, size_t full_key_bytes, void *entry,
                                    uint64_t entry_bytes) {
  kiln_memory_cache_evict(cache, key);
  slot_t *slot = malloc(sizeof *slot + full_key_bytes);
  uint64_t *place = slot ? kiln_map_put(cache->slots, key, sizeof *key, NULL) : NULL;
  if (!place) {
    free(slot);
    return kiln_error_detail(kiln_error(KILN_OUT_OF_MEMORY, "out of memory in the memory cache"), "where",
                             "host");
  }
  *place = (uintptr_t)slot;
  *slot = (slot_t){.key = *key, .entry = entry, .full_key = slot + 1, .full_key_bytes = full_key_bytes};
  slot->bytes = entry_bytes + sizeof *slot + full_key_bytes;
  if (full_key_bytes) memcpy(slot->full_key, full_key, full_key_bytes);
  cache->bytes += slot->bytes;
  link_as_newest(cache, slot);
  while (cache->bytes > cache->limit_bytes && cache->ends.newer != slot) drop(cache, cache->ends.newer);
  return NULL;
}

void kiln_memory_cache_evict(kiln_memory_cache_t *cache, const kiln_digest_t *key) {
  slot_t *slot = find(cache, key);
  if (slot) drop(cache, slot);
}

uint64_t kiln_memory_cache_bytes(const kiln_memory_cache_t *cache) { return cache->bytes; }
size_t kiln_memory_cache_count(const kiln_memory_cache_t *cache) { return kiln_map_count(cache->slots); }
