# The shapes of target the top CMakeLists.txt declares: a layer, a program, a shared library.

# kiln_sources(OUT PATTERN... [WITHOUT REGEX...]): sources matching PATTERN, sorted, rescanned
# at each build.
function(kiln_sources out)
  cmake_parse_arguments(arg "" "" "WITHOUT" ${ARGN})
  file(GLOB found RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${arg_UNPARSED_ARGUMENTS})
  foreach(regex IN LISTS arg_WITHOUT)
    list(FILTER found EXCLUDE REGEX ${regex})
  endforeach()
  list(TRANSFORM found PREPEND ${CMAKE_SOURCE_DIR}/)
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# kiln_layer(FOLDER LINKS LIB... [WITHOUT REGEX...]): static library kiln_FOLDER from every .c
# of the folder and its subfolders one level down; without sources, an interface library.
function(kiln_layer folder)
  cmake_parse_arguments(arg "" "" "LINKS;WITHOUT" ${ARGN})
  kiln_sources(sources ${folder}/*.c ${folder}/*/*.c WITHOUT ${arg_WITHOUT})
  if(sources)
    add_library(kiln_${folder} STATIC ${sources})
    set(scope PUBLIC)
    add_dependencies(kiln_${folder} kiln_fingerprint)
  else()
    add_library(kiln_${folder} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(kiln_${folder} ${scope} ${CMAKE_SOURCE_DIR}
                             ${CMAKE_SOURCE_DIR}/include ${KILN_GENERATED_DIR})
  target_link_libraries(kiln_${folder} ${scope} ${arg_LINKS})
endfunction()

# kiln_program(NAME MAIN [GLOB PATTERN...] LINKS LIB...): bin/NAME, once its main exists.
function(kiln_program name main)
  cmake_parse_arguments(arg "" "" "GLOB;LINKS" ${ARGN})
  if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${main})
    return()
  endif()
  kiln_sources(more ${arg_GLOB})
  add_executable(${name}-program ${main} ${more})
  set_target_properties(${name}-program PROPERTIES OUTPUT_NAME ${name})
  target_link_libraries(${name}-program PRIVATE ${arg_LINKS})
endfunction()

# kiln_shared(NAME FROM FOLDER EXPORTS MAP): lib/libNAME.so from all of the layer kiln_FOLDER
# and what it needs of the layers below, showing only what the version script MAP names.
function(kiln_shared name)
  cmake_parse_arguments(arg "" "FROM;EXPORTS" "" ${ARGN})
  get_target_property(type kiln_${arg_FROM} TYPE)
  if(NOT type STREQUAL STATIC_LIBRARY)
    return()
  endif()
  set(map ${CMAKE_SOURCE_DIR}/${arg_EXPORTS})
  file(WRITE ${CMAKE_BINARY_DIR}/empty.c "")
  add_library(${name}-shared SHARED ${CMAKE_BINARY_DIR}/empty.c)
  set_target_properties(${name}-shared PROPERTIES OUTPUT_NAME ${name} LINK_DEPENDS ${map})
  target_link_libraries(${name}-shared PRIVATE
    -Wl,--whole-archive $<TARGET_FILE:kiln_${arg_FROM}> -Wl,--no-whole-archive
    kiln_${arg_FROM})
  target_link_options(${name}-shared PRIVATE -Wl,--version-script=${map} -Wl,-Bsymbolic)
endfunction()
