/* tests/support/cache_fixture.h: a disk cache on a folder of its own, with its warnings in a pipe, and
 * entries to put in it. */
#ifndef KILN_TESTS_SUPPORT_CACHE_FIXTURE_H
#define KILN_TESTS_SUPPORT_CACHE_FIXTURE_H

#include "runtime/cache.h"

typedef struct {
  char *folder;
  int warnings; /* end of the pipe to read */
  kiln_log_t log;
  kiln_faults_t faults;
  kiln_disk_cache_t *cache;
} cache_fixture_t;

int cache_fixture_set_up(void **state);
int cache_fixture_tear_down(void **state);
/* Another cache on the same folder, as another daemon would open it. */
kiln_disk_cache_t *cache_fixture_open(cache_fixture_t *fixture, uint64_t limit_bytes);
/* Warnings since the last call. */
int cache_fixture_warnings(const cache_fixture_t *fixture);

/* Entry `number`: its key, its full key and a content that follow from the number. */
typedef struct {
  kiln_digest_t key;
  char full_key[32];
  char content[6000];
  size_t content_bytes;
} cache_sample_t;

cache_sample_t cache_sample(int number);
bool cache_sample_put(kiln_disk_cache_t *cache, int number);
/* 1: there, with the right content; 0: not there; -1: there and wrong. */
int cache_sample_look(kiln_disk_cache_t *cache, int number);
/* Where its file is, on the heap. */
char *cache_sample_path(const cache_fixture_t *fixture, int number);
/* Makes a file look as if it was last used so long ago. */
void cache_sample_set_age(const char *path, int64_t age_s);

#endif
