# Where programs look for shared libraries when they run: where they themselves say, and nowhere else. No element of a
# run path is empty, since the loader takes that for the current folder, where anybody may have put a library.
#
#   TANDEM_INSTALL_LIBTORCH   how an installed program finds LibTorch:
#     copy    in a copy of LibTorch's CPU libraries, which `make install` puts beside our own libraries, so that the
#             program needs nothing of the folder that it was built in. The default where LibTorch lies in this
#             checkout, as that of tools/bootstrap does.
#     refer   in LibTorch's own place, by an absolute path. The default where that is outside of this checkout: the user
#             has named it. A program for CUDA wants this, since CUDA's libraries are not copied.
#
# Libraries of other places than the system's are named by CMAKE_INSTALL_RPATH, whose elements come first.
include(GNUInstallDirs)
cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${TANDEM_TORCH_ROOT}" NORMALIZE libtorch_is_ours)
set(TANDEM_INSTALL_LIBTORCH "" CACHE STRING "How installed programs find LibTorch: copy, refer, or empty for the usual")
set_property(CACHE TANDEM_INSTALL_LIBTORCH PROPERTY STRINGS "" copy refer)
set(TANDEM_LIBTORCH_IS "${TANDEM_INSTALL_LIBTORCH}")
if("${TANDEM_LIBTORCH_IS}" STREQUAL "")
  set(TANDEM_LIBTORCH_IS refer)
  if(libtorch_is_ours)
    set(TANDEM_LIBTORCH_IS copy)
  endif()
elseif(NOT TANDEM_LIBTORCH_IS MATCHES "^(copy|refer)$")
  message(FATAL_ERROR "TANDEM_INSTALL_LIBTORCH is '${TANDEM_INSTALL_LIBTORCH}'; it may be copy or refer")
endif()

# What is built finds our own modules beside it, and CMake adds the folder of LibTorch.
list(APPEND CMAKE_BUILD_RPATH $ORIGIN/../lib)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH OFF)

set(libtorch_copy tandem/torch/lib)  # within our folder of libraries
if(TANDEM_LIBTORCH_IS STREQUAL copy)
  set(libtorch_of_programs $ORIGIN/../${CMAKE_INSTALL_LIBDIR}/${libtorch_copy})
  set(libtorch_of_modules $ORIGIN/${libtorch_copy})
else()
  set(libtorch_of_programs ${TANDEM_TORCH_ROOT}/lib)
  set(libtorch_of_modules ${TANDEM_TORCH_ROOT}/lib)
endif()

# tandem_run_path(TARGET): the run path of a program or module that is installed, and of the same file where it is
# built: CMake would put a colon behind one that it changes at the installation, and that is an empty element. So the
# folder of the build has links in the places of what is installed.
function(tandem_run_path target)
  set(elements ${CMAKE_INSTALL_RPATH})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    list(APPEND elements $ORIGIN/../${CMAKE_INSTALL_LIBDIR} ${libtorch_of_programs})
  else()
    list(APPEND elements $ORIGIN ${libtorch_of_modules})
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${elements}" BUILD_WITH_INSTALL_RPATH ON)
  set(built ${PROJECT_BINARY_DIR}/lib)
  file(MAKE_DIRECTORY ${built})
  if(NOT EXISTS ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR})  # lib64, for example
    cmake_path(GET CMAKE_INSTALL_LIBDIR PARENT_PATH above)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/${above})
    file(CREATE_LINK ${built} ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR} SYMBOLIC)
  endif()
  if(TANDEM_LIBTORCH_IS STREQUAL copy)
    cmake_path(GET libtorch_copy PARENT_PATH above)
    file(MAKE_DIRECTORY ${built}/${above})
    file(CREATE_LINK ${TANDEM_TORCH_ROOT}/lib ${built}/${libtorch_copy} SYMBOLIC)
  endif()
endfunction()

# Installs what LibTorch's CPU libraries need of LibTorch's own packages, in the places relative to each other that
# their run paths name.
function(tandem_install_libtorch)
  if(NOT TANDEM_LIBTORCH_IS STREQUAL copy)
    return()
  endif()
  set(destination ${CMAKE_INSTALL_LIBDIR}/${libtorch_copy})
  set(from ${TANDEM_TORCH_ROOT}/lib)
  cmake_path(GET TANDEM_TORCH_ROOT PARENT_PATH packages)
  install(CODE "
    set(roots [==[${from}/libtorch_cpu.so]==] [==[${from}/libc10.so]==])
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES \${roots} RESOLVED_DEPENDENCIES_VAR needed
         UNRESOLVED_DEPENDENCIES_VAR missing POST_INCLUDE_REGEXES [==[^${packages}/]==] POST_EXCLUDE_REGEXES .*)
    if(missing)
      message(FATAL_ERROR \"LibTorch in ${from} needs libraries that are not found: \${missing}\")
    endif()
    list(APPEND roots \${needed})
    list(REMOVE_DUPLICATES roots)
    foreach(library IN LISTS roots)
      file(RELATIVE_PATH place [==[${from}]==] \${library})
      cmake_path(GET place PARENT_PATH folder)
      cmake_path(SET goal NORMALIZE \"\${CMAKE_INSTALL_PREFIX}/${destination}/\${folder}\")
      file(INSTALL \${library} DESTINATION \${goal} USE_SOURCE_PERMISSIONS FOLLOW_SYMLINK_CHAIN)
    endforeach()")
endfunction()
