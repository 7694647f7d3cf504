# chorus_component(NAME [TORCH] [DEPENDS component...] [LIBRARIES target...])
#
# One folder, one object target: every x.cpp here goes into chorus_NAME, every x_test.cpp into the test program
# NAME_test. DEPENDS names the components whose headers this one may include; anything else fails to link. Object
# targets, because a registration in a static library would be dropped by the linker. TORCH: compiled with the
# precompiled LibTorch header.

# The fewest definitions of all: a precompiled header serves only those who define at least as much.
add_library(chorus_pch OBJECT "${CMAKE_SOURCE_DIR}/cmake/torch_pch.cpp")
target_link_libraries(chorus_pch PRIVATE chorus_options chorus_torch fmt::fmt)
target_precompile_headers(chorus_pch PRIVATE "${CMAKE_SOURCE_DIR}/cmake/torch_pch.h")

function(chorus_component NAME)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")

  add_library(chorus_${NAME} OBJECT ${sources})
  target_link_libraries(chorus_${NAME} PRIVATE chorus_options PUBLIC ${ARG_LIBRARIES} fmt::fmt)
  if(ARG_TORCH)
    target_link_libraries(chorus_${NAME} PUBLIC chorus_torch)
    target_precompile_headers(chorus_${NAME} REUSE_FROM chorus_pch)
  endif()

  # The transitive closure of the dependencies, in one list, for whoever links a program.
  set(closure ${NAME})
  foreach(dependency ${ARG_DEPENDS})
    get_property(more GLOBAL PROPERTY CHORUS_CLOSURE_${dependency})
    list(APPEND closure ${more})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY CHORUS_CLOSURE_${NAME} "${closure}")
  set_property(GLOBAL APPEND PROPERTY CHORUS_COMPONENTS ${NAME})

  if(CHORUS_TESTS AND tests)
    chorus_test(${NAME}_test SOURCES ${tests} COMPONENTS ${NAME})
    if(ARG_TORCH)
      target_precompile_headers(${NAME}_test REUSE_FROM chorus_pch)
    endif()
  endif()
endfunction()

# Links the objects of the components, and of all they depend on, into a program.
function(chorus_link TARGET)
  set(all)
  foreach(component ${ARGN})
    get_property(closure GLOBAL PROPERTY CHORUS_CLOSURE_${component})
    list(APPEND all ${closure})
  endforeach()
  list(REMOVE_DUPLICATES all)
  list(TRANSFORM all PREPEND chorus_)
  target_link_libraries(${TARGET} PRIVATE chorus_options ${all})
endfunction()

# chorus_test(NAME SOURCES file... COMPONENTS component...): a GoogleTest program, its cases known to ctest.
function(chorus_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;COMPONENTS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  chorus_link(${NAME} ${ARG_COMPONENTS})
  target_link_libraries(${NAME} PRIVATE GTest::gtest_main GTest::gmock)
  target_compile_definitions(${NAME} PRIVATE CHORUS_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME} --gtest_brief=1)
  set_tests_properties(${NAME} PROPERTIES WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
endfunction()

# chorus_fuzz(NAME SOURCES file... [LIBRARIES target...] [SEEDS folder]): a libFuzzer program under ASan and UBSan, built
# with clang when CHORUS_FUZZ is on and run by tools/fuzz. The sources are compiled again with the sanitizers, so list the
# x_fuzz.cpp and only what it needs. SEEDS: a folder of small valid and invalid inputs to start from.
function(chorus_fuzz NAME)
  if(NOT CHORUS_FUZZ)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CHORUS_FUZZ needs clang; tools/fuzz sets everything up")
  endif()
  cmake_parse_arguments(ARG "" "SEEDS" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE chorus_options ${ARG_LIBRARIES} fmt::fmt)
  target_compile_options(${NAME} PRIVATE -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined
                                         -fno-sanitize-recover=undefined)
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer,address,undefined)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
  file(WRITE "${CMAKE_BINARY_DIR}/fuzz/${NAME}.seeds" "${ARG_SEEDS}")
  set_property(GLOBAL APPEND PROPERTY CHORUS_FUZZERS ${NAME})
endfunction()

# One target for all of them, once every folder has been read.
function(chorus_all_fuzzers)
  get_property(fuzzers GLOBAL PROPERTY CHORUS_FUZZERS)
  add_custom_target(fuzzers DEPENDS ${fuzzers})
endfunction()
