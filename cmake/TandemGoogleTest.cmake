# GoogleTest from its sources (a copy that TANDEM_GOOGLETEST names or tools/bootstrap made, or Debian's googletest package),
# else an installed one.
include(GoogleTest)

find_path(TANDEM_GOOGLETEST CMakeLists.txt PATHS $ENV{TANDEM_GOOGLETEST} ${PROJECT_SOURCE_DIR}/.cache/googletest /usr/src/googletest
          NO_DEFAULT_PATH DOC "Folder of the GoogleTest sources")
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

# What a test program links.
add_library(tandem_testing INTERFACE)
target_link_libraries(tandem_testing INTERFACE tandem_warnings tandem_quick_build GTest::gmock GTest::gtest_main)

# tandem_discover_tests(TARGET LABELS unit... [TIMEOUT seconds]): every test of a GoogleTest program as a test of its own,
# so that one that crashes takes no other with it. Under a sanitizer, where starting a program takes long, the program is one.
#
# Labels: unit (a layer by itself), process (several processes, killed ones too), gpu (needs a CUDA
# device), parity (needs Python packages), learn (trains until it is good), slow (takes more than seconds), namespaces (makes
# network namespaces).
add_custom_target(unit_tests)  # builds all programs with that label
function(tandem_discover_tests target)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 240)
  endif()
  if(unit IN_LIST ARG_LABELS)
    add_dependencies(unit_tests ${target})
  endif()
  if(TANDEM_SANITIZE)
    math(EXPR timeout "${ARG_TIMEOUT} * 10")
    add_test(NAME ${target} COMMAND ${target})
    set_tests_properties(${target} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${timeout})
  else()
    gtest_discover_tests(${target} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()
