# vp_folder(name NEEDS folder... LIBS target...)
#
# src/<name> becomes the static library vp_<name>. Its include path holds only
# its own folder and the folders it needs (and theirs), so that the arrows of
# the design are enforced by the compiler. Third-party libraries stay private.
set(VP_INCLUDE_ROOT ${CMAKE_BINARY_DIR}/include)

function(vp_folder name)
  cmake_parse_arguments(ARG "" "" "NEEDS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS
       ${CMAKE_SOURCE_DIR}/src/${name}/*.c)
  # Plugins are libraries of their own.
  list(FILTER sources EXCLUDE REGEX "/src/(backend/cuda|comm/mpi|comm/nccl)/")
  add_library(vp_${name} STATIC ${sources})

  # <build>/include/<name>/<name> links to src/<name>: `#include "name/x.h"`.
  file(MAKE_DIRECTORY ${VP_INCLUDE_ROOT}/${name})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${name}
       ${VP_INCLUDE_ROOT}/${name}/${name} SYMBOLIC)
  target_include_directories(vp_${name} PUBLIC ${VP_INCLUDE_ROOT}/${name})
  foreach(need ${ARG_NEEDS})
    target_link_libraries(vp_${name} PUBLIC vp_${need})
  endforeach()
  target_link_libraries(vp_${name} PRIVATE ${ARG_LIBS} vp_flags)
endfunction()
