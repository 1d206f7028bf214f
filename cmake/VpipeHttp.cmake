# Builds the plugin libvpipe_http.so, for `vpipe train --dashboard`, if
# libmicrohttpd is found. It contains a copy of the folder it uses.
option(VP_HTTP "Build the HTTP plugin where libmicrohttpd is found" ON)

function(vp_http_plugin)
  if(NOT VP_HTTP)
    return()
  endif()
  pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.75)
  if(NOT MICROHTTPD_FOUND)
    message(STATUS "no libmicrohttpd: without the HTTP plugin")
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/monitor/http/*.c)
  add_library(vpipe_http MODULE ${sources})
  vp_private(vpipe_http monitor)
  target_link_libraries(vpipe_http PRIVATE vp_base vp_flags
    PkgConfig::MICROHTTPD Threads::Threads)
  set_target_properties(vpipe_http PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_link_options(vpipe_http PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
  install(TARGETS vpipe_http DESTINATION ${CMAKE_INSTALL_LIBDIR}/vpipe)
endfunction()
