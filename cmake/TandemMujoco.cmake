# Finds MuJoCo's headers, for the environments of tandem/rl/env/mujoco/tasks. Without them all else builds, and asking
# for one of these environments is an error that says what to install. The library itself is loaded when it is needed.
#
#   TANDEM_MUJOCO   an installed `mujoco` package, or an unpacked release of MuJoCo; by default the package that
#                   tools/bootstrap installed
#
# Sets TANDEM_MUJOCO_ROOT, empty when there is none, and TANDEM_MUJOCO_WINGS for the layer's declaration.
include_guard(GLOBAL)
set(TANDEM_MUJOCO "" CACHE PATH "An installed mujoco package, or an unpacked MuJoCo")
set(TANDEM_MUJOCO_ROOT "")
set(TANDEM_MUJOCO_WINGS "")
if(TANDEM_MUJOCO)
  set(mujoco_places ${TANDEM_MUJOCO})
else()
  file(GLOB mujoco_places ${PROJECT_SOURCE_DIR}/.venv/mujoco/lib/python3*/site-packages/mujoco)
endif()
foreach(place IN LISTS mujoco_places)
  if(EXISTS ${place}/include/mujoco/mujoco.h)
    get_filename_component(TANDEM_MUJOCO_ROOT ${place} REALPATH)
  endif()
endforeach()
if(TANDEM_MUJOCO_ROOT)
  set(TANDEM_MUJOCO_WINGS mujoco/tasks)
  message(STATUS "MuJoCo headers: ${TANDEM_MUJOCO_ROOT}/include")
elseif(TANDEM_MUJOCO)
  message(FATAL_ERROR "TANDEM_MUJOCO=${TANDEM_MUJOCO} has no include/mujoco/mujoco.h: name an installed mujoco package "
          "or an unpacked MuJoCo")
endif()

# Gives the layer what it found.
function(tandem_use_mujoco target)
  if(NOT TANDEM_MUJOCO_ROOT)
    return()
  endif()
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${TANDEM_MUJOCO_ROOT}/include>)
  set(dir ${PROJECT_SOURCE_DIR}/tandem/rl/env/mujoco)
  set_source_files_properties(${dir}/mujoco_envs.cc PROPERTIES COMPILE_DEFINITIONS TANDEM_HAS_MUJOCO)
  set_source_files_properties(${dir}/mujoco_places.cc PROPERTIES COMPILE_DEFINITIONS
                              TANDEM_MUJOCO_BUILT_WITH="${TANDEM_MUJOCO_ROOT}")
endfunction()
