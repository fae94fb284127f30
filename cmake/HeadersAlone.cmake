# headers_alone(<target> <root>): compiles every header of <root>/src, <root>/symmetric and the include folders alone,
# those of the include folders also as C11. Only ./dev check builds the target.
function(headers_alone target root)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/src/*.h ${root}/include/*.h ${root}/symmetric/*.h)
  list(FILTER headers EXCLUDE REGEX "/testdata/")
  foreach(header ${headers})
    # Found through -I, as users find it: #include_next goes on from there.
    string(REGEX REPLACE "^(src|include|symmetric/include)/" "" name ${header})
    list(APPEND units ${header}.cc)
    file(CONFIGURE OUTPUT ${target}/${header}.cc CONTENT "#include \"${name}\"\n")
    if(header MATCHES "^(symmetric/)?include/")
      list(APPEND units ${header}.c)
      file(CONFIGURE OUTPUT ${target}/${header}.c CONTENT "#include \"${name}\"\n")
    endif()
  endforeach()
  list(TRANSFORM units PREPEND ${CMAKE_CURRENT_BINARY_DIR}/${target}/)
  add_library(${target} OBJECT EXCLUDE_FROM_ALL ${units})
  # AMEM_SEEDED_FAULTS and the like stay off: what ships is what has to stand alone.
  target_include_directories(${target} PRIVATE ${root}/include ${root}/src ${root} ${root}/symmetric/include)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror -O0 -g0)
  set_target_properties(${target} PROPERTIES CXX_STANDARD 20 C_STANDARD 11 CXX_EXTENSIONS OFF C_EXTENSIONS OFF UNITY_BUILD OFF)
endfunction()
