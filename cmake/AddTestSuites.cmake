# Runs after a GoogleTest program is linked, and writes the tests of ctest to OUT: one for each suite of PROGRAM, with
# LABELS, COST and TIMEOUT. A test for each case would cost a quarter of a second each, for loading LibTorch. A test for
# each program would be slow under AddressSanitizer, where an allocation takes longer the more places have allocated
# before. LibTorch's threads do not spin while they wait for each other, since several tests share the cores.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
# Only the names become a list: the printed parameters may contain semicolons and brackets, at which CMake splits or
# joins.
string(REGEX MATCHALL "\n[A-Za-z0-9_/]+\\.[ \n]" suites "\n${listed}")
set(tests "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[. \n]" "" suite "${suite}")
  string(APPEND tests "add_test([==[${suite}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${suite}.*]==])\n"
                      "set_tests_properties([==[${suite}]==] PROPERTIES LABELS [==[${LABELS}]==] COST ${COST}\n"
                      "                     TIMEOUT ${TIMEOUT} ENVIRONMENT OMP_WAIT_POLICY=passive)\n")
endforeach()
if(tests STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE ${OUT} "${tests}")
