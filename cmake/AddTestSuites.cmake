# Run after a GoogleTest program is linked: writes to OUT the tests of ctest, one for each suite of PROGRAM, with
# LABELS, COST and TIMEOUT. Not one a case, since each process that loads LibTorch spends a quarter of a second on that;
# and not one a program, since AddressSanitizer takes ever longer for an allocation the more of them there were from
# different places. LibTorch's threads do not spin where they wait for each other, as they do by default: several tests
# share the cores.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed TIMEOUT 60 COMMAND_ERROR_IS_FATAL ANY)
# Only names are made a list: what is printed of parameters may have semicolons and brackets, by which CMake splits or
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
