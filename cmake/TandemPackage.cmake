# The CMake package: find_package(tandem), from where `make install` put it or from this build folder. It gives
#   tandem::tandem   the whole library, with LibTorch
#   tandem::env      the environment interface alone, without LibTorch: all that a plugin needs
#   tandem::<layer>  any other layer by its name
#   tandem::program  the program as a function, for a main() with environments of its own (needs yaml-cpp, cairo,
#                    giflib)
get_property(layers GLOBAL PROPERTY TANDEM_LAYERS)
set(targets)
foreach(layer IN LISTS layers)
  add_library(tandem::${layer} ALIAS tandem_${layer})
  set_target_properties(tandem_${layer} PROPERTIES EXPORT_NAME ${layer})
  list(APPEND targets tandem_${layer})
endforeach()
add_library(tandem_tandem INTERFACE)
target_link_libraries(tandem_tandem INTERFACE ${targets})
set_target_properties(tandem_tandem PROPERTIES EXPORT_NAME tandem)
add_library(tandem::tandem ALIAS tandem_tandem)
list(APPEND targets tandem_tandem)

if(TARGET tandem_program)
  add_library(tandem::program ALIAS tandem_program)
  foreach(part IN ITEMS config launch simulate run tune video cli plot train algorithms)
    set_target_properties(tandem_${part} PROPERTIES EXPORT_NAME program_${part})
    list(APPEND targets tandem_${part})
  endforeach()
  set_target_properties(tandem_program PROPERTIES EXPORT_NAME program)
  list(APPEND targets tandem_program)
endif()

# `make build` makes this target: everything for users, without tests and benches.
add_custom_target(programs DEPENDS ${targets})
if(TARGET tandem_program)
  add_dependencies(programs tandem)
endif()

if(NOT TANDEM_INSTALL OR NOT TANDEM_TORCH_LAYERS)
  return()
endif()

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandemConfig.cmake.in ${PROJECT_BINARY_DIR}/tandemConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${PROJECT_SOURCE_DIR}/cmake/TandemTorch.cmake ${PROJECT_BINARY_DIR}/TandemTorch.cmake COPYONLY)

install(TARGETS ${targets} EXPORT tandemTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(module tandem_cuda tandem_nccl)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    tandem_run_path(${module})
  endif()
endforeach()
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${package_dir})
export(EXPORT tandemTargets NAMESPACE tandem:: FILE ${PROJECT_BINARY_DIR}/tandemTargets.cmake)
install(FILES ${PROJECT_BINARY_DIR}/tandemConfig.cmake ${PROJECT_BINARY_DIR}/tandemConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/TandemTorch.cmake DESTINATION ${package_dir})
if(TARGET tandem_program)
  install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  tandem_run_path(tandem)
endif()
tandem_install_libtorch()

# Users see the public headers in include/tandem. The public ones include headers of include/tandem/internal as
# "tandem/...", which the compiler finds since the installed targets name both folders.
include(PublicHeaders)
set(public)
foreach(header IN LISTS TANDEM_PUBLIC_HEADERS)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/tandem/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder})
  list(APPEND public PATTERN "tandem/${header}" EXCLUDE)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/internal
        FILES_MATCHING PATTERN "*.h" PATTERN "tandem/app" EXCLUDE PATTERN "testing" EXCLUDE ${public})
if(TARGET tandem_program)  # the headers that an algorithm or an observer of a user's own is written with
  foreach(header IN ITEMS tune/tuning config/algorithm config/configuration config/option_table
                          config/train_options config/value_format run/line_schedule run/run_log run/update_metrics
                          train/run_observer)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${PROJECT_SOURCE_DIR}/tandem/app/${header}.h
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/internal/tandem/app/${folder})
  endforeach()
endif()
