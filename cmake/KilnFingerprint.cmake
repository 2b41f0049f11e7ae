# generated/kiln_fingerprint.h: KILN_VERSION and KILN_FINGERPRINT, the part of every plan key
# that changes with the sources that decide what a graph compiles to. Brought up to date at
# each build, rewritten only when its text changes.
set(KILN_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
add_custom_target(kiln_fingerprint
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUTPUT=${KILN_GENERATED_DIR}/kiln_fingerprint.h
          -P ${CMAKE_SOURCE_DIR}/cmake/write_fingerprint.cmake
  BYPRODUCTS ${KILN_GENERATED_DIR}/kiln_fingerprint.h
  COMMENT "Fingerprint of the compiler's sources")
