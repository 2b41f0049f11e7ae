# Language, warnings and code generation flags of every target.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the same archives go into the shared libraries
set(CMAKE_C_VISIBILITY_PRESET hidden)   # which show only what is marked as public
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g") # no NDEBUG: assertions stay on
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")
set(CMAKE_C_FLAGS_SANITIZE "-O1 -g -fno-omit-frame-pointer")

add_compile_options(
  -Wall -Wextra -Werror -Wshadow -Wvla -Wundef -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wwrite-strings -Wformat=2 -Wimplicit-fallthrough
  -fwrapv                 # integer ops of a graph wrap, and so do ours
  -fno-strict-aliasing    # tensors and registers are bytes that are read as many types
  -ffp-contract=off)      # the reference evaluator rounds every operation
add_compile_definitions(_GNU_SOURCE)

set(KILN_SANITIZE "" CACHE STRING "sanitizers, as -fsanitize= takes them")
if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${KILN_SANITIZE})
endif()
