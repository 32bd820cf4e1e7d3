# libtandem_cuda.so: what of tandem includes CUDA's headers, but for NCCL (TandemNccl.cmake). It is loaded when a CUDA
# device is asked for. Where the headers are missing the rest builds, and says at run time that CUDA graphs are not
# there.
#
#   TANDEM_CUDA_INCLUDE   CUDA's headers; a compiler for CUDA is not needed
if(NOT TARGET tandem_device)  # a build of the layers without LibTorch
  return()
endif()

# The wheel's own CUDA packages come first, since they fit the CUDA that is loaded. But torch does not require all of
# them: cuda_runtime.h includes headers of crt/, which come with CUDA's compiler (nvidia-cuda-crt).
function(tandem_has_cuda_headers result folder)
  foreach(header IN ITEMS cuda_runtime.h crt/host_config.h)
    if(NOT EXISTS ${folder}/${header})
      set(${result} FALSE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
file(GLOB TANDEM_WHEEL_INCLUDES ${TANDEM_TORCH_ROOT}/../nvidia/*/include)
find_path(TANDEM_CUDA_INCLUDE cusolverDn.h HINTS ${TANDEM_WHEEL_INCLUDES} /usr/local/cuda/include
          VALIDATOR tandem_has_cuda_headers DOC "Folder of CUDA's headers")
message(STATUS "CUDA headers: ${TANDEM_CUDA_INCLUDE}")
if(NOT TANDEM_CUDA_INCLUDE OR NOT EXISTS ${TANDEM_TORCH_ROOT}/lib/libtorch_cuda.so)
  return()
endif()

# A library of sources that need LibTorch's CUDA part, for dlopen().
function(tandem_cuda_module name)
  add_library(${name} MODULE ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${name} SYSTEM PRIVATE ${TANDEM_CUDA_INCLUDE})
  target_link_libraries(${name} PRIVATE tandem_torch ${TANDEM_TORCH_ROOT}/lib/libtorch_cuda.so
                        ${TANDEM_TORCH_ROOT}/lib/libc10_cuda.so)
endfunction()

tandem_cuda_module(tandem_cuda ${PROJECT_SOURCE_DIR}/tandem/device/cuda/graph.cc)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tandem/device/recorded_work.cc TARGET_DIRECTORY tandem_device
                            PROPERTIES COMPILE_DEFINITIONS TANDEM_CUDA_GRAPHS)
add_dependencies(tandem_device tandem_cuda)
