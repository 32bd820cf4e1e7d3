# One CMake target a layer of the architecture (docs/architecture.md).
#
#   tandem_layer(NAME base [TORCH] [DEPENDS other layers...] [NEVER layers...] [LINK libraries...]
#                [FOLDER rl/env] [WINGS folders...] [ALONE folders...])
#
# builds libtandem_<name> from every *.cc of the folder and of its WINGS, and tandem_<name>_tests from their *_test.cc.
# TORCH says that the layer includes LibTorch; the others must not. ALONE names the wings whose sources are compiled one
# by one (tandem_unite). A dependency is what the layer may include, directly or through another, minus what it must
# NEVER include; tools/check_layers.py reads the same declarations. With TANDEM_TORCH_LAYERS=OFF the layers with TORCH
# are left out.
function(tandem_layer)
  cmake_parse_arguments(ARG "TORCH" "NAME;FOLDER" "DEPENDS;NEVER;LINK;WINGS;ALONE" ${ARGN})
  if(ARG_TORCH AND NOT TANDEM_TORCH_LAYERS)
    return()
  endif()
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${ARG_NAME})
  endif()
  set(dir ${PROJECT_SOURCE_DIR}/tandem/${ARG_FOLDER})
  list(TRANSFORM ARG_WINGS PREPEND ${dir}/)
  list(TRANSFORM ARG_WINGS APPEND /*.cc)
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc ${ARG_WINGS})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  set(target tandem_${ARG_NAME})
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    tandem_warn(${target})
    tandem_unite(${target})
    foreach(wing IN LISTS ARG_ALONE)
      file(GLOB alone ${dir}/${wing}/*.cc)
      list(FILTER alone EXCLUDE REGEX "_test\\.cc$")
      set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
    if(ARG_TORCH)
      tandem_precompile(${target})
    else()
      target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             "$<INSTALL_INTERFACE:include;include/tandem/internal>")
  target_compile_features(${target} ${scope} cxx_std_20)
  list(TRANSFORM ARG_DEPENDS PREPEND tandem_)
  target_link_libraries(${target} ${scope} ${ARG_DEPENDS} Threads::Threads ${ARG_LINK})
  if(ARG_TORCH)
    target_link_libraries(${target} ${scope} tandem_torch)
  endif()
  if(NOT ARG_FOLDER MATCHES "^app(/|$)")  # the program's own layers are no part of the library
    set_property(GLOBAL APPEND PROPERTY TANDEM_LAYERS ${ARG_NAME})
  endif()

  if(tests AND TANDEM_BUILD_TESTS AND (ARG_TORCH OR TANDEM_TORCH_FREE_TESTS))
    add_executable(${target}_tests ${tests})
    target_link_libraries(${target}_tests PRIVATE ${target} tandem_testing)
    tandem_unite(${target}_tests)
    if(ARG_TORCH)
      tandem_precompile(${target}_tests)
      tandem_discover_tests(${target}_tests LABELS unit)
    else()
      tandem_discover_tests(${target}_tests LABELS unit torchfree)
    endif()
  endif()
endfunction()

# Compiling a source mostly means compiling headers (LibTorch's, GoogleTest's, CLI11's, the standard library's), so
# twelve sources are compiled as one. They also share their names then. Sources for some kinds of processors (*_avx.cc)
# are compiled alone. Trainings spend their time in these, and they are optimised under sanitizers, too: otherwise most
# of a test under AddressSanitizer would be calls for single vector instructions. So are a few other loops.
function(tandem_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TANDEM_UNITY} UNITY_BUILD_BATCH_SIZE 12)
  # In a shared source the compiler mistakes a class with members from an unnamed namespace for one of a header.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "(_avx|sha256_blocks|orthonormal_rows)\\.cc$")
  if(sources)
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
                                COMPILE_OPTIONS "$<$<CONFIG:RelWithDebInfo>:-O2>")
  endif()
endfunction()

# For a target that is installed, where tandem_warnings itself cannot be linked.
function(tandem_warn target)
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:tandem_warnings,INTERFACE_COMPILE_OPTIONS>)
endfunction()

# The same as linking tandem_quick_build, for a target that is installed.
function(tandem_build_quickly target)
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:tandem_quick_build,INTERFACE_COMPILE_OPTIONS>)
endfunction()
