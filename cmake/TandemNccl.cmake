# What groups across a network include beyond LibTorch. Whatever is missing, the rest builds, and asking for a group
# that is not there is an error that says so.
#
#   TANDEM_NCCL_INCLUDE   nccl.h, for libtandem_nccl.so, which is loaded when it is needed and needs CUDA's headers
#                         (TandemCuda.cmake)
if(NOT TARGET tandem_comm)  # a build of the layers without LibTorch
  return()
endif()
# The wheel's nccl.h fits the NCCL that is loaded.
find_path(TANDEM_NCCL_INCLUDE nccl.h HINTS ${TANDEM_WHEEL_INCLUDES} /usr/local/cuda/include DOC "Folder of nccl.h")
if(TANDEM_NCCL_INCLUDE AND TARGET tandem_cuda)
  tandem_cuda_module(tandem_nccl ${PROJECT_SOURCE_DIR}/tandem/comm/nccl/process_group.cc)
  target_include_directories(tandem_nccl SYSTEM PRIVATE ${TANDEM_NCCL_INCLUDE})
  target_compile_definitions(tandem_nccl PRIVATE USE_C10D_NCCL)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tandem/comm/links/network_group.cc TARGET_DIRECTORY tandem_comm
                              PROPERTIES COMPILE_DEFINITIONS TANDEM_NCCL)
  add_dependencies(tandem_comm tandem_nccl)
  message(STATUS "NCCL headers: ${TANDEM_NCCL_INCLUDE}")
endif()
