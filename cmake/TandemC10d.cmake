# What ProcessGroupGloo.hpp includes lies in Gloo's headers, which LibTorch does not bring (Debian: libgloo-dev). They are for
# one source of tandem_comm; the code of Gloo itself is in LibTorch.
find_path(TANDEM_GLOO_INCLUDE gloo/transport/device.h DOC "Folder of Gloo's headers; without them there is no Gloo group")
set(with_gloo no)
if(TANDEM_GLOO_INCLUDE)
  set(with_gloo ${TANDEM_GLOO_INCLUDE})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tandem/comm/gloo_backend.cc TARGET_DIRECTORY tandem_comm PROPERTIES
                              COMPILE_DEFINITIONS "TANDEM_GLOO;USE_C10D_GLOO" SKIP_PRECOMPILE_HEADERS ON)
  if(NOT TANDEM_GLOO_INCLUDE STREQUAL /usr/include)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tandem/comm/gloo_backend.cc TARGET_DIRECTORY tandem_comm PROPERTIES
                                COMPILE_OPTIONS "SHELL:-isystem ${TANDEM_GLOO_INCLUDE}")
  endif()
endif()
message(STATUS "Gloo headers: ${with_gloo}")
