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

amem_test(shim_test SOURCES call_site_test.cc loader_cache_test.cc nccl_search_test.cc DEPENDS amem_shim LABELS unit)
add_dependencies(shim_test nccl fake_nccl empty_library)
test_library(empty_library SOURCES testdata/empty.c)
test_library(empty_driver SOURCES testdata/empty.c SONAME libcuda.so.1)
target_compile_definitions(shim_test PRIVATE
  AMEM_TEST_SHIM="$<TARGET_FILE:nccl>" AMEM_TEST_ENGINE="$<TARGET_FILE:amem_nccl>"
  AMEM_TEST_FAKE_NCCL="$<TARGET_FILE:fake_nccl>" AMEM_TEST_NOT_NCCL="$<TARGET_FILE:empty_library>")

amem_test(stock_nccl_test SOURCES stock_nccl_test.cc testdata/child.cc DEPENDS amem_shim LABELS unit)
add_dependencies(stock_nccl_test empty_driver)
target_compile_definitions(stock_nccl_test PRIVATE
  AMEM_TEST_STOCK_NCCL="${AMEM_STOCK_NCCL_FOUND}" AMEM_TEST_EMPTY_DRIVER="$<TARGET_FILE:empty_driver>")

# A sanitizer's runtime has to come first in a process, which a preload into programs without one cannot do.
if(NOT AMEM_SANITIZE)
  test_library(door_inner SOURCES testdata/door_inner.c FOLDER sub)
  test_library(door_middle SOURCES testdata/door_middle.c)
  target_link_libraries(door_middle PRIVATE door_inner)
  test_library(door_caller_plain SOURCES testdata/door_caller.c)
  test_library(door_caller_runpath SOURCES testdata/door_caller.c LINK -Wl,--enable-new-dtags)
  test_library(door_caller_rpath SOURCES testdata/door_caller.c LINK -Wl,--disable-new-dtags)
  set_target_properties(door_caller_runpath door_caller_rpath PROPERTIES INSTALL_RPATH "$ORIGIN/sub")
  test_library(door_dlsym SOURCES testdata/door_dlsym.c)
  test_library(door_counter SOURCES testdata/door_counter.cc dlopen_door.cc libc_symbol.cc dlopen_entry.S
    LINK -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/testdata/door_counter.map)
  set_target_properties(door_counter PROPERTIES LINKER_LANGUAGE CXX CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(door_counter PRIVATE amem_hook)
  add_executable(door_probe testdata/door_probe.c)
  set_target_properties(door_probe PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${data_dir})
  target_link_libraries(door_probe PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

  amem_test(preload_test SOURCES preload_test.cc dlopen_door_test.cc testdata/child.cc DEPENDS amem_shim LABELS unit)
  add_dependencies(preload_test nccl fake_nccl door_middle door_caller_plain door_caller_runpath door_caller_rpath
    door_dlsym door_counter door_probe)
  target_compile_definitions(preload_test PRIVATE
    AMEM_TEST_SHIM="$<TARGET_FILE:nccl>" AMEM_TEST_ENGINE="$<TARGET_FILE:amem_nccl>"
    AMEM_TEST_FAKE_NCCL="$<TARGET_FILE:fake_nccl>" AMEM_TEST_DATA="${data_dir}"
    AMEM_TEST_COUNTING_DOOR="$<TARGET_FILE:door_counter>" AMEM_TEST_DLSYM="$<TARGET_FILE:door_dlsym>")
endif()

# Checks of what ships: they need the targets above.
add_subdirectory(${PROJECT_SOURCE_DIR}/tests/symbols ${CMAKE_BINARY_DIR}/tests/symbols)
add_subdirectory(${PROJECT_SOURCE_DIR}/tests/install ${CMAKE_BINARY_DIR}/tests/install)
