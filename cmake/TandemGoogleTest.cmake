# GoogleTest from its sources (a copy that TANDEM_GOOGLETEST names or tools/bootstrap made, or Debian's googletest
# package), else an installed one.
include(GoogleTest)

find_path(TANDEM_GOOGLETEST CMakeLists.txt PATHS $ENV{TANDEM_GOOGLETEST} ${PROJECT_SOURCE_DIR}/.cache/googletest
          /usr/src/googletest NO_DEFAULT_PATH DOC "Folder of the GoogleTest sources")
if(TANDEM_GOOGLETEST)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  add_subdirectory(${TANDEM_GOOGLETEST} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  foreach(name gtest gtest_main gmock)
    if(NOT TARGET GTest::${name})
      add_library(GTest::${name} ALIAS ${name})
    endif()
    # g++ 12 warns of the standard library's own code here.
    target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:tandem_quick_build,INTERFACE_COMPILE_OPTIONS>
                           $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  endforeach()
else()
  find_package(GTest REQUIRED)
endif()

# Test programs link this.
add_library(tandem_testing INTERFACE)
target_link_libraries(tandem_testing INTERFACE tandem_warnings tandem_quick_build GTest::gmock GTest::gtest_main)

# tandem_discover_tests(TARGET LABELS unit...): the suites of a GoogleTest program by eights as tests, so that one that
# crashes takes few other suites with it (AddTestSuites.cmake). Tests that start programs themselves are found one by
# one instead (gtest_discover_tests).
#
# ctest begins with those of the highest COST, so that no long one is left when the others are done: 100 for whole
# programs, 50 for processes, and for units the more the higher the layer.
#
# Labels: unit (a layer by itself), process (several processes, killed ones too), gpu (needs a CUDA
# device), parity (needs Python packages), learn (trains until it is good), slow (takes more than seconds), namespaces
# (makes network namespaces).
add_custom_target(unit_tests)  # builds all programs with that label
function(tandem_discover_tests target)
  cmake_parse_arguments(ARG "" "" "LABELS" ${ARGN})
  if(unit IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${target})
  endif()
  get_target_property(lower unit_tests MANUALLY_ADDED_DEPENDENCIES)
  list(LENGTH lower cost)
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${suites} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:${target}> -D OUT=${suites}
                             -D "LABELS=${ARG_LABELS}" -D COST=${cost} -D TIMEOUT=900
                             -P ${PROJECT_SOURCE_DIR}/cmake/AddTestSuites.cmake)
  # ctest reads this file, which must exist before the program does.
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS [==[${suites}]==])\n  include([==[${suites}]==])\nelse()\n"
                        "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
