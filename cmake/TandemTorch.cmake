# Finds LibTorch and makes `tandem_torch`: its headers, libtorch_cpu and libc10, and nothing of CUDA. A program that
# links the CUDA libraries starts slower and takes three times the memory, so they are loaded only when a CUDA device is
# asked for.
#
# Looked for, in this order: -DLIBTORCH=DIR or $LIBTORCH (an unpacked LibTorch, or an installed `torch` package), the
# prefixes of CMAKE_PREFIX_PATH, and the places named in TANDEM_TORCH_FALLBACK. Sets TANDEM_TORCH_ROOT and
# TANDEM_TORCH_VERSION. The installed package uses this same file.
include_guard(GLOBAL)
set(LIBTORCH "" CACHE PATH "An unpacked LibTorch, or the folder of an installed torch package")

if(LIBTORCH)
  set(candidates ${LIBTORCH})
elseif(NOT "$ENV{LIBTORCH}" STREQUAL "")
  set(candidates $ENV{LIBTORCH})
else()
  string(REPLACE ":" ";" env_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  set(candidates ${CMAKE_PREFIX_PATH} ${env_prefixes} ${TANDEM_TORCH_FALLBACK})
endif()

set(TANDEM_TORCH_ROOT "")
foreach(candidate IN LISTS candidates)
  # CMAKE_PREFIX_PATH may name the package's root, its share/cmake as torch.utils.cmake_prefix_path does, or
  # site-packages.
  foreach(root ${candidate} ${candidate}/../.. ${candidate}/torch)
    if(NOT TANDEM_TORCH_ROOT AND EXISTS ${root}/include/torch/csrc/api/include/torch/torch.h
       AND EXISTS ${root}/lib/libtorch_cpu.so)
      get_filename_component(TANDEM_TORCH_ROOT ${root} REALPATH)
    endif()
  endforeach()
endforeach()
if(NOT TANDEM_TORCH_ROOT)
  message(FATAL_ERROR "LibTorch was not found (looked at: ${candidates}).\n"
          "Run tools/bootstrap, or point to one that you have: cmake -DLIBTORCH=/path/to/libtorch")
endif()

set(version_header ${TANDEM_TORCH_ROOT}/include/torch/headeronly/version.h)
if(NOT EXISTS ${version_header})  # where older ones have it
  set(version_header ${TANDEM_TORCH_ROOT}/include/torch/csrc/api/include/torch/version.h)
endif()
file(STRINGS ${version_header} version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
string(REGEX MATCHALL "[0-9]+" version_parts "${version_lines}")
list(JOIN version_parts "." TANDEM_TORCH_VERSION)
if(TANDEM_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch ${TANDEM_TORCH_VERSION} in ${TANDEM_TORCH_ROOT} is too old: tandem needs 2.11 or newer")
endif()

# The libraries are linked by path, so that CMake gives programs a run path to them. In a wheel, libtorch_cpu needs
# libcudart and libcupti of the wheel's own CUDA packages: at run time it finds them by itself, but the linker must be
# told.
file(GLOB cuda_lib_dirs ${TANDEM_TORCH_ROOT}/../nvidia/*/lib)
foreach(library torch_cpu c10)
  add_library(tandem_${library} SHARED IMPORTED GLOBAL)
  set_target_properties(tandem_${library} PROPERTIES IMPORTED_LOCATION ${TANDEM_TORCH_ROOT}/lib/lib${library}.so)
endforeach()
add_library(tandem_torch INTERFACE IMPORTED GLOBAL)
target_include_directories(tandem_torch SYSTEM INTERFACE
  ${TANDEM_TORCH_ROOT}/include ${TANDEM_TORCH_ROOT}/include/torch/csrc/api/include)
target_link_libraries(tandem_torch INTERFACE tandem_torch_cpu tandem_c10)
foreach(dir IN LISTS cuda_lib_dirs)
  target_link_options(tandem_torch INTERFACE -Wl,-rpath-link,${dir})
endforeach()
