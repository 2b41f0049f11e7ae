# Run as a script by KilnFingerprint.cmake: writes OUTPUT from the sources under SOURCE_DIR.
file(GLOB_RECURSE sources RELATIVE ${SOURCE_DIR}
     ${SOURCE_DIR}/base/*.[ch] ${SOURCE_DIR}/base/*.def
     ${SOURCE_DIR}/ir/*.[ch] ${SOURCE_DIR}/ir/*.def
     ${SOURCE_DIR}/passes/*.[ch] ${SOURCE_DIR}/passes/*.def
     ${SOURCE_DIR}/codegen/*)
if(EXISTS ${SOURCE_DIR}/server/pipeline.c)
  list(APPEND sources server/pipeline.c)
endif()
list(SORT sources)
set(lines "")
foreach(path IN LISTS sources)
  file(SHA256 ${SOURCE_DIR}/${path} digest)
  string(APPEND lines "${digest}  ${path}\n")
endforeach()
string(SHA256 fingerprint "${lines}")
set(text "#pragma once\n#define KILN_VERSION \"${VERSION}\"\n#define KILN_FINGERPRINT \"${fingerprint}\"\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
