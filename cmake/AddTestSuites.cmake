# Runs after a GoogleTest program is linked, and writes the tests of ctest to OUT, with LABELS, COST and TIMEOUT: the
# suites of PROGRAM by eights. A test for each case, or for each suite, would cost a quarter of a second each, for
# loading LibTorch, and half a second under AddressSanitizer. A test for each program would be slow there, where an
# allocation takes longer the more places have allocated before. Suites of parameters (A/B) are long, so each is a test
# of its own. LibTorch computes on one thread, and those that a test asks for do not spin while they wait for each
# other, since several tests share the cores.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
set(together 8)
set(tests "")
function(add_suites suites)
  if(NOT suites)
    return()
  endif()
  list(JOIN suites "+" name)
  list(TRANSFORM suites APPEND ".*")
  list(JOIN suites ":" filter)
  string(APPEND tests "add_test([==[${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${filter}]==])\n"
                      "set_tests_properties([==[${name}]==] PROPERTIES LABELS [==[${LABELS}]==] COST ${COST}\n"
                      "                     TIMEOUT ${TIMEOUT}\n"
                      "                     ENVIRONMENT [==[OMP_NUM_THREADS=1;OMP_WAIT_POLICY=passive]==])\n")
  set(tests "${tests}" PARENT_SCOPE)
endfunction()
# Only the names become a list: the printed parameters may contain semicolons and brackets, at which CMake splits or
# joins.
string(REGEX MATCHALL "\n[A-Za-z0-9_/]+\\.[ \n]" suites "\n${listed}")
set(group "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[. \n]" "" suite "${suite}")
  if(suite MATCHES "/")
    add_suites("${suite}")
    continue()
  endif()
  list(APPEND group "${suite}")
  list(LENGTH group size)
  if(size EQUAL together)
    add_suites("${group}")
    set(group "")
  endif()
endforeach()
add_suites("${group}")
if(tests STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE ${OUT} "${tests}")
