# vp_embed(target name file): adds the bytes of `file` to a target, as the C array
# vp_<name>, whose size is vp_<name>_bytes. With -P, writes such a C file: INPUT,
# OUTPUT and NAME are given.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${INPUT} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes
    "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(WRITE ${OUTPUT} "#include <stddef.h>
extern const char vp_${NAME}[];
extern const size_t vp_${NAME}_bytes;
const char vp_${NAME}[] = {
${bytes}
};
const size_t vp_${NAME}_bytes = sizeof(vp_${NAME});
")
  return()
endif()

set(VP_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(vp_embed target name file)
  set(output ${CMAKE_BINARY_DIR}/${name}.c)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${file} -DOUTPUT=${output} -DNAME=${name}
      -P ${VP_EMBED_SCRIPT}
    DEPENDS ${file} ${VP_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
