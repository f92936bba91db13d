# flywheel_library(NAME SOURCES a.cpp ... [PUBLIC dep ...] [PRIVATE dep ...])
function(flywheel_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC flywheel_options ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()

# flywheel_program(NAME SOURCES a.cpp ... DEPENDS lib ...): lands in bin/; may use cxxopts.
function(flywheel_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} SYSTEM PRIVATE ${CXXOPTS_INCLUDE_DIR})
  # g++ 12 warns of uninitialised members in std::regex when sanitizers are on.
  target_compile_definitions(${name} PRIVATE CXXOPTS_NO_REGEX)
  target_link_libraries(${name} PRIVATE flywheel_options ${arg_DEPENDS})
endfunction()

# flywheel_test(NAME LABELS unit ... SOURCES a.cpp ... DEPENDS lib ...): a Catch2 executable and its ctest entry.
# Exit code 77 means skipped.
function(flywheel_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE flywheel_test_support ${arg_DEPENDS})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS "${arg_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT})
endfunction()
