/* tests/support/nvrtc_compile.h: CUDA C to PTX inside a test, with the NVRTC that kiln itself finds
 * (runtime/find_nvrtc.h). Thread: one at a time. */
#ifndef KILN_TESTS_NVRTC_COMPILE_H
#define KILN_TESTS_NVRTC_COMPILE_H

/* The PTX of `source` for "compute_80" or the like, compiled as kiln compiles (-fmad=false); `options` are
 * further ones, ending with NULL, and may be NULL. Owned by the caller. On an error prints the log and gives
 * NULL. */
char *test_nvrtc_compile(const char *source, const char *architecture, const char *const *options);
/* The same, but the log of an error goes to *out_log, owned by the caller; NULL when there is none. */
char *test_nvrtc_compile_logged(const char *source, const char *architecture, const char *const *options,
                                char **out_log);

#endif
