# Builds the plugin libvpipe_mpi.so if an MPI is found. It contains copies of the
# folders it uses. It uses only the MPI standard: VP_MPICC may name the compiler
# wrapper of any MPI, such as mpicc.openmpi or mpicc.mpich.
option(VP_MPI "Build the MPI plugin where mpicc is found" ON)

function(vp_mpi_plugin)
  if(NOT VP_MPI OR VP_SANITIZE STREQUAL "thread")
    return()
  endif()
  find_program(VP_MPICC NAMES mpicc.openmpi mpicc mpicc.mpich
    DOC "compiler wrapper of the MPI to be used")
  if(NOT VP_MPICC)
    message(STATUS "no mpicc: without the MPI plugin")
    return()
  endif()
  set(MPI_C_COMPILER ${VP_MPICC})
  find_package(MPI COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(STATUS "${VP_MPICC} does not work: without the MPI plugin")
    return()
  endif()
  # Find the mpirun of this mpicc, for tests.
  get_filename_component(folder ${VP_MPICC} DIRECTORY)
  get_filename_component(name ${VP_MPICC} NAME)
  string(REPLACE mpicc mpirun name ${name})
  find_program(VP_MPIRUN NAMES ${name} HINTS ${folder})

  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/comm/mpi/*.c)
  list(APPEND sources ${CMAKE_SOURCE_DIR}/src/comm/comm.c
    ${CMAKE_SOURCE_DIR}/src/comm/local/local.c)
  add_library(vpipe_mpi MODULE ${sources})
  vp_private(vpipe_mpi comm)
  target_link_libraries(vpipe_mpi PRIVATE vp_device vp_flags MPI::MPI_C
    Threads::Threads)
  # gcc takes MPICH's MPI_STATUSES_IGNORE for an array without elements.
  target_compile_options(vpipe_mpi PRIVATE
    $<$<C_COMPILER_ID:GNU>:-Wno-stringop-overflow>)
  set_target_properties(vpipe_mpi PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_link_options(vpipe_mpi PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
  install(TARGETS vpipe_mpi DESTINATION ${CMAKE_INSTALL_LIBDIR}/vpipe)
endfunction()
