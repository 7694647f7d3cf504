# chorus_protobuf(NAME file.proto): a library chorus_NAME_proto of generated code, which stays in the build folder and is
# compiled without our warnings.
function(chorus_protobuf NAME PROTO)
  get_filename_component(stem "${PROTO}" NAME_WE)
  get_filename_component(folder "${PROTO}" DIRECTORY)
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/generated")
  file(MAKE_DIRECTORY "${generated}")
  add_custom_command(
    OUTPUT "${generated}/${stem}.pb.cc" "${generated}/${stem}.pb.h"
    COMMAND "${Protobuf_PROTOC_EXECUTABLE}" "--cpp_out=${generated}" "--proto_path=${folder}" "${PROTO}"
    DEPENDS "${PROTO}")
  add_library(chorus_${NAME}_proto STATIC "${generated}/${stem}.pb.cc" "${generated}/${stem}.pb.h")
  # By path: newer LibTorch packages define protobuf::libprotobuf differently.
  target_link_libraries(chorus_${NAME}_proto PUBLIC ${Protobuf_LIBRARIES})
  target_include_directories(chorus_${NAME}_proto SYSTEM PUBLIC ${Protobuf_INCLUDE_DIRS})
  target_compile_options(chorus_${NAME}_proto PRIVATE -w)
  target_include_directories(chorus_${NAME}_proto SYSTEM INTERFACE "${generated}")
endfunction()
