# How every target of this project is made: one static library a folder, tests beside the code.

option(AMEM_WERROR "Warnings are errors" OFF)
option(AMEM_PRECOMPILE_HEADERS "Precompile headers of the standard library, GoogleTest and the like: builds faster, hides a missing #include" OFF)
set(AMEM_SANITIZE "" CACHE STRING "Sanitizers for every target, as -fsanitize= takes them")

add_library(amem_flags INTERFACE)
target_compile_options(amem_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<BOOL:${AMEM_WERROR}>:-Werror>)
# Conversions of _Float16 come from libgcc.a: libgcc_s.so.1 has them since GCC 12, and the wheel needs no newer one than GCC 7's.
target_link_libraries(amem_flags INTERFACE gcc)
# GCC 12 has _Float16 in C alone on aarch64; __fp16 has the same format.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_definitions(amem_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:_Float16=__fp16>)
endif()
if(AMEM_SANITIZE)
  # Without recovery: what only prints a report passes for a success. Without the check of virtual tables: it needs type
  # information, which the libraries are built without, and a free descriptor, which a test takes away.
  target_compile_options(amem_flags INTERFACE
    -fsanitize=${AMEM_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(amem_flags INTERFACE -fsanitize=${AMEM_SANITIZE})
endif()

# How many times longer a test may take than in a plain build: the factor of every TIMEOUT given here and of the
# deadlines inside the tests (tests/slowdown.h).
set(AMEM_SLOWDOWN 1)
if(AMEM_SANITIZE MATCHES thread)
  set(AMEM_SLOWDOWN 4)
elseif(AMEM_SANITIZE)
  set(AMEM_SLOWDOWN 2)
elseif(CMAKE_CROSSCOMPILING)  # under qemu-user
  set(AMEM_SLOWDOWN 4)
endif()
if(NOT AMEM_SLOWDOWN EQUAL 1)
  target_compile_definitions(amem_flags INTERFACE AMEM_SLOWDOWN=${AMEM_SLOWDOWN})
endif()
if(AMEM_SANITIZE)
  # A report ends the process, so that a rank's becomes a failure of its test. ThreadSanitizer of GCC 12 reads the size of a
  # block of thread-local storage where glibc wrote it before 2.25, and clears that much memory.
  set(AMEM_SANITIZER_OPTIONS "ASAN_OPTIONS=detect_stack_use_after_return=1" "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:intercept_tls_get_addr=0")
endif()

# For tests and programs whose speed does not matter: without optimization the dev preset builds faster.
set(AMEM_UNOPTIMIZED)
if(NOT AMEM_SANITIZE)
  set(AMEM_UNOPTIMIZED $<$<CONFIG:RelWithDebInfo>:-O0>)
endif()

# amem_precompile(<target> <first> [<header> ...]): the target uses precompiled standard headers and these. Those of
# <first>, another target with the same compile flags, unless it is the target itself.
function(amem_precompile target first)
  if(NOT AMEM_PRECOMPILE_HEADERS)
    return()
  endif()
  if(NOT target STREQUAL first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set(headers ${AMEM_PRECOMPILED_HEADERS} ${ARGN})
    list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
    target_precompile_headers(${target} PRIVATE ${headers})
  endif()
endfunction()
set(AMEM_PRECOMPILED_HEADERS algorithm array atomic chrono condition_variable functional map memory mutex optional set
  string string_view thread unordered_map utility vector)

# amem_library(<folder name> SOURCES ... DEPENDS ...): the static library amem_<name>.
# It lives in other people's processes: hidden symbols, no exceptions, no RTTI. Thread-local variables are in the block that
# each thread has from its start (initial-exec): in the other models the first use of one allocates, which signal handlers
# and a malloc that calls us cannot bear, and every use is a call.
function(amem_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(amem_${name} STATIC ${arg_SOURCES})
  target_include_directories(amem_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(amem_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -ftls-model=initial-exec>)
  set_target_properties(amem_${name} PROPERTIES
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(amem_${name} PRIVATE amem_flags)
  amem_precompile(amem_${name} amem_base)
  foreach(dep ${arg_DEPENDS})
    target_link_libraries(amem_${name} PUBLIC amem_${dep})
  endforeach()
endfunction()

# amem_test(<name> SOURCES ... DEPENDS <libraries> LABELS ... ENVIRONMENT ... TIMEOUT s [ALONE]): one GoogleTest program,
# registered with ctest test by test. ALONE: no other test runs at the same time; for those that leave no processor free
# and would make the deadlines of others pass.
function(amem_test name)
  if(NOT AMEM_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "ALONE" "TIMEOUT" "SOURCES;DEPENDS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  if(NOT TARGET amem_own_dev_shm)
    add_library(amem_own_dev_shm OBJECT ${PROJECT_SOURCE_DIR}/tests/support/own_dev_shm.cc)
    target_link_libraries(amem_own_dev_shm PRIVATE amem_flags)
  endif()
  add_executable(${name} ${arg_SOURCES} $<TARGET_OBJECTS:amem_own_dev_shm>)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} amem_flags GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${AMEM_UNOPTIMIZED})
  amem_precompile(${name} base_test gtest/gtest.h)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  math(EXPR limit_s "${arg_TIMEOUT} * ${AMEM_SLOWDOWN}")
  include(GoogleTest)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${limit_s} RUN_SERIAL ${arg_ALONE} LABELS "${arg_LABELS}")
  # gtest_discover_tests() takes no list as the value of a property: CMake 3.25 passes on its first element.
  set(environment ${arg_ENVIRONMENT} ${AMEM_SANITIZER_OPTIONS})
  if(environment)
    file(CONFIGURE OUTPUT ${name}_environment.cmake @ONLY CONTENT
      "set_tests_properties(\${@name@_TESTS} PROPERTIES ENVIRONMENT \"@environment@\")\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_environment.cmake)
  endif()
endfunction()

# amem_limit_test(<test> <seconds>): the same for a test made with add_test. After its other properties.
function(amem_limit_test name timeout_s)
  math(EXPR limit_s "${timeout_s} * ${AMEM_SLOWDOWN}")
  set_property(TEST ${name} PROPERTY TIMEOUT ${limit_s})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT ${AMEM_SANITIZER_OPTIONS})
endfunction()
