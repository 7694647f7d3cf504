# Prints a summary of the configuration.
get_property(components GLOBAL PROPERTY CHORUS_COMPONENTS)
list(JOIN components " " components)
message(STATUS "Chorus ${PROJECT_VERSION} (${CMAKE_BUILD_TYPE}), LibTorch ${Torch_VERSION}")
message(STATUS "  components: ${components}")
message(STATUS "  sanitizers: ${CHORUS_SANITIZE}  ccache: ${CCACHE}  HDF5: ${HDF5_FOUND}  protobuf: ${Protobuf_FOUND}  zstd: ${ZSTD_LIBRARY}  gRPC: ${GRPC_LIBRARY}  MQTT: ${PAHO_LIBRARY}  sodium: ${SODIUM_LIBRARY}")
