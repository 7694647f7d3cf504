# Finds all third-party libraries. Debian packages by default (tools/bootstrap lists them); set CMAKE_PREFIX_PATH for a
# newer LibTorch.

find_package(Threads REQUIRED)
find_package(Torch REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)

# LibTorch's target has its include folders and flags; ours marks them as system headers. The standard library comes
# first, because PyPI's libtorch.so exports parts of an old one (std::filesystem).
add_library(chorus_torch INTERFACE)
target_link_libraries(chorus_torch INTERFACE stdc++ ${TORCH_LIBRARIES})
target_include_directories(chorus_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
separate_arguments(CHORUS_TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(chorus_torch INTERFACE ${CHORUS_TORCH_FLAGS})

# The libraries behind Debian's LibTorch, for matmuls without LibTorch's overhead; optional. oneDNN is faster where it has
# kernels for the processor.
find_library(OPENBLAS NAMES openblas libopenblas.so.0)
add_library(chorus_blas INTERFACE)
if(OPENBLAS)
  target_link_libraries(chorus_blas INTERFACE ${OPENBLAS})
  target_compile_definitions(chorus_blas INTERFACE CHORUS_HAS_BLAS)
  find_library(ONEDNN NAMES libdnnl.so.2)
  find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  if(ONEDNN AND ONEDNN_INCLUDE AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64")
    target_link_libraries(chorus_blas INTERFACE ${ONEDNN})
    target_include_directories(chorus_blas SYSTEM INTERFACE ${ONEDNN_INCLUDE})
    target_compile_definitions(chorus_blas INTERFACE CHORUS_HAS_ONEDNN)
  endif()
endif()

# gold links the many test programs in half the time, but fails on PyPI's libtorch.so.
find_program(GOLD ld.gold)
if(GOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT Torch_DIR MATCHES "python")
  add_link_options(-fuse-ld=gold)
endif()

# GPU kernels are compiled at run time; the build needs only CUDA's headers.
if(TARGET torch_cuda)
  find_package(CUDAToolkit)
  if(CUDAToolkit_FOUND)
    target_include_directories(chorus_torch SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(chorus_torch INTERFACE CHORUS_HAS_CUDA)
    target_link_libraries(chorus_torch INTERFACE CUDA::cudart)
  endif()
endif()

if(TARGET yaml-cpp::yaml-cpp)
  set(CHORUS_YAML yaml-cpp::yaml-cpp)
else()
  set(CHORUS_YAML yaml-cpp)
endif()

# Unicode tables. Set CHORUS_UTF8PROC_SOURCE to a source folder on machines without the package.
set(CHORUS_UTF8PROC_SOURCE "" CACHE PATH "utf8proc sources, where the library is not installed")
find_library(UTF8PROC_LIBRARY utf8proc)
find_path(UTF8PROC_INCLUDE utf8proc.h)
add_library(chorus_utf8proc INTERFACE)
if(CHORUS_UTF8PROC_SOURCE)
  add_library(utf8proc_bundled STATIC "${CHORUS_UTF8PROC_SOURCE}/utf8proc.c")
  target_compile_definitions(utf8proc_bundled PUBLIC UTF8PROC_STATIC)
  target_include_directories(utf8proc_bundled SYSTEM PUBLIC "${CHORUS_UTF8PROC_SOURCE}")
  target_link_libraries(chorus_utf8proc INTERFACE utf8proc_bundled)
elseif(UTF8PROC_LIBRARY AND UTF8PROC_INCLUDE)
  target_link_libraries(chorus_utf8proc INTERFACE ${UTF8PROC_LIBRARY})
  target_include_directories(chorus_utf8proc SYSTEM INTERFACE ${UTF8PROC_INCLUDE})
else()
  message(FATAL_ERROR "utf8proc is missing: run tools/bootstrap, or set CHORUS_UTF8PROC_SOURCE to its sources")
endif()

# Optional: without it the folders that need it are not built, and their names are listed as unavailable.
find_package(HDF5 COMPONENTS C)
find_package(Protobuf)
find_library(ZSTD_LIBRARY zstd)
find_path(ZSTD_INCLUDE zstd.h)
if(ZSTD_LIBRARY AND ZSTD_INCLUDE)
  add_library(chorus_zstd_library INTERFACE)
  target_link_libraries(chorus_zstd_library INTERFACE ${ZSTD_LIBRARY})
  target_include_directories(chorus_zstd_library SYSTEM INTERFACE ${ZSTD_INCLUDE})
endif()
find_package(OpenSSL)
# By path: gRPC's CMake package would look for another protobuf and abseil than LibTorch's.
find_library(GRPCPP_LIBRARY grpc++)
find_library(GRPC_LIBRARY grpc)
find_library(GPR_LIBRARY gpr)
find_library(ABSL_SYNCHRONIZATION_LIBRARY absl_synchronization)  # used by gRPC's headers
find_path(GRPC_INCLUDE grpcpp/grpcpp.h)
if(GRPCPP_LIBRARY AND GRPC_LIBRARY AND GPR_LIBRARY AND ABSL_SYNCHRONIZATION_LIBRARY AND GRPC_INCLUDE AND OPENSSL_FOUND)
  set(GRPC_FOUND TRUE)
  add_library(chorus_grpc_library INTERFACE)
  target_link_libraries(chorus_grpc_library INTERFACE ${GRPCPP_LIBRARY} ${GRPC_LIBRARY} ${GPR_LIBRARY}
                                                      ${ABSL_SYNCHRONIZATION_LIBRARY} OpenSSL::SSL OpenSSL::Crypto)
  target_include_directories(chorus_grpc_library SYSTEM INTERFACE ${GRPC_INCLUDE})
endif()

# Newer LibTorch ships headers of other fmt and protobuf versions, which would hide the matching ones.
# chorus_prefer(folder/with/headers name): takes <name/...> from there.
function(chorus_prefer INCLUDE NAME)
  foreach(folder ${TORCH_INCLUDE_DIRS})
    if(EXISTS "${folder}/${NAME}" AND NOT folder STREQUAL INCLUDE)
      file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/first")
      file(CREATE_LINK "${INCLUDE}/${NAME}" "${CMAKE_BINARY_DIR}/first/${NAME}" SYMBOLIC)
    endif()
  endforeach()
endfunction()
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
chorus_prefer("${fmt_include}" fmt)
if(Protobuf_FOUND)
  chorus_prefer("${Protobuf_INCLUDE_DIRS}" google)
endif()
if(EXISTS "${CMAKE_BINARY_DIR}/first")
  include_directories(BEFORE SYSTEM "${CMAKE_BINARY_DIR}/first")
endif()

if(CHORUS_TESTS)
  set(CHORUS_GTEST_SOURCE "" CACHE PATH "GoogleTest sources, where the library is not installed")
  if(CHORUS_GTEST_SOURCE)
    set(INSTALL_GTEST OFF)
    add_subdirectory("${CHORUS_GTEST_SOURCE}" "${CMAKE_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
  else()
    find_package(GTest REQUIRED)
  endif()
  include(GoogleTest)
endif()
