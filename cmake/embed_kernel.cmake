# Writes INPUT, a .cu file, with its includes (relative to ROOT, each once) as a string constant into OUTPUT, and its
# dependencies into OUTPUT.d. See kernels.cmake.
cmake_minimum_required(VERSION 3.25)
file(READ "${INPUT}" text)
set(files "${INPUT}")
set(include "#include \"([^\"]+)\"\n")
while(text MATCHES "${include}")
  set(line "${CMAKE_MATCH_0}")
  set(file "${ROOT}/${CMAKE_MATCH_1}")
  set(included "")
  if(NOT file IN_LIST files)
    list(APPEND files "${file}")
    file(READ "${file}" included)
    string(REPLACE "#pragma once\n" "" included "${included}")
  endif()
  # Only the first one: later includes of the same file are found in the list.
  string(FIND "${text}" "${line}" begin)
  string(LENGTH "${line}" length)
  math(EXPR end "${begin} + ${length}")
  string(SUBSTRING "${text}" 0 ${begin} before)
  string(SUBSTRING "${text}" ${end} -1 after)
  set(text "${before}${included}${after}")
endwhile()

get_filename_component(name "${INPUT}" NAME_WE)
file(RELATIVE_PATH path "${ROOT}" "${INPUT}")
file(WRITE "${OUTPUT}" "#include \"core/device/gpu_kernel.h\"

namespace chorus::kernels {

extern const KernelSource ${name};
const KernelSource ${name}{\"${path}\", R\"kernel(${text})kernel\"};

}  // namespace chorus::kernels
")
list(JOIN files " " files)
file(WRITE "${OUTPUT}.d" "${OUTPUT}: ${files}\n")
