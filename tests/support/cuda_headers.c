/* tests/support/cuda_headers.c: see cuda_headers.h.
 *
 * Declarations are found by the macros that CUDA's headers put before every function (names that end in
 * DECL__, or __device_builtin__): from there to the "(" are the result's type and the name, up to the ")" the
 * parameters.
 */
#include "tests/support/cuda_headers.h"

#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- folders --- */

enum { MOST_FOLDERS = 16 };

typedef struct {
  char options[MOST_FOLDERS][512]; /* "-I..." */
  const char *list[MOST_FOLDERS + 1];
  size_t count;
} folders_t;

static void add_folders(folders_t *f, const char *pattern) {
  glob_t found;
  if (glob(pattern, 0, NULL, &found) != 0) return;
  for (size_t n = 0; n < found.gl_pathc && f->count < MOST_FOLDERS; n++) {
    snprintf(f->options[f->count], sizeof f->options[0], "-I%s", found.gl_pathv[n]);
    f->list[f->count] = f->options[f->count];
    f->count++;
  }
  globfree(&found);
}

static char *read_from(const folders_t *f, const char *name) {
  char path[1024], *text = NULL;
  FILE *file = NULL;
  for (size_t n = 0; n < f->count && !file; n++) {
    snprintf(path, sizeof path, "%s/%s", f->options[n] + 2, name);
    file = fopen(path, "r");
  }
  if (!file) return NULL;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  if (size >= 0 && (text = malloc((size_t)size + 1))) text[fread(text, 1, (size_t)size, file)] = 0;
  fclose(file);
  return text;
}

static const folders_t *find_folders(void) {
  static const char *const sources[][2] = {{"/usr/local/cuda/include", "/usr/local/cuda/include/cccl"},
                                           {"/opt/cuda/include", "/opt/cuda/include/cccl"},
                                           {"/usr/include", "/usr/include/cccl"},
                                           {KILN_SOURCE_DIR "/build/nvrtc/packages/nvidia/*/include",
                                            KILN_SOURCE_DIR "/build/nvrtc/packages/nvidia/*/include/cccl"}};
  static folders_t folders;
  for (size_t n = 0; !folders.count && n < sizeof sources / sizeof sources[0]; n++) {
    add_folders(&folders, sources[n][0]);
    add_folders(&folders, sources[n][1]);
    char *half = read_from(&folders, "cuda_fp16.h");
    if (!half) folders.count = 0;
    free(half);
  }
  folders.list[folders.count] = NULL;
  return &folders;
}

const char *const *test_cuda_include_options(void) {
  const folders_t *folders = find_folders();
  return folders->count ? folders->list : NULL;
}

char *test_cuda_header(const char *name) { return read_from(find_folders(), name); }

/* --- declarations --- */

/* Comments and preprocessor lines become spaces. */
static void blank_out(char *text) {
  bool line_start = true;
  for (char *at = text; *at; at++) {
    char *end = NULL;
    if (at[0] == '/' && at[1] == '*') end = strstr(at, "*/") ? strstr(at, "*/") + 2 : at + strlen(at);
    if (at[0] == '/' && at[1] == '/') end = at + strcspn(at, "\n");
    if (at[0] == '#' && line_start) {
      end = at + strcspn(at, "\n");
      while (*end && end[-1] == '\\') end += 1 + strcspn(end + 1, "\n");
    }
    if (*at == '\n') line_start = true;
    if (!isspace((unsigned char)*at)) line_start = false;
    if (!end) continue;
    while (at < end) *at++ = ' ';
    at--;
  }
}

static size_t word_length(const char *at) {
  size_t n = 0;
  while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
  return n;
}

static bool is_marker(const char *word, size_t length) {
  static const char *const names[] = {"__device_builtin__", "__cudart_builtin__"};
  if (length > 8 && word[0] == '_' && memcmp(word + length - 6, "DECL__", 6) == 0) return true;
  for (size_t n = 0; n < 2; n++)
    if (strlen(names[n]) == length && memcmp(names[n], word, length) == 0) return true;
  return false;
}

static bool is_noise(const char *word, size_t length) {
  static const char *const names[] = {
      "static", "inline", "extern", "__cdecl", "__device__", "__host__", "__CUDA_MATH_CRTIMP"};
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
    if (strlen(names[n]) == length && memcmp(names[n], word, length) == 0) return true;
  return is_marker(word, length);
}

/* "  const T *  name" without what is no part of a type, one space between words. */
static char *tidy(const char *from, const char *end) {
  char *text = calloc(1, (size_t)(end - from) + 2);
  size_t length = 0;
  while (text && from < end) {
    size_t word = word_length(from), take = word ? word : 1;
    if (word ? !is_noise(from, word) : !isspace((unsigned char)*from)) {
      bool spaced = length && word &&
                    (isalnum((unsigned char)text[length - 1]) || text[length - 1] == '_' ||
                     text[length - 1] == '*' || text[length - 1] == ',');
      if (spaced) text[length++] = ' ';
      memcpy(text + length, from, take);
      length += take;
    }
    from += take;
  }
  return text;
}

/* What may stand between the parameters and the ";" or "{". */
static bool ends_well(const char *at) {
  for (;;) {
    at += strspn(at, " \t\r\n");
    size_t word = word_length(at);
    if (!word || at[0] != '_') return *at == ';' || *at == '{' || !*at;
    if (strncmp(at, "__DEF", 5) == 0) return true;
    at += word;
  }
}

/* Behind a marker: fills in the function; false when it is none. */
static bool parse_function(const char *from, test_cuda_function_t *f) {
  const char *open = from + strcspn(from, ";{}(");
  const char *close = *open == '(' ? open + 1 + strcspn(open + 1, "(){};") : open;
  if (*open != '(' || *close != ')' || !ends_well(close + 1)) return false;
  char *head = tidy(from, open), *parameters = tidy(open + 1, close);
  size_t length = head ? strlen(head) : 0, start = length;
  while (start && word_length(head + start - 1)) start--;
  bool fine = parameters && start && start < length && !strstr(head, "operator") && !strchr(head, '=');
  if (fine) {
    f->name = strdup(head + start);
    f->parameters = parameters;
    head[start] = 0;
    f->result = head;
    return true;
  }
  free(head);
  free(parameters);
  return false;
}

static bool is_known(const test_cuda_function_t *functions, size_t count, const test_cuda_function_t *f) {
  for (size_t n = 0; n < count; n++)
    if (!strcmp(functions[n].name, f->name) && !strcmp(functions[n].parameters, f->parameters)) return true;
  return false;
}

void test_cuda_functions_free(test_cuda_function_t *functions, size_t count) {
  for (size_t n = 0; n < count; n++) {
    free(functions[n].result);
    free(functions[n].name);
    free(functions[n].parameters);
  }
  free(functions);
}

test_cuda_function_t *test_cuda_functions(const char *header, size_t *out_count) {
  char *text = strdup(header);
  size_t capacity = 1024;
  test_cuda_function_t *functions = calloc(capacity, sizeof *functions);
  *out_count = 0;
  if (!text || !functions) abort();
  blank_out(text);
  for (const char *at = text; *at && *out_count < capacity;) {
    size_t word = word_length(at);
    test_cuda_function_t f;
    if (word && is_marker(at, word) && parse_function(at + word, &f)) {
      if (is_known(functions, *out_count, &f)) {
        free(f.result), free(f.name), free(f.parameters);
      } else {
        functions[(*out_count)++] = f;
      }
    }
    at += word ? word : 1;
  }
  free(text);
  return functions;
}
