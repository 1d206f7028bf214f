# Builds libvpipe from src/api, as libvpipe.so and libvpipe.a, with its pkg-config file and
# CMake package. The program does not use it.
option(VP_LIBRARY "Build libvpipe" ON)
include(CMakePackageConfigHelpers)

# Lists all static libraries of folders that `target` links, beginning with itself.
function(vp_closure target out)
  set(found ${target})
  set(todo ${target})
  while(todo)
    list(POP_FRONT todo next)
    get_target_property(links ${next} LINK_LIBRARIES)
    foreach(link ${links})
      if(link MATCHES "^vp_" AND NOT link STREQUAL vp_flags
          AND NOT link IN_LIST found)
        list(APPEND found ${link})
        list(APPEND todo ${link})
      endif()
    endforeach()
  endwhile()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

# Checks that the header has the version of the project.
function(vp_check_library_version)
  file(STRINGS ${CMAKE_SOURCE_DIR}/include/vpipe/vpipe.h line
    REGEX "#define VPIPE_VERSION ")
  if(NOT line MATCHES "\"${PROJECT_VERSION}\"")
    message(FATAL_ERROR "include/vpipe/vpipe.h: VPIPE_VERSION is not "
      "\"${PROJECT_VERSION}\", the version of the project")
  endif()
endfunction()

# One object of all folders whose internal symbols are local, so that they cannot
# collide with names of the caller.
function(vp_archive folders)
  set(object ${CMAKE_BINARY_DIR}/libvpipe.o)
  set(archive ${CMAKE_BINARY_DIR}/libvpipe.a)
  set(files)
  foreach(folder ${folders})
    list(APPEND files $<TARGET_FILE:${folder}>)
  endforeach()
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_LINKER} -r -o ${object} --whole-archive ${files}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcsD ${archive} ${object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${object}
    DEPENDS ${folders} ${files}
    VERBATIM COMMENT "libvpipe.a")
  add_custom_target(vpipe_archive DEPENDS ${archive})
  install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR}
    COMPONENT libvpipe-dev)
endfunction()

# Libraries that libvpipe.a needs, for pkg-config and for CMake.
function(vp_private_libs pc_out cmake_out)
  set(pc)
  set(cmake)
  foreach(library YAML JANSSON HDF5 XXHASH ZLIB ZSTD)
    if(${library}_FOUND)
      list(APPEND pc ${${library}_LDFLAGS})
      list(APPEND cmake ${${library}_LINK_LIBRARIES})
    endif()
  endforeach()
  list(APPEND pc -ldnnl -lgomp -ldl -lpthread -lm)
  list(APPEND cmake ${ONEDNN_LIBRARY} gomp dl pthread m)
  list(JOIN pc " " pc)
  set(${pc_out} "${pc}" PARENT_SCOPE)
  set(${cmake_out} "${cmake}" PARENT_SCOPE)
endfunction()

# Links a program of this build with the archive, as users do.
function(vp_link_archive target)
  set(archive ${CMAKE_BINARY_DIR}/libvpipe.a)
  vp_private_libs(ignored libs)
  add_dependencies(${target} vpipe_archive)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE ${archive} ${libs})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${archive})
endfunction()

function(vp_library_packages)
  set(place ${CMAKE_INSTALL_LIBDIR}/cmake/vpipe)
  set(dev COMPONENT libvpipe-dev)
  vp_private_libs(VP_PC_LIBS VP_CMAKE_LIBS)
  file(RELATIVE_PATH VP_PC_PREFIX
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" VP_PC_PREFIX "${VP_PC_PREFIX}")
  configure_file(cmake/vpipe.pc.in vpipe.pc @ONLY)
  configure_package_config_file(cmake/vpipeConfig.cmake.in vpipeConfig.cmake
    INSTALL_DESTINATION ${place}
    PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file(vpipeConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/vpipe.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${dev})
  install(FILES ${CMAKE_BINARY_DIR}/vpipeConfig.cmake
    ${CMAKE_BINARY_DIR}/vpipeConfigVersion.cmake DESTINATION ${place} ${dev})
  install(EXPORT vpipeTargets NAMESPACE vpipe:: DESTINATION ${place} ${dev})
  install(FILES include/vpipe/vpipe.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/vpipe ${dev})
endfunction()

function(vp_library)
  set(map ${CMAKE_SOURCE_DIR}/cmake/libvpipe.map)
  set(soversion ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  vp_check_library_version()
  target_include_directories(vp_api PUBLIC ${CMAKE_SOURCE_DIR}/include)
  vp_closure(vp_api folders)

  add_library(vpipe_library SHARED $<TARGET_OBJECTS:vp_api>)
  target_link_libraries(vpipe_library PRIVATE vp_run)
  target_link_options(vpipe_library PRIVATE -Wl,--version-script=${map}
    -Wl,-z,defs)
  target_include_directories(vpipe_library INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(vpipe_library PROPERTIES OUTPUT_NAME vpipe
    EXPORT_NAME vpipe VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
    LINKER_LANGUAGE C LINK_DEPENDS ${map})
  install(TARGETS vpipe_library EXPORT vpipeTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      COMPONENT libvpipe NAMELINK_COMPONENT libvpipe-dev)

  vp_archive("${folders}")
  vp_library_packages()
endfunction()
