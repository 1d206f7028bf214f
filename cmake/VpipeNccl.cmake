# Builds the plugin libvpipe_nccl.so: ranks under MPI whose GPUs exchange messages by
# NCCL. Building needs neither NCCL nor CUDA; a run searches for the library.
function(vp_nccl_plugin)
  if(NOT TARGET vpipe_mpi)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/comm/nccl/*.c)
  list(APPEND sources ${CMAKE_SOURCE_DIR}/src/comm/comm.c
    ${CMAKE_SOURCE_DIR}/src/comm/plugin.c)
  # Compare our declarations with NCCL's header if it is installed.
  find_path(VP_CUDART_INCLUDE cuda_runtime.h HINTS ENV CUDA_HOME
    /usr/local/cuda PATH_SUFFIXES include)
  find_path(VP_NCCL_INCLUDE nccl.h HINTS ${VP_CUDART_INCLUDE})
  if(NOT VP_NCCL_INCLUDE OR NOT VP_CUDART_INCLUDE)
    list(FILTER sources EXCLUDE REGEX "/nccl/check\\.c$")
  endif()
  add_library(vpipe_nccl MODULE ${sources})
  vp_private(vpipe_nccl comm)
  if(VP_NCCL_INCLUDE AND VP_CUDART_INCLUDE)
    target_include_directories(vpipe_nccl SYSTEM PRIVATE ${VP_NCCL_INCLUDE}
      ${VP_CUDART_INCLUDE})
  endif()
  target_link_libraries(vpipe_nccl PRIVATE vp_device vp_flags ${CMAKE_DL_LIBS}
    Threads::Threads)
  set_target_properties(vpipe_nccl PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_link_options(vpipe_nccl PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
  install(TARGETS vpipe_nccl DESTINATION ${CMAKE_INSTALL_LIBDIR}/vpipe)
endfunction()
