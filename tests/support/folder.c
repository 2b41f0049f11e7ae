/* tests/support/folder.c: temporary folders; see folder.h. */
#include "tests/support/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *kiln_test_folder_create(void) {
  const char *parent = getenv("TMPDIR");
  char *folder = NULL;
  if (asprintf(&folder, "%s/kiln-test-XXXXXX", parent ? parent : "/tmp") < 0 || !mkdtemp(folder)) {
    perror("mkdtemp");
    exit(1);
  }
  return folder;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place) {
  (void)status, (void)type, (void)place;
  return remove(path);
}

void kiln_test_folder_remove(char *folder) {
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  free(folder);
}
