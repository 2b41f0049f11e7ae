/* tests/support/cache_fixture.c: see cache_fixture.h. */
#include "tests/support/cache_fixture.h"
#include "base/clock.h"
#include "tests/support/folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

kiln_disk_cache_t *cache_fixture_open(cache_fixture_t *fixture, uint64_t limit_bytes) {
  kiln_disk_cache_options_t options = {fixture->folder, limit_bytes, &fixture->faults, &fixture->log};
  kiln_disk_cache_t *cache = NULL;
  assert_null(kiln_disk_cache_open(&options, &cache));
  return cache;
}

int cache_fixture_set_up(void **state) {
  cache_fixture_t *fixture = calloc(1, sizeof *fixture);
  int ends[2];
  if (!fixture || pipe2(ends, O_NONBLOCK | O_CLOEXEC)) return -1;
  fixture->folder = kiln_test_folder_create();
  fixture->warnings = ends[0];
  fixture->log = (kiln_log_t){ends[1], KILN_LOG_WARNING, false, "test"};
  fixture->cache = cache_fixture_open(fixture, 0);
  *state = fixture;
  return 0;
}

int cache_fixture_tear_down(void **state) {
  cache_fixture_t *fixture = *state;
  kiln_disk_cache_close(fixture->cache);
  close(fixture->warnings);
  close(fixture->log.descriptor);
  kiln_test_folder_remove(fixture->folder);
  free(fixture);
  return 0;
}

int cache_fixture_warnings(const cache_fixture_t *fixture) {
  int lines = 0;
  char text[4096];
  ssize_t got;
  while ((got = read(fixture->warnings, text, sizeof text)) > 0) {
    for (ssize_t i = 0; i < got; i++) lines += text[i] == '\n';
  }
  return lines;
}

cache_sample_t cache_sample(int number) {
  cache_sample_t sample = {.content_bytes = 40 + (size_t)(number * 37 % 5900)};
  snprintf(sample.full_key, sizeof sample.full_key, "full key of %d", number);
  sample.key = kiln_sha256(sample.full_key, strlen(sample.full_key));
  for (size_t i = 0; i < sample.content_bytes; i++) sample.content[i] = (char)(number + (int)i);
  return sample;
}

bool cache_sample_put(kiln_disk_cache_t *cache, int number) {
  cache_sample_t s = cache_sample(number);
  return kiln_disk_cache_put(cache, &s.key, s.full_key, strlen(s.full_key), s.content, s.content_bytes);
}

int cache_sample_look(kiln_disk_cache_t *cache, int number) {
  cache_sample_t s = cache_sample(number);
  kiln_buffer_t out;
  kiln_buffer_init(&out);
  int result = 0;
  if (kiln_disk_cache_get(cache, &s.key, s.full_key, strlen(s.full_key), &out)) {
    result = out.size == s.content_bytes && !memcmp(out.data, s.content, out.size) ? 1 : -1;
  }
  kiln_buffer_deinit(&out);
  return result;
}

char *cache_sample_path(const cache_fixture_t *fixture, int number) {
  cache_sample_t s = cache_sample(number);
  char hex[65], *path = NULL;
  kiln_digest_hex(&s.key, hex);
  assert_true(asprintf(&path, "%s/v1/%.2s/%s", fixture->folder, hex, hex) > 0);
  return path;
}

void cache_sample_set_age(const char *path, int64_t age_s) {
  int64_t then = (int64_t)(kiln_clock_wall_ms() / 1000) - age_s;
  const struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}
