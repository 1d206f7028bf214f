# vp_folder(name PUBLIC header... NEEDS folder... LIBS target...)
#
# src/<name> becomes the static library vp_<name>. Its include path holds its
# own folder and the PUBLIC headers of the folders it needs (and of theirs), so
# that the compiler enforces the arrows of the design. All other headers of a
# folder, those of its sub-folders too, are private to it. Third-party libraries
# stay private, too.
#
# `#include "name/x.h"` finds <build>/private/<name>/<name>, a link to
# src/<name>, inside of the folder, and <build>/public/<name>/<name>, which has
# a link for each PUBLIC header, outside of it.
set(VP_PUBLIC_ROOT ${CMAKE_BINARY_DIR}/public)
set(VP_PRIVATE_ROOT ${CMAKE_BINARY_DIR}/private)

function(vp_folder name)
  cmake_parse_arguments(ARG "" "" "PUBLIC;NEEDS;LIBS" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.c)
  # Plugins are libraries of their own.
  list(FILTER sources EXCLUDE REGEX "/src/(backend/cuda|comm/mpi|comm/nccl|monitor/http)/")
  add_library(vp_${name} STATIC ${sources})

  file(MAKE_DIRECTORY ${VP_PRIVATE_ROOT}/${name})
  file(CREATE_LINK ${folder} ${VP_PRIVATE_ROOT}/${name}/${name} SYMBOLIC)
  # Created again each time, so that headers that are no longer public disappear.
  file(REMOVE_RECURSE ${VP_PUBLIC_ROOT}/${name})
  foreach(header ${ARG_PUBLIC})
    if(NOT EXISTS ${folder}/${header})
      message(FATAL_ERROR
        "vp_folder(${name}): there is no PUBLIC header src/${name}/${header}")
    endif()
    set(link ${VP_PUBLIC_ROOT}/${name}/${name}/${header})
    get_filename_component(place ${link} DIRECTORY)
    file(MAKE_DIRECTORY ${place})
    file(CREATE_LINK ${folder}/${header} ${link} SYMBOLIC)
  endforeach()

  target_include_directories(vp_${name} INTERFACE ${VP_PUBLIC_ROOT}/${name})
  vp_private(vp_${name} ${name})
  foreach(need ${ARG_NEEDS})
    target_link_libraries(vp_${name} PUBLIC vp_${need})
  endforeach()
  target_link_libraries(vp_${name} PRIVATE ${ARG_LIBS} vp_flags)
endfunction()

# vp_private(target folder...): lets the target include private headers of these
# folders. For a plugin: its own folder; for a test: the folders that it tests.
function(vp_private target)
  foreach(folder ${ARGN})
    target_include_directories(${target} PRIVATE ${VP_PRIVATE_ROOT}/${folder})
  endforeach()
endfunction()
