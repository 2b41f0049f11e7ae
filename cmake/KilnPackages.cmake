# What comes from outside: libraries of the distribution through pkg-config, NVRTC's path from
# scripts/setup.sh.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
# msgpack-c's C library was named msgpack up to release 5 and msgpack-c since.
pkg_search_module(MSGPACK REQUIRED IMPORTED_TARGET msgpack-c msgpack)

# Where to look for NVRTC when KILN_NVRTC is not set: the library that set-up found.
set(nvrtc_path "")
if(EXISTS ${CMAKE_SOURCE_DIR}/build/nvrtc.path)
  file(STRINGS ${CMAKE_SOURCE_DIR}/build/nvrtc.path nvrtc_path)
endif()
add_compile_definitions(KILN_NVRTC_LIBRARY="${nvrtc_path}")
