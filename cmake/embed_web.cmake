# Bundles WEB/src with ESBUILD and writes page, script and style with their checksums as constants into OUTPUT. See
# web.cmake. Without ESBUILD the constants are empty.
cmake_minimum_required(VERSION 3.25)
set(page "")
set(script "")
set(style "")
set(script_sum "")
set(style_sum "")
if(ESBUILD)
  get_filename_component(folder "${OUTPUT}" DIRECTORY)
  foreach(input main.ts style.css)
    execute_process(
      COMMAND "${ESBUILD}" "${WEB}/src/${input}" --bundle --minify --charset=ascii --format=iife --target=es2020
              --log-level=warning "--outfile=${folder}/bundled_${input}"
      RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "esbuild failed on web/src/${input}")
    endif()
  endforeach()
  # Byte by byte as the page has them: the checksums are the page's content security policy.
  file(READ "${folder}/bundled_main.ts" script)
  file(READ "${folder}/bundled_style.css" style)
  file(READ "${WEB}/page.html" page)
  foreach(text script style)
    if("${${text}}" MATCHES "</(script|style)|\\)page\"")
      message(FATAL_ERROR "web/: the bundled ${text} would end its own element")
    endif()
    string(SHA256 ${text}_sum "${${text}}")
  endforeach()
endif()
file(WRITE "${OUTPUT}" "#include \"infrastructure/tracking/report/page.h\"

namespace chorus::inline report {

const PageAssets kPage{R\"page(${page})page\", R\"page(${script})page\", R\"page(${style})page\", \"${script_sum}\", \"${style_sum}\"};

}  // namespace chorus::inline report
")
