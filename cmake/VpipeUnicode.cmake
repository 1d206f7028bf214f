# vp_unicode_tables(target): adds the C tables of Unicode to a target. A program
# writes them from the text files of src/text/unicode when vpipe is built.
function(vp_unicode_tables target)
  set(folder ${CMAKE_SOURCE_DIR}/src/text/unicode)
  set(tables ${CMAKE_BINARY_DIR}/unicode_tables.c)
  add_executable(make_tables ${CMAKE_SOURCE_DIR}/tools/unicode/make_tables.c)
  target_link_libraries(make_tables PRIVATE vp_flags)
  add_custom_command(OUTPUT ${tables}
    COMMAND make_tables ${folder}/classes.txt ${folder}/mappings.txt ${tables}
    DEPENDS make_tables ${folder}/classes.txt ${folder}/mappings.txt
    VERBATIM)
  target_sources(${target} PRIVATE ${tables})
endfunction()
