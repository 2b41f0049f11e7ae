/* tests/fuzz/fuzz_ptx.c: any bytes as a PTX module: loading must give a module or an error, never a crash,
 * hang or leak.
 *
 * What loads is also run, one warp for a few thousand instructions, with zeros as parameters: decoded code
 * must hold on to its frame and memory whatever the text said. The corpus is NVRTC's output for kernels of
 * every kind, tests/corpus/ptx/.
 */
#include "emulator/launch.h"
#include "emulator/ptx.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 65536u

static void run_kernel(const emu_kernel_t *kernel, emu_memory_t *memory, emu_pool_t *pool) {
  kiln_emu_launch_t record;
  emu_launch_setup_t setup = {.kernel = kernel,
                              .memory = memory,
                              .grid = {1, 1, 1},
                              .block = {32, 1, 1},
                              .dynamic_shared_bytes = 256,
                              .resident_limit = 1,
                              .instruction_limit = 4000,
                              .stack_bytes = 1024,
                              .checks = KILN_EMU_CHECK_ALL,
                              .counting = true,
                              .serial = 1};
  emu_launch_t *launch = emu_launch_create(&setup);
  if (launch) emu_launch_run(launch, pool, &record);
  emu_launch_destroy(launch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  emu_memory_t memory;
  emu_pool_t pool;
  emu_module_t *module = NULL;
  char *log = NULL, *text = malloc(size + 1);
  if (!text || size > MOST_BYTES) {
    free(text);
    return 0;
  }
  memcpy(text, data, size);
  text[size] = 0;
  emu_memory_init(&memory, 1 << 26);
  emu_pool_init(&pool, 0);
  CUresult result = emu_module_load(&memory, text, 90, &module, &log);
  if ((result == CUDA_SUCCESS) != (module != NULL)) abort();
  for (size_t n = 0; module && n < module->kernel_count && n < 4; n++)
    if (module->kernels[n].local_bytes < 65536 && module->kernels[n].frame_bytes < 1 << 20)
      run_kernel(&module->kernels[n], &memory, &pool);
  emu_module_destroy(module);
  emu_pool_deinit(&pool);
  emu_memory_deinit(&memory);
  free(log);
  free(text);
  return 0;
}
