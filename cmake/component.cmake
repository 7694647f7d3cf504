# chorus_component(NAME [TORCH] [UNITY] [COLD] [DEPENDS component...] [LIBRARIES target...] [TORCH_SOURCES stem...]
#                  [TESTS_IN program])
#
# One folder, one object target: every x.cpp goes into chorus_NAME, every x_test.cpp into the test program NAME_test.
# They are object targets because the linker drops registrations in a static library. Every x.cu is embedded into the
# program (cmake/kernels.cmake).
#
#   DEPENDS        components whose headers this one may include; anything else fails to link
#   TORCH          all sources include LibTorch and use its precompiled header, which is slow to load
#   TORCH_SOURCES  only these do (params for params.cpp and params_test.cpp), in the targets chorus_NAME_torch and
#                  NAME_torch_test
#   UNITY          several sources are compiled as one where CHORUS_UNITY is on (cmake/unity.cmake), so local names must
#                  be unique among the sources, and among the tests
#   COLD           nothing here is performance-critical: compile faster with little optimization
#   TESTS_IN       the tests go into this test program instead, which several components share: a small test program
#                  costs more for its headers and its link than for its tests

include(precompiled)
include(unity)
include(kernels)

function(chorus_component NAME)
  cmake_parse_arguments(ARG "TORCH;UNITY;COLD" "TESTS_IN" "DEPENDS;LIBRARIES;TORCH_SOURCES" ${ARGN})
  file(GLOB plain CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  list(FILTER plain EXCLUDE REGEX "_fuzz\\.cpp$")
  set(heavy)
  if(ARG_TORCH)
    set(heavy ${plain})
    set(plain)
  elseif(ARG_TORCH_SOURCES)
    list(JOIN ARG_TORCH_SOURCES "|" stems)
    set(heavy ${plain})
    list(FILTER heavy INCLUDE REGEX "/(${stems})(_test)?\\.cpp$")
    list(REMOVE_ITEM plain ${heavy})
  endif()

  # The transitive closure of the dependencies, for linking a program.
  set(closure ${NAME})
  if(plain AND heavy)
    list(APPEND closure ${NAME}_torch)
  endif()
  foreach(dependency ${ARG_DEPENDS})
    get_property(more GLOBAL PROPERTY CHORUS_CLOSURE_${dependency})
    list(APPEND closure ${more})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY CHORUS_CLOSURE_${NAME} "${closure}")
  set_property(GLOBAL APPEND PROPERTY CHORUS_COMPONENTS ${NAME})

  if(plain)
    chorus_objects(${NAME} "" SOURCES ${plain} COMPONENT ${NAME} LIBRARIES ${ARG_LIBRARIES} UNITY ${ARG_UNITY}
                   TESTS_IN "${ARG_TESTS_IN}")
  endif()
  if(plain AND heavy)
    chorus_objects(${NAME}_torch TORCH SOURCES ${heavy} COMPONENT ${NAME} LIBRARIES ${ARG_LIBRARIES} UNITY ${ARG_UNITY}
                   TESTS_IN "${ARG_TESTS_IN}")
  elseif(heavy)
    chorus_objects(${NAME} TORCH SOURCES ${heavy} COMPONENT ${NAME} LIBRARIES ${ARG_LIBRARIES} UNITY ${ARG_UNITY}
                   TESTS_IN "${ARG_TESTS_IN}")
  endif()
  if(ARG_COLD)
    foreach(target chorus_${NAME} chorus_${NAME}_torch)
      if(TARGET ${target})
        target_compile_options(${target} PRIVATE ${CHORUS_QUICK_OPTIONS})
      endif()
    endforeach()
  endif()
endfunction()

# chorus_group(NAME component...): a name for all of these in DEPENDS.
function(chorus_group NAME)
  set(closure)
  foreach(component ${ARGN})
    get_property(more GLOBAL PROPERTY CHORUS_CLOSURE_${component})
    list(APPEND closure ${more})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set_property(GLOBAL PROPERTY CHORUS_CLOSURE_${NAME} "${closure}")
endfunction()

# The objects and the test program of a component, or of its part that uses LibTorch.
function(chorus_objects NAME TORCH)
  cmake_parse_arguments(ARG "" "COMPONENT;UNITY;TESTS_IN" "SOURCES;LIBRARIES" ${ARGN})
  set(tests ${ARG_SOURCES})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER ARG_SOURCES EXCLUDE REGEX "_test\\.cpp$")
  add_library(chorus_${NAME} OBJECT ${ARG_SOURCES})
  if(ARG_UNITY)
    chorus_unity(chorus_${NAME})
  endif()
  chorus_kernels(chorus_${NAME})
  target_link_libraries(chorus_${NAME} PRIVATE chorus_options nlohmann_json::nlohmann_json
                                       PUBLIC ${ARG_LIBRARIES} fmt::fmt)
  if(TORCH)
    target_link_libraries(chorus_${NAME} PUBLIC chorus_torch)
    target_precompile_headers(chorus_${NAME} REUSE_FROM chorus_torch_pch)
  else()
    target_precompile_headers(chorus_${NAME} REUSE_FROM chorus_plain_pch)
  endif()
  if(tests)
    set(program ${NAME}_test)
    if(ARG_TESTS_IN)
      set(program ${ARG_TESTS_IN})
    endif()
    set_property(GLOBAL APPEND PROPERTY CHORUS_TEST_PROGRAMS ${program})
    set_property(GLOBAL APPEND PROPERTY CHORUS_TEST_${program}_SOURCES ${tests})
    set_property(GLOBAL APPEND PROPERTY CHORUS_TEST_${program}_COMPONENTS ${ARG_COMPONENT})
    set_property(GLOBAL APPEND PROPERTY CHORUS_TEST_${program}_OPTIONS ${TORCH})
  endif()
endfunction()

# The test programs of all components, after every folder has been read.
function(chorus_component_tests)
  get_property(programs GLOBAL PROPERTY CHORUS_TEST_PROGRAMS)
  list(REMOVE_DUPLICATES programs)
  foreach(program ${programs})
    foreach(part SOURCES COMPONENTS OPTIONS)
      get_property(${part} GLOBAL PROPERTY CHORUS_TEST_${program}_${part})
    endforeach()
    list(REMOVE_DUPLICATES OPTIONS)
    chorus_test(${program} ${OPTIONS} SOURCES ${SOURCES} COMPONENTS ${COMPONENTS})
  endforeach()
endfunction()

# Links the objects of the components and their dependencies into a program.
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

# chorus_test(NAME [TORCH] [SHARDS count] SOURCES file... COMPONENTS component...): a GoogleTest program, registered with
# ctest; with SHARDS as so many tests NAME_1, NAME_2, ... which can run at the same time. It is a unity build where
# CHORUS_UNITY is on, so local names must be unique among its sources of one namespace.
function(chorus_test NAME)
  cmake_parse_arguments(ARG "TORCH" "SHARDS" "SOURCES;COMPONENTS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_compile_options(${NAME} PRIVATE ${CHORUS_QUICK_OPTIONS})
  if(ARG_TORCH)
    target_precompile_headers(${NAME} REUSE_FROM chorus_torch_test_pch)
  else()
    target_precompile_headers(${NAME} REUSE_FROM chorus_plain_test_pch)
  endif()
  chorus_unity(${NAME})
  chorus_link(${NAME} ${ARG_COMPONENTS})
  # Link LibTorch even where a test does not use it: the precompiled header needs its definitions.
  target_link_libraries(${NAME} PRIVATE chorus_torch GTest::gtest_main GTest::gmock)
  target_include_directories(${NAME} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_compile_definitions(${NAME} PRIVATE CHORUS_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # Tests share the cores, so threads that wait must not spin.
  set(environment "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/cache;OMP_WAIT_POLICY=PASSIVE")
  if(NOT ARG_SHARDS)
    add_test(NAME ${NAME} COMMAND ${NAME} --gtest_brief=1)
    set_tests_properties(${NAME} PROPERTIES WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" ENVIRONMENT "${environment}")
    return()
  endif()
  foreach(shard RANGE 1 ${ARG_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${NAME}_${shard} COMMAND ${NAME} --gtest_brief=1)
    # The longest start first, so that all cores end together.
    set_tests_properties(${NAME}_${shard} PROPERTIES WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" COST 100
      ENVIRONMENT "${environment};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# chorus_fuzz(NAME SOURCES file... [LIBRARIES target...] [COMPONENTS component...] [SEEDS folder]): a libFuzzer program,
# built with clang when CHORUS_FUZZ is on and run by tools/fuzz. Everything is compiled with ASan and UBSan then, so list
# the x_fuzz.cpp and only what it needs: sources, or whole components. SEEDS: a folder of small valid and invalid inputs
# to start from.
function(chorus_fuzz NAME)
  if(NOT CHORUS_FUZZ)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CHORUS_FUZZ needs clang; tools/fuzz sets everything up")
  endif()
  cmake_parse_arguments(ARG "" "SEEDS" "SOURCES;LIBRARIES;COMPONENTS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE chorus_options ${ARG_LIBRARIES} fmt::fmt)
  if(ARG_COMPONENTS)
    chorus_link(${NAME} ${ARG_COMPONENTS})
  endif()
  target_include_directories(${NAME} PRIVATE "${CMAKE_SOURCE_DIR}")
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/fuzz")
  file(WRITE "${CMAKE_BINARY_DIR}/fuzz/${NAME}.seeds" "${ARG_SEEDS}")
  set_property(GLOBAL APPEND PROPERTY CHORUS_FUZZERS ${NAME})
endfunction()

# One target for all fuzzers, after every folder has been read.
function(chorus_all_fuzzers)
  get_property(fuzzers GLOBAL PROPERTY CHORUS_FUZZERS)
  add_custom_target(fuzzers DEPENDS ${fuzzers})
endfunction()
