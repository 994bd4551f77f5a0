# SPDX-License-Identifier: Apache-2.0
# How this project's own targets are compiled: denizen_strict (warnings), sanitizers, and the
# functions denizen_program (a benchmark) and denizen_test.
add_library(denizen_strict INTERFACE)
# g++ 11 to 13 report copies whose length is checked at run time, and std::string + std::string, under
# the last five; AddressSanitizer watches those instead.
set(warnings -Wall -Wextra -Wshadow -Wconversion
    -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow
    -Wno-stringop-overread)
if(DENIZEN_WERROR)
    list(APPEND warnings -Werror)
    target_compile_options(denizen_strict INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
list(JOIN warnings , xcompiler)
# -Wpedantic is for g++ alone: what nvcc generates for it is full of GNU line directives.
target_compile_options(denizen_strict INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:${warnings};-Wpedantic>"
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${xcompiler}>")

if(DENIZEN_SANITIZE)
    add_compile_options(-fsanitize=${DENIZEN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${DENIZEN_SANITIZE})
endif()

# denizen_harden(<target>): what is shipped checks its copies, and its tables of functions are read-only
# once it is loaded. Not for sanitizers, which watch the same, nor without optimisation.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -Werror")
check_cxx_source_compiles("#include <cstring>\nint main() { return 0; }" DENIZEN_HAS_FORTIFY)
unset(CMAKE_REQUIRED_FLAGS)
function(denizen_harden target)
    if(DENIZEN_HAS_FORTIFY AND NOT DENIZEN_SANITIZE)
        target_compile_options(${target} PRIVATE
            "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
    endif()
    target_link_options(${target} PRIVATE LINKER:-z,relro,-z,now)
endfunction()

# Compiles the .cu files of a target with g++ where there is no CUDA: the CPU half of the same text.
function(denizen_compile target)
    target_link_libraries(${target} PRIVATE denizen denizen_strict)
    if(NOT DENIZEN_CUDA)
        get_target_property(files ${target} SOURCES)
        list(FILTER files INCLUDE REGEX "\\.cu$")
        set_source_files_properties(${files} PROPERTIES LANGUAGE CXX)
    endif()
endfunction()

# denizen_program(<name> <source>...): a benchmark program, installed into the wheel's bin folder.
function(denizen_program name)
    add_executable(${name} ${ARGN})
    denizen_compile(${name})
    target_link_options(${name} PRIVATE LINKER:-z,relro,-z,now)
    add_dependencies(denizen_wheel ${name})
    install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# denizen_module(<source>...): the extension module denizen._core.
function(denizen_module)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
        OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    find_package(nanobind CONFIG REQUIRED)
    nanobind_add_module(_core NB_STATIC NB_SUPPRESS_WARNINGS NOMINSIZE ${ARGN})
    denizen_compile(_core)
    denizen_harden(_core)
    add_dependencies(denizen_wheel _core)
    install(TARGETS _core LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# denizen_test(<part>_<what> SOURCES <file>... [CUDA] [SANITIZERS] [TIMEOUT <seconds>])
# A GoogleTest program, labelled <part>, and device if it has a .cu file. CUDA: it has nothing to do
# without a GPU, so it is skipped there and not built without nvcc; any other .cu file is compiled
# by g++ where there is no nvcc. SANITIZERS: it belongs to the asan and tsan builds too.
function(denizen_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "CUDA;SANITIZERS" "TIMEOUT" "SOURCES")
    if((DENIZEN_SANITIZE AND NOT arg_SANITIZERS) OR (arg_CUDA AND NOT DENIZEN_CUDA)
       OR NOT TARGET GTest::gtest)
        return()
    endif()
    string(REGEX REPLACE "_.*" "" labels ${name})
    add_executable(test_${name} ${arg_SOURCES})
    denizen_compile(test_${name})
    if(CMAKE_CUDA_ARCHITECTURES STREQUAL "80-virtual;90-real") # the default: one pass less
        set_target_properties(test_${name} PROPERTIES CUDA_ARCHITECTURES 90-real)
    endif()
    target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(test_${name} PRIVATE DENIZEN_INCLUDE_DIR="${PROJECT_SOURCE_DIR}/include")
    if(arg_CUDA)
        target_link_libraries(test_${name} PRIVATE denizen_gpu_main)
    else()
        target_link_libraries(test_${name} PRIVATE GTest::gtest_main)
    endif()
    add_test(NAME ${name} COMMAND test_${name})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 300)
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
    if(arg_SOURCES MATCHES "\\.cu(;|$)")
        list(APPEND labels device)
        set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}")
endfunction()

# Every public header compiles on its own and twice, as C++, and with all others as CUDA.
function(denizen_check_headers)
    set(root ${PROJECT_SOURCE_DIR}/include)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.hpp)
    foreach(header IN LISTS headers)
        string(MAKE_C_IDENTIFIER ${header} id)
        list(APPEND files ${CMAKE_CURRENT_BINARY_DIR}/headers/${id}.cpp)
        set(include "#include <${header}>\n")
        file(CONFIGURE OUTPUT headers/${id}.cpp CONTENT "${include}${include}")
        string(APPEND all "${include}")
    endforeach()
    if(DENIZEN_CUDA)
        list(APPEND files ${CMAKE_CURRENT_BINARY_DIR}/headers/all.cu)
        file(CONFIGURE OUTPUT headers/all.cu CONTENT "${all}")
    endif()
    add_library(denizen_headers OBJECT ${files})
    target_link_libraries(denizen_headers PRIVATE denizen denizen_strict)
endfunction()
