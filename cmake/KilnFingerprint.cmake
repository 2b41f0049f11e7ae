# The compiler's fingerprint, part of every plan key: SHA-256 over the sources that decide
# what a graph compiles to. The header is rewritten only when the fingerprint changes.
set(KILN_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
set(KILN_FINGERPRINT_HEADER ${KILN_GENERATED_DIR}/kiln_fingerprint.h)
set(write_fingerprint ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR}
    -DOUTPUT=${KILN_FINGERPRINT_HEADER} -DVERSION=${PROJECT_VERSION}
    -P ${CMAKE_SOURCE_DIR}/cmake/write_fingerprint.cmake)
execute_process(COMMAND ${write_fingerprint} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(kiln_fingerprint COMMAND ${write_fingerprint}
                  BYPRODUCTS ${KILN_FINGERPRINT_HEADER} COMMENT "Fingerprint")
