# chorus_unity(TARGET): compiles several sources of a target as one where CHORUS_UNITY is on. Most of the compile time of
# a small source is its includes (the precompiled header of LibTorch alone costs 4 s, that of JSON 1 s), so a clean build
# takes half as long. Batches have about CHORUS_UNITY_KILOBYTES of text: large enough to share that cost, small enough to
# balance the cores.

set(CHORUS_UNITY_KILOBYTES 80 CACHE STRING "Kilobytes of text per unity batch")

function(chorus_unity TARGET)
  if(NOT CHORUS_UNITY)
    return()
  endif()
  get_target_property(sources ${TARGET} SOURCES)
  set(total 0)
  foreach(source ${sources})
    get_filename_component(path "${source}" ABSOLUTE)
    file(SIZE "${path}" size)
    math(EXPR total "${total} + ${size}")
  endforeach()
  # Equal shares: the amount of text before the middle of a source decides its batch.
  math(EXPR batches "${total} / (${CHORUS_UNITY_KILOBYTES} * 1000) + 1")
  set(before 0)
  foreach(source ${sources})
    get_filename_component(path "${source}" ABSOLUTE)
    file(SIZE "${path}" size)
    math(EXPR batch "(${before} + ${size} / 2) * ${batches} / (${total} + 1)")
    math(EXPR before "${before} + ${size}")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${batch}")
  endforeach()
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # A source may use its local types in a class that it alone defines; in a unity build the compiler sees it as a header.
  target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
