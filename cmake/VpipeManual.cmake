# vp_manual(): makes manual pages from man/*.scd, if scdoc is found, and completion
# scripts. Both are made by the program that was built, from its own tables of
# options and keys. The target `manual` builds them.
set(VP_ZSH_FOLDER "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" CACHE STRING
  "where completion of zsh is installed")

function(vp_manual)
  if(CMAKE_CROSSCOMPILING OR VP_SANITIZE)
    return()
  endif()
  set(files)
  set(folder ${CMAKE_BINARY_DIR}/completion)
  foreach(pair bash:vpipe zsh:_vpipe fish:vpipe.fish)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 shell)
    list(GET pair 1 name)
    add_custom_command(OUTPUT ${folder}/${name}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND vpipe completion ${shell} > ${folder}/${name}
      DEPENDS vpipe VERBATIM)
    list(APPEND files ${folder}/${name})
  endforeach()
  install(FILES ${folder}/vpipe
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${folder}/_vpipe DESTINATION ${VP_ZSH_FOLDER})
  install(FILES ${folder}/vpipe.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

  find_program(VP_SCDOC scdoc)
  if(VP_SCDOC)
    vp_manual_pages(pages)
    list(APPEND files ${pages})
  else()
    message(STATUS "no scdoc: without manual pages")
  endif()
  add_custom_target(manual ALL DEPENDS ${files})
endfunction()

function(vp_manual_pages pages_out)
  set(source ${CMAKE_SOURCE_DIR}/man)
  set(folder ${CMAKE_BINARY_DIR}/man)
  file(GLOB pages CONFIGURE_DEPENDS ${source}/*.scd)
  set(made)
  foreach(page ${pages})
    get_filename_component(name ${page} NAME)
    string(REGEX REPLACE "\\.scd$" "" name ${name})
    string(REGEX REPLACE ".*\\." "" section ${name})
    add_custom_command(OUTPUT ${folder}/${name}
      COMMAND ${source}/make-page $<TARGET_FILE:vpipe> ${VP_SCDOC}
        ${PROJECT_VERSION} ${CMAKE_INSTALL_FULL_DATADIR}/vpipe ${page}
        ${folder}/${name}
      DEPENDS vpipe ${page} ${source}/make-page ${source}/expand.awk
        ${source}/tidy.awk ${CMAKE_SOURCE_DIR}/include/vpipe/vpipe.h VERBATIM)
    install(FILES ${folder}/${name}
      DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    list(APPEND made ${folder}/${name})
  endforeach()
  set(${pages_out} ${made} PARENT_SCOPE)
endfunction()
