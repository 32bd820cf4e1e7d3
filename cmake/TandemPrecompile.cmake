# The precompiled header of everything that includes LibTorch is compiled once and reused by every target. It holds what
# most sources need, but not <torch/torch.h>: every source instantiates the header's pending templates again, which
# takes 6 s with all of torch/torch.h and 2 s with these.
if(TANDEM_PCH)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/tandem_pch.cc CONTENT "")  # left alone when it is there
  add_library(tandem_pch OBJECT ${PROJECT_BINARY_DIR}/tandem_pch.cc)
  target_link_libraries(tandem_pch PRIVATE tandem_torch Threads::Threads tandem_warnings)
  target_precompile_headers(tandem_pch PRIVATE <ATen/ATen.h> <torch/nn/module.h>)
  set_target_properties(tandem_pch PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()

function(tandem_precompile target)
  if(NOT TANDEM_PCH)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM tandem_pch)
  # An executable would be compiled with -fPIE, and the compiler then ignores a header that was precompiled with -fPIC.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
