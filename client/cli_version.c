/* client/cli_version.c: what this build is: `kiln --version`. */
#include "client/cli.h"

#include "kiln_fingerprint.h"
#include "runtime/compile.h"
#include <string.h>

/* The compiler's identity starts with its version, the first line. */
static void print_compiler(FILE *out) {
  kiln_compiler_t *compiler = NULL;
  kiln_status_t status = kiln_compiler_create(NULL, &compiler);
  if (status) {
    fprintf(out, "compiler     none: %s\n", kiln_status_message(status));
  } else {
    const char *identity = kiln_compiler_identity(compiler);
    fprintf(out, "compiler     %.*s (%s)\n", (int)strcspn(identity, "\n;"), identity,
            kiln_compiler_library(compiler));
  }
  kiln_status_free(status);
  kiln_compiler_destroy(compiler);
}

void kiln_cli_version(FILE *out) {
  fprintf(out, "kiln         %s\nfingerprint  %s\n", KILN_VERSION, KILN_FINGERPRINT);
  print_compiler(out);
}
