# chorus_kernels(TARGET): embeds every x.cu of this folder into TARGET, as chorus::kernels::x (core/device/gpu_kernel.h).
# The text contains its includes, so it compiles on machines without our files; a change of any of them embeds it again.
function(chorus_kernels TARGET)
  file(GLOB kernels CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cu")
  set(script "${CMAKE_SOURCE_DIR}/cmake/embed_kernel.cmake")
  foreach(kernel ${kernels})
    get_filename_component(name "${kernel}" NAME_WE)
    set(output "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu.cpp")
    add_custom_command(
      OUTPUT "${output}"
      COMMAND "${CMAKE_COMMAND}" "-DINPUT=${kernel}" "-DOUTPUT=${output}" "-DROOT=${CMAKE_SOURCE_DIR}/src" -P "${script}"
      DEPENDS "${kernel}" "${script}"
      DEPFILE "${output}.d")
    target_sources(${TARGET} PRIVATE "${output}")
    set_source_files_properties("${output}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endfunction()
