# Libraries from the distribution, all found through pkg-config, and the python tests run on.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
# msgpack-c renamed its C package from msgpack (Debian 12) to msgpack-c (release 6 and later).
pkg_search_module(MSGPACK REQUIRED IMPORTED_TARGET msgpack-c msgpack)

# Python tests use the distribution's numpy and msgpack, so they run on its interpreter.
set(KILN_PYTHON /usr/bin/python3 CACHE FILEPATH "interpreter of the python tests")
