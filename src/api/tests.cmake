# The tests of this folder and the small libraries and programs that they load and run.
set(data_dir ${CMAKE_CURRENT_BINARY_DIR}/testdata)
function(test_library name)
  cmake_parse_arguments(arg "" "FOLDER;SONAME" "SOURCES;LINK" ${ARGN})
  add_library(${name} SHARED ${arg_SOURCES})
  target_link_options(${name} PRIVATE ${arg_LINK})
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${data_dir}/${arg_FOLDER} BUILD_WITH_INSTALL_RPATH ON)
  if(arg_SONAME)
    target_link_options(${name} PRIVATE -Wl,-soname,${arg_SONAME})
    set_target_properties(${name} PROPERTIES NO_SONAME ON)
  endif()
endfunction()

# A sanitizer's runtime has to come first in a process, which a preload into programs without one cannot do.
if(NOT AMEM_SANITIZE)
  amem_test(preload_test SOURCES preload_test.cc testdata/child.cc DEPENDS amem_api LABELS unit)
  add_dependencies(preload_test nccl fake_nccl)
  target_compile_definitions(preload_test PRIVATE
    AMEM_TEST_SHIM="$<TARGET_FILE:nccl>" AMEM_TEST_ENGINE="$<TARGET_FILE:amem_nccl>"
    AMEM_TEST_FAKE_NCCL="$<TARGET_FILE:fake_nccl>")
endif()

amem_test(remote_control_test SOURCES remote_control_test.cc DEPENDS amem_api LABELS unit)

# Checks of what ships: they need the targets above.
add_subdirectory(${PROJECT_SOURCE_DIR}/tests/symbols ${CMAKE_BINARY_DIR}/tests/symbols)
add_subdirectory(${PROJECT_SOURCE_DIR}/tests/install ${CMAKE_BINARY_DIR}/tests/install)
