# vp_flags: warnings, banned functions, sanitizers, reproducible arithmetic.
add_library(vp_flags INTERFACE)

# banned.h is included first, so POSIX and Linux interfaces are selected here and
# not in the sources.
target_compile_definitions(vp_flags INTERFACE _GNU_SOURCE)
target_compile_options(vp_flags INTERFACE
  "SHELL:-include ${CMAKE_SOURCE_DIR}/src/base/banned.h")

# Contraction into fused multiply-adds would let the compiler choose the bits
# of a sum; kernels that use an FMA do so by intrinsics.
target_compile_options(vp_flags INTERFACE -ffp-contract=off -fno-math-errno)

if(VP_DEVELOPER)
  target_compile_options(vp_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wvla
    -Wmissing-prototypes -Wstrict-prototypes -Wpointer-arith -Wundef)
  # Instrumented code confuses gcc's flow analysis (maybe-uninitialized and
  # the like), so sanitizer builds only warn; the plain builds are strict.
  if(NOT VP_SANITIZE)
    target_compile_options(vp_flags INTERFACE -Werror)
  endif()
endif()

set_property(CACHE VP_SANITIZE PROPERTY STRINGS "" address thread)
if(VP_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=address,undefined)
elseif(VP_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=thread)
elseif(VP_SANITIZE)
  message(FATAL_ERROR "VP_SANITIZE is '${VP_SANITIZE}'; use address or thread")
endif()
