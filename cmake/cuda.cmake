# SPDX-License-Identifier: Apache-2.0
# Enables CUDA with an installed nvcc >= 12.9 or, if there is none, the one of the pinned PyPI
# wheels (tools/nvcc.py decides). The driver library is never linked; the CUDA runtime is static.
if(NOT CMAKE_CUDA_COMPILER)
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
    execute_process(COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/nvcc.py
        OUTPUT_VARIABLE CMAKE_CUDA_COMPILER OUTPUT_STRIP_TRAILING_WHITESPACE
        ERROR_VARIABLE why ERROR_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
    if(status)
        message(FATAL_ERROR "${why}")
    endif()
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90-real)
endif()
# The wheels keep their libraries in lib, where nvcc itself looks only in lib64.
cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH cuda_bin)
cmake_path(GET cuda_bin PARENT_PATH cuda_root)
if(NOT EXISTS ${cuda_root}/lib64 AND EXISTS ${cuda_root}/lib/libcudart_static.a)
    set(CMAKE_CUDA_FLAGS_INIT "-L${cuda_root}/lib")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25.1, Debian 12's, does not know it yet
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.9)
    message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} at ${CMAKE_CUDA_COMPILER} is too old: "
        "denizen needs 12.9. Install a newer CUDA toolkit or configure with -DDENIZEN_CUDA=OFF.")
endif()
