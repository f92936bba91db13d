# The CUDA backend is built where nvcc is: by default for A100 (sm_80), H100 and H200 (sm_90a), and as PTX for what
# comes after. -DFLYWHEEL_CUDA=OFF leaves it out; the emulator's tests do not need it.
find_program(FLYWHEEL_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(FLYWHEEL_NVCC AND NOT FLYWHEEL_SANITIZE)
  set(has_nvcc ON)
else()
  set(has_nvcc OFF)
endif()
option(FLYWHEEL_CUDA "Build the CUDA backend" ${has_nvcc})
if(FLYWHEEL_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND FLYWHEEL_NVCC)
    set(CMAKE_CUDA_COMPILER ${FLYWHEEL_NVCC})
  endif()
  set(FLYWHEEL_CUDA_ARCHITECTURES
    "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a;arch=compute_90,code=compute_90"
    CACHE STRING "What nvcc generates code for")
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 12 and 13 have it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  foreach(architecture ${FLYWHEEL_CUDA_ARCHITECTURES})
    string(APPEND CMAKE_CUDA_FLAGS " -gencode ${architecture}")
  endforeach()
  message(STATUS "CUDA backend: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
else()
  message(STATUS "CUDA backend: not built")
endif()
