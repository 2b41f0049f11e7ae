# The kinds of target that the top CMakeLists.txt is made of.
add_custom_target(link_checks)

# kiln_sources(OUT PATTERN...): the sources that match, looked for again at each build.
function(kiln_sources out)
  file(GLOB found CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${ARGN})
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# kiln_layer(NAME SOURCES PATTERN... [WITHOUT TEXT...] LINKS LIB...): static library kiln_NAME
# of the sources that match, less those whose path contains a TEXT.
function(kiln_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;WITHOUT;LINKS" ${ARGN})
  kiln_sources(sources ${arg_SOURCES})
  foreach(text IN LISTS arg_WITHOUT)
    string(REPLACE "." "\\." regex ${text})
    list(FILTER sources EXCLUDE REGEX ${regex})
  endforeach()
  if(sources)
    add_library(kiln_${name} STATIC ${sources})
    add_dependencies(kiln_${name} kiln_fingerprint)
    set(scope PUBLIC)
  else()
    add_library(kiln_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(kiln_${name} ${scope} ${CMAKE_SOURCE_DIR}
                             ${CMAKE_SOURCE_DIR}/include ${KILN_GENERATED_DIR})
  target_link_libraries(kiln_${name} ${scope} ${arg_LINKS})
  kiln_link_check(${name})
endfunction()

# kiln_whole_archive(TARGET LAYER): links all of a layer, and what it needs of the layers below.
function(kiln_whole_archive target layer)
  target_link_libraries(${target} PRIVATE -Wl,--whole-archive $<TARGET_FILE:kiln_${layer}>
                        -Wl,--no-whole-archive kiln_${layer})
endfunction()

# kiln_link_check(LAYER): a library of all of a layer with no symbol left open, which fails to
# link when the layer uses one that it may not see. Archives alone would hide that.
function(kiln_link_check layer)
  get_target_property(type kiln_${layer} TYPE)
  if(type STREQUAL STATIC_LIBRARY AND NOT KILN_SANITIZE)
    add_library(link_check_${layer} SHARED EXCLUDE_FROM_ALL ${KILN_EMPTY_SOURCE})
    set_target_properties(link_check_${layer} PROPERTIES
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/link_checks)
    kiln_whole_archive(link_check_${layer} ${layer})
    target_link_options(link_check_${layer} PRIVATE -Wl,-z,defs)
    add_dependencies(link_checks link_check_${layer})
  endif()
endfunction()

# kiln_optimize(LAYER FLAG...): flags for a layer in release builds.
function(kiln_optimize layer)
  get_target_property(type kiln_${layer} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    target_compile_options(kiln_${layer} PRIVATE $<$<CONFIG:Release>:${ARGN}>)
  endif()
endfunction()

# kiln_program(NAME MAIN SOURCE LINKS LIB...): bin/NAME.
function(kiln_program name)
  cmake_parse_arguments(arg "" "MAIN" "LINKS" ${ARGN})
  kiln_sources(main ${arg_MAIN})
  if(main)
    add_executable(${name} ${main})
    target_link_libraries(${name} PRIVATE ${arg_LINKS})
  endif()
endfunction()

# kiln_shared(NAME FROM LAYER [EXPORTS GLOB...]): lib/NAME.so of all of a layer, showing the
# symbols marked with default visibility or, with EXPORTS, those whose names match.
function(kiln_shared name)
  cmake_parse_arguments(arg "" "FROM" "EXPORTS" ${ARGN})
  get_target_property(type kiln_${arg_FROM} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    add_library(${name} SHARED ${KILN_EMPTY_SOURCE})
    set_target_properties(${name} PROPERTIES PREFIX "")
    kiln_whole_archive(${name} ${arg_FROM})
    target_link_options(${name} PRIVATE -Wl,-Bsymbolic)
    if(arg_EXPORTS)
      set(map ${CMAKE_BINARY_DIR}/generated/${name}.map)
      file(CONFIGURE OUTPUT ${map} CONTENT "{ global: ${arg_EXPORTS}; local: *; };\n")
      target_link_options(${name} PRIVATE -Wl,--version-script=${map})
      set_target_properties(kiln_${arg_FROM} PROPERTIES C_VISIBILITY_PRESET default)
    endif()
  endif()
endfunction()

# kiln_each_program(PATTERN INTO FOLDER LINKS LIB...): one program FOLDER/<name> per source, as
# target <name>; the target all_FOLDER builds them all.
function(kiln_each_program pattern)
  cmake_parse_arguments(arg "" "INTO" "LINKS" ${ARGN})
  kiln_sources(sources ${pattern})
  add_custom_target(all_${arg_INTO})
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${CMAKE_SOURCE_DIR}/${source})
    set_target_properties(${name} PROPERTIES
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${arg_INTO})
    add_dependencies(all_${arg_INTO} ${name})
    target_link_libraries(${name} PRIVATE ${arg_LINKS})
    target_compile_definitions(${name} PRIVATE KILN_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                               KILN_BUILD_DIR="${CMAKE_BINARY_DIR}")
  endforeach()
endfunction()

# Programs lie beside lib/, wherever the whole folder is copied (scripts/gpu_bundle.py).
set(CMAKE_BUILD_RPATH "$ORIGIN/../lib")

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/static)

# CMake wants a source for each shared library; these are made of archives.
set(KILN_EMPTY_SOURCE ${CMAKE_BINARY_DIR}/generated/empty.c)
file(CONFIGURE OUTPUT ${KILN_EMPTY_SOURCE} CONTENT "")
