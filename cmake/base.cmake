# Language level, warnings and sanitizers of our own code.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

option(CHORUS_TESTS "Build the tests" ON)
option(CHORUS_BENCH "Build the benchmarks" OFF)
option(CHORUS_UNITY "Compile several sources of a component as one, for faster clean builds" OFF)
option(CHORUS_FUZZ "Build the fuzz targets (clang only)" OFF)
# Newer compilers have more warnings, which must not break a build.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  option(CHORUS_WERROR "Treat warnings as errors" ON)
else()
  option(CHORUS_WERROR "Treat warnings as errors" OFF)
endif()
# -O3 gains nothing here (the hot loops are LibTorch's) and costs compile time.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CHORUS_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined")
set(CHORUS_PROGRAM_DIR "${CMAKE_BINARY_DIR}" CACHE PATH "Folder of the chorus program")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${CCACHE})
endif()

# Linked by every target of Chorus.
add_library(chorus_options INTERFACE)
target_compile_options(chorus_options INTERFACE -Wall -Wextra -Wshadow -Wconversion)
# errno of math functions and floating-point traps are unused and would prevent vectorization.
target_compile_options(chorus_options INTERFACE -fno-math-errno -fno-trapping-math)
# GCC collects garbage whenever its memory has doubled, which takes a tenth of the compile time. With 400 % a compiler
# needs about 1.2 GB instead of 0.9 GB.
target_compile_options(chorus_options INTERFACE "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-expand=400>")
if(CHORUS_WERROR)
  target_compile_options(chorus_options INTERFACE -Werror)
endif()
if(CHORUS_SANITIZE)
  add_compile_options(-fsanitize=${CHORUS_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CHORUS_SANITIZE})
endif()
if(CHORUS_FUZZ)
  add_compile_options(-include "${CMAKE_SOURCE_DIR}/cmake/vector_without_constexpr.h" -g1 -O1 -fno-omit-frame-pointer
                      -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)  # they would come before that header
endif()
target_include_directories(chorus_options INTERFACE "${CMAKE_SOURCE_DIR}/src")
