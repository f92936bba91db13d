# Flags that every target of ours is built with.
add_library(flywheel_options INTERFACE)
target_include_directories(flywheel_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_compile_options(flywheel_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wcast-align -Wnull-dereference -Werror
  -fno-math-errno
  -Wno-missing-field-initializers)  # designated initialisers name only what differs from a default
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlaps and null pointers in inlined library code that are not there.
  target_compile_options(flywheel_options INTERFACE -Wno-restrict -Wno-null-dereference)
endif()

# The baseline: AVX2 and FMA on x86-64. Kernels in Highway pick wider vectors at run time.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(FLYWHEEL_ARCH "-march=x86-64-v3 -maes -mpclmul" CACHE STRING "Architecture flags")
else()
  set(FLYWHEEL_ARCH "" CACHE STRING "Architecture flags")
endif()
separate_arguments(arch_flags UNIX_COMMAND "${FLYWHEEL_ARCH}")
target_compile_options(flywheel_options INTERFACE ${arch_flags})

set(FLYWHEEL_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")
if(FLYWHEEL_SANITIZE)
  target_compile_options(flywheel_options INTERFACE
    -fsanitize=${FLYWHEEL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(flywheel_options INTERFACE -fsanitize=${FLYWHEEL_SANITIZE})
endif()
