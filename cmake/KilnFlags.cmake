# Language, warnings and code generation flags of every target.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the same archives go into the shared libraries
set(CMAKE_C_VISIBILITY_PRESET default)  # version scripts decide what is exported
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")     # no NDEBUG: assertions stay on
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")

add_compile_options(
  -Wall -Wextra -Werror -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough
  -fwrapv                # integer ops of graphs wrap; so do ours
  -fno-strict-aliasing   # tensors and registers are bytes read as many types
  -ffp-contract=off      # the reference evaluator is exact IEEE: no fused multiply-add
  -fno-common)
add_compile_definitions(_GNU_SOURCE)

# KILN_SANITIZE is a comma list for -fsanitize=, set by the presets asan, tsan and fuzz.
set(KILN_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")
if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KILN_SANITIZE})
endif()
