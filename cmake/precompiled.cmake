# Precompiled headers shared by all targets. Each is its own target with few definitions, because a precompiled header
# works only for targets with at least the same definitions.
#
# Tests and subcommands use little optimization in a release build; what they call is optimized. -Og compiles faster
# than -O0 (which emits every inline function of LibTorch) and can use the headers that were precompiled with -O2.
set(CHORUS_QUICK_OPTIONS $<$<CONFIG:Release>:-Og>)

function(chorus_precompile NAME)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBRARIES;OPTIONS" ${ARGN})
  list(TRANSFORM ARG_HEADERS PREPEND "${CMAKE_SOURCE_DIR}/cmake/precompiled_")
  list(TRANSFORM ARG_HEADERS APPEND ".h")
  add_library(${NAME} OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp")
  target_link_libraries(${NAME} PRIVATE chorus_options fmt::fmt nlohmann_json::nlohmann_json ${ARG_LIBRARIES})
  target_compile_options(${NAME} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${NAME} PRIVATE ${ARG_HEADERS})
endfunction()

chorus_precompile(chorus_plain_pch HEADERS plain)
chorus_precompile(chorus_torch_pch HEADERS plain torch LIBRARIES chorus_torch)

if(CHORUS_TESTS)
  chorus_precompile(chorus_plain_test_pch HEADERS plain test LIBRARIES chorus_torch GTest::gtest_main GTest::gmock
                    OPTIONS ${CHORUS_QUICK_OPTIONS})
  chorus_precompile(chorus_torch_test_pch HEADERS plain torch test LIBRARIES chorus_torch GTest::gtest_main GTest::gmock
                    OPTIONS ${CHORUS_QUICK_OPTIONS})
endif()
