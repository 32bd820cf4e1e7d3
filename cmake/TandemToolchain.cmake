# Compiler, warnings, sanitizers and compiler cache.
find_package(Threads REQUIRED)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache needs these allowances to cache files that use a precompiled header.
  set(allowances pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=${allowances} ${CCACHE})
endif()

add_library(tandem_warnings INTERFACE)
target_compile_options(tandem_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
                       -Woverloaded-virtual -Wno-unused-parameter $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)

# For tests, examples and the program's own parts, which spend little time in their own code: optimising a test would
# take two thirds of its compilation.
add_library(tandem_quick_build INTERFACE)
target_compile_options(tandem_quick_build INTERFACE $<$<CONFIG:Release>:-O1>)

# Every build gives the same numbers: there is no contraction to fused multiply-add, which would depend on the target's
# instruction set.
add_compile_options(-ffp-contract=off $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)

# g++ collects its garbage each time it grew by a third: a tenth of the time for a tenth less memory.
add_compile_options("$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-expand=400 --param ggc-min-heapsize=2000000>")

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES undefined)
    # It compares the type of an object with typeinfo that LibTorch keeps to itself.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  # The environment of tests, and of the programs that they start; tools/test reads it. LibTorch is not instrumented: it
  # keeps some memory for ever, and defines the same inline variables as our objects do.
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/sanitizer.env CONTENT [[
ASAN_OPTIONS=detect_odr_violation=0:strict_string_checks=1:detect_stack_use_after_return=1
LSAN_OPTIONS=suppressions=@PROJECT_SOURCE_DIR@/tools/lsan.supp:print_suppressions=0
UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=@PROJECT_SOURCE_DIR@/tools/tsan.supp
]] @ONLY)
endif()
if(TANDEM_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
