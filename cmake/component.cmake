# chorus_component(NAME [TORCH] [DEPENDS component...] [LIBRARIES target...])
#
# One folder, one object target: every x.cpp here goes into chorus_NAME, every x_test.cpp into the test program
# NAME_test. DEPENDS names the components whose headers this one may include; anything else fails to link. Object
# targets, because a registration in a static library would be dropped by the linker. TORCH: compiled with the
# precompiled LibTorch header.

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
    if(NAME STREQUAL "core")
      target_precompile_headers(chorus_core PRIVATE "${CMAKE_SOURCE_DIR}/src/core/torch_pch.h")
    else()
      target_precompile_headers(chorus_${NAME} REUSE_FROM chorus_core)
    endif()
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
      target_precompile_headers(${NAME}_test REUSE_FROM chorus_core)
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
