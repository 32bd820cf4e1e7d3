# The release build is hardened as distributions harden their packages. TANDEM_HARDEN=OFF leaves that to whoever calls
# CMake, who may have flags of his own (dpkg-buildflags, for example).
#
#   compiled with   -fstack-protector-strong -fstack-clash-protection -fcf-protection (x86), _GLIBCXX_ASSERTIONS, and
#                   _FORTIFY_SOURCE=3, or 2 where compiler and C library have no 3
#   linked with     -pie, -z relro -z now (full RELRO, everything bound at the start), -z noexecstack
#
# All of this holds for what is compiled here, and for nothing that users compile: an installed target hands on none of
# these flags. Sanitizers and fuzzers bring checks of their own, which these would hide or clash with. Without
# optimisation there is no _FORTIFY_SOURCE, which needs it. tests/package/hardening_test.py looks at the binaries.
option(TANDEM_HARDEN "Harden the build as distributions do; not with sanitizers" ON)
set(TANDEM_HARDENED OFF)
set(TANDEM_FORTIFY 0)
if(NOT TANDEM_HARDEN OR TANDEM_SANITIZE OR TANDEM_BUILD_FUZZERS)
  return()
endif()
set(TANDEM_HARDENED ON)

include(CheckCXXCompilerFlag)
foreach(flag IN ITEMS stack-protector-strong stack-clash-protection cf-protection)
  string(MAKE_C_IDENTIFIER "TANDEM_HAS_${flag}" known)
  check_cxx_compiler_flag(-f${flag} ${known})
  if(${known})
    add_compile_options(-f${flag})
  endif()
endforeach()
add_compile_definitions(_GLIBCXX_ASSERTIONS)

# What is undefined first is the level that some compilers bring, which would be defined twice.
include(CheckCXXSourceCompiles)
foreach(level IN ITEMS 3 2)
  set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}")
  check_cxx_source_compiles("#include <cstdlib>
#if __USE_FORTIFY_LEVEL != ${level}
#error this level is not known
#endif
int main() {}" TANDEM_HAS_FORTIFY_${level})
  if(TANDEM_HAS_FORTIFY_${level})
    if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
      set(TANDEM_FORTIFY ${level})
    endif()
    add_compile_options("$<$<NOT:$<CONFIG:Debug>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}>")
    break()
  endif()
endforeach()
unset(CMAKE_REQUIRED_FLAGS)

add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie> LINKER:-z,relro LINKER:-z,now
                 LINKER:-z,noexecstack)
