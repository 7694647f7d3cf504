# chorus_web(TARGET): bundles web/ with esbuild and embeds the result into TARGET, as chorus::report::kPage
# (src/infrastructure/tracking/report/page.h). Without esbuild the program is built without the page, and the commands that
# need it say what to install.
find_program(ESBUILD esbuild)

function(chorus_web TARGET)
  set(web "${CMAKE_SOURCE_DIR}/web")
  set(script "${CMAKE_SOURCE_DIR}/cmake/embed_web.cmake")
  set(output "${CMAKE_CURRENT_BINARY_DIR}/page_assets.cpp")
  file(GLOB sources CONFIGURE_DEPENDS "${web}/src/*.ts" "${web}/src/*.css" "${web}/page.html")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DWEB=${web}" "-DESBUILD=${ESBUILD}" "-DOUTPUT=${output}" -P "${script}"
    DEPENDS ${sources} "${script}"
    COMMENT "Bundling web/")
  target_sources(${TARGET} PRIVATE "${output}")
  set_source_files_properties("${output}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endfunction()
