# Builds the plugin libvpipe_cuda.so if nvcc and the libraries are found. It contains
# copies of the folders it uses, so that any program can load it.
option(VP_CUDA "Build the CUDA plugin where the toolkit is found" ON)

function(vp_cuda_plugin)
  if(NOT VP_CUDA OR VP_SANITIZE)
    return()
  endif()
  find_program(VP_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
    PATH_SUFFIXES bin)
  if(NOT VP_NVCC)
    message(STATUS "no nvcc: without the CUDA plugin")
    return()
  endif()
  get_filename_component(root ${VP_NVCC} DIRECTORY)
  get_filename_component(root ${root} DIRECTORY)
  find_path(VP_CUDA_INCLUDE cublasLt.h HINTS ${root}/include)
  find_path(VP_CUPTI_INCLUDE cupti.h HINTS ${root}/include
    ${root}/extras/CUPTI/include)
  if(NOT VP_CUPTI_INCLUDE)
    message(STATUS "no cupti.h: without the CUDA plugin")
    return()
  endif()
  foreach(name cublasLt cudnn cudart_static)
    find_library(VP_LIB_${name} ${name} HINTS ${root}
      PATH_SUFFIXES lib64 lib lib/x86_64-linux-gnu)
    if(NOT VP_LIB_${name} OR NOT VP_CUDA_INCLUDE)
      message(STATUS "no ${name}: without the CUDA plugin")
      return()
    endif()
  endforeach()

  set(folder ${CMAKE_SOURCE_DIR}/src/backend/cuda)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.c)
  list(APPEND sources ${CMAKE_SOURCE_DIR}/src/backend/args.c
    ${CMAKE_SOURCE_DIR}/src/backend/cuda_facts.c
    ${CMAKE_SOURCE_DIR}/src/backend/tuned.c)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${folder}/*.cu)
  set(all_gpus -gencode arch=compute_90,code=sm_90
    -gencode arch=compute_80,code=compute_80)
  set(hopper -gencode arch=compute_90a,code=sm_90a) # what no other GPU has
  set(flags -std=c++17 -O3 -fmad=false -Xcompiler -fPIC
    -Xcompiler -fvisibility=hidden -lineinfo -I${VP_PRIVATE_ROOT}/backend)
  foreach(need base device graph optim)
    list(APPEND flags -I${VP_PUBLIC_ROOT}/${need})
  endforeach()
  if(VP_DEVELOPER)
    list(APPEND flags -Xcompiler -Wall,-Wextra -Werror all-warnings)
  endif()
  set(objects)
  foreach(kernel ${kernels})
    file(RELATIVE_PATH name ${folder} ${kernel})
    string(REGEX REPLACE "\\.cu$" "" name ${name})
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    get_filename_component(place ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${place})
    set(gpus ${all_gpus})
    if(name MATCHES wgmma)
      set(gpus ${hopper})
    endif()
    add_custom_command(OUTPUT ${object}
      COMMAND ${VP_NVCC} ${flags} ${gpus} -MD -MF ${object}.d
        -c ${kernel} -o ${object}
      DEPENDS ${kernel} DEPFILE ${object}.d VERBATIM
      COMMENT "nvcc ${name}.cu")
    list(APPEND objects ${object})
  endforeach()

  add_library(vpipe_cuda MODULE ${sources} ${objects})
  target_include_directories(vpipe_cuda SYSTEM PRIVATE ${VP_CUDA_INCLUDE}
    ${VP_CUPTI_INCLUDE})
  vp_private(vpipe_cuda backend)
  target_link_libraries(vpipe_cuda PRIVATE vp_device vp_graph vp_optim vp_flags
    ${VP_LIB_cublasLt} ${VP_LIB_cudnn} ${VP_LIB_cudart_static}
    Threads::Threads stdc++ dl rt m)
  # No rpath: the program searches its own list of folders at run time.
  set_target_properties(vpipe_cuda PROPERTIES SKIP_BUILD_RPATH ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINKER_LANGUAGE C)
  target_link_options(vpipe_cuda PRIVATE -Wl,--exclude-libs,ALL
    -Wl,-z,defs)
  install(TARGETS vpipe_cuda DESTINATION ${CMAKE_INSTALL_LIBDIR}/vpipe)
endfunction()
