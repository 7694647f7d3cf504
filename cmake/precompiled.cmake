# Headers that are compiled once, for everybody. Each is a target of its own with few definitions, because a precompiled
# header serves only those who define at least as much. Tests are not optimised in a release build: what they test is,
# and they compile in half the time.

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
  set(CHORUS_TEST_OPTIONS $<$<CONFIG:Release>:-O0>)
  set(test_libraries GTest::gtest_main GTest::gmock)
  chorus_precompile(chorus_plain_test_pch HEADERS plain test LIBRARIES chorus_torch ${test_libraries}
                    OPTIONS ${CHORUS_TEST_OPTIONS})
  chorus_precompile(chorus_torch_test_pch HEADERS plain torch test LIBRARIES chorus_torch ${test_libraries}
                    OPTIONS ${CHORUS_TEST_OPTIONS})
endif()
