/* tests/support/folder.h: a temporary folder for one test, removed with all that is in it. */
#ifndef KILN_TESTS_SUPPORT_FOLDER_H
#define KILN_TESTS_SUPPORT_FOLDER_H

/* A new folder, 0700, on the heap; fails the process when there cannot be one. */
char *kiln_test_folder_create(void);
/* Removes it and frees the name. */
void kiln_test_folder_remove(char *folder);

#endif
