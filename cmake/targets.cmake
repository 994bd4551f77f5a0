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

# denizen_together(<target> <file>...): the sources of a folder are compiled eight at a time, so that what
# their headers bring is parsed and compiled once for eight. (CMake leaves out those with options of
# their own.)
function(denizen_together target)
    if(NOT DENIZEN_UNITY)
        return()
    endif()
    foreach(source IN LISTS ARGN)
        string(REPLACE ${PROJECT_SOURCE_DIR} "" folder ${source})
        cmake_path(GET folder PARENT_PATH folder)
        string(MAKE_C_IDENTIFIER "${folder}" folder)
        math(EXPR batch "${count_of_${folder}} + 0")
        math(EXPR count_of_${folder} "${batch} + 1")
        math(EXPR batch "${batch} / 8")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${batch})
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# denizen_quick(<file>...): sources that many templates come together in, and of which no loop has to be fast.
# At -O1 they compile in half of the time and less. (A precompiled header of other options is refused by GCC
# 13 and later.)
function(denizen_quick)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
        COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()

# denizen_part(<name> [NEEDS <part>...] SOURCES <file>... [ALONE <file>...] [BIND <file>...])
# The library denizen::<name> of this folder, whose include/ is public; a file of another part is
# reached by its public header, or, of the core's, by its path in src/. ALONE: sources whose names
# outside of any header would meet those of their neighbours: each is compiled by itself. BIND: what the
# extension module needs to show it to Python.
function(denizen_part name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "NEEDS;SOURCES;ALONE;BIND")
    set(target denizen_${name})
    add_library(${target} STATIC ${arg_SOURCES} ${arg_ALONE})
    denizen_together(${target} ${arg_SOURCES})
    add_library(denizen::${name} ALIAS ${target})
    set(root ${CMAKE_CURRENT_SOURCE_DIR})
    if(name STREQUAL core)
        set(root ${PROJECT_SOURCE_DIR})
        target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    endif()
    target_include_directories(${target} PUBLIC
        $<BUILD_INTERFACE:${root}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    foreach(need IN LISTS arg_NEEDS)
        target_link_libraries(${target} PUBLIC denizen_${need})
    endforeach()
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:denizen_strict>)
    denizen_harden(${target})
    # What nearly every source includes is parsed once.
    if(DENIZEN_UNITY AND NOT DENIZEN_DEVICE_CHECK)
        if(name STREQUAL core)
            target_precompile_headers(${target} PRIVATE
                <denizen/actor/any_runtime.hpp> <algorithm> <map>)
        else()
            target_precompile_headers(${target} REUSE_FROM denizen_core)
        endif()
    endif()
    target_link_libraries(denizen INTERFACE ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    set_property(GLOBAL APPEND PROPERTY denizen_parts ${name})
    list(TRANSFORM arg_BIND PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL APPEND PROPERTY denizen_bind_sources ${arg_BIND})
    set_property(GLOBAL APPEND PROPERTY denizen_include_roots ${root}/include)
endfunction()

# Compiles the .cu files of a target with g++ where there is no CUDA: the CPU half of the same text.
# With further arguments, which parts it links; else all of them.
function(denizen_compile target)
    if(ARGN)
        target_link_libraries(${target} PRIVATE ${ARGN} denizen_strict)
    else()
        target_link_libraries(${target} PRIVATE denizen denizen_strict)
    endif()
    if(NOT DENIZEN_CUDA)
        get_target_property(files ${target} SOURCES)
        list(FILTER files INCLUDE REGEX "\\.cu$")
        set_source_files_properties(${files} PROPERTIES LANGUAGE CXX)
    endif()
endfunction()

# With DENIZEN_DEVICE_CHECK: the .cu files among <source>... are compiled to PTX for one architecture,
# unoptimised, and nothing is linked. It finds what the language forbids in device code for a tenth of
# the time. What ptxas would say of the optimised program is for machines with a GPU (make gpu-test).
function(denizen_check_device)
    list(FILTER ARGN INCLUDE REGEX "\\.cu$")
    foreach(source IN LISTS ARGN)
        cmake_path(ABSOLUTE_PATH source)
        set_property(GLOBAL APPEND PROPERTY denizen_device_sources ${source})
    endforeach()
endfunction()

# They are compiled twelve in one source (join.py), for which the runtime's headers are parsed once: that
# takes half of the time. Some name what lies in a namespace by its whole name, or names in their headers would
# meet those of others: each of these is alone, and each of all with DENIZEN_UNITY=OFF.
function(denizen_compile_device_sources)
    get_property(sources GLOBAL PROPERTY denizen_device_sources)
    list(REMOVE_DUPLICATES sources)
    if(DENIZEN_UNITY)
        find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
        set(units ${sources})
        string(CONCAT alone "/(allreduce_arms|bench_(arena|driver|group|transactions)|doorbell_loops|driver_.*"
            "|engine_copies|flow_radio|observed_loops|flow/resident_test|task/actors_test)\\.cu$")
        list(FILTER units INCLUDE REGEX ${alone})
        list(FILTER sources EXCLUDE REGEX ${alone})
        set(number 0)
        while(sources)
            math(EXPR number "${number} + 1")
            list(SUBLIST sources 0 12 some)
            list(REMOVE_ITEM sources ${some})
            set(unit ${PROJECT_BINARY_DIR}/device/unit_${number}.cu)
            add_custom_command(OUTPUT ${unit} DEPENDS ${some} ${PROJECT_SOURCE_DIR}/cmake/join.py
                COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/join.py ${unit} ${some})
            list(APPEND units ${unit})
        endwhile()
        set(sources ${units})
        add_custom_target(denizen_device_units DEPENDS ${units}) # which awaits no library
    endif()
    denizen_compile_to_ptx(denizen_device_sources ${sources})
    if(TARGET denizen_device_units)
        add_dependencies(denizen_device_sources denizen_device_units)
    endif()
endfunction()

function(denizen_compile_to_ptx name)
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARGN})
    target_link_libraries(${name} PRIVATE denizen denizen_strict)
    target_compile_options(${name} PRIVATE -Xcicc=-O0)
    set_target_properties(${name} PROPERTIES CUDA_PTX_COMPILATION ON CUDA_ARCHITECTURES 90-virtual)
    target_include_directories(${name} PRIVATE
        ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(${name} PRIVATE DENIZEN_INCLUDE_DIR="")
    add_dependencies(denizen_device ${name})
endfunction()

# denizen_program(<name> <source>...): a benchmark program. make bench builds them, nothing else does.
function(denizen_program name)
    if(DENIZEN_DEVICE_CHECK)
        denizen_check_device(${ARGN})
        return()
    endif()
    add_executable(${name} ${ARGN})
    denizen_compile(${name})
    target_link_options(${name} PRIVATE LINKER:-z,relro,-z,now)
    add_dependencies(denizen_benchmarks ${name})
endfunction()

# denizen_module(<source>...): the extension module denizen._core. With DENIZEN_STABLE_ABI it is for every
# Python from 3.11 on, and nanobind's compiled half is the package nanobind-backend; else it is for this
# Python, and holds that half.
function(denizen_module)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
        OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    find_package(nanobind CONFIG REQUIRED)
    if(DENIZEN_STABLE_ABI)
        set(abi STABLE_ABI STABLE_ABI_VERSION 3.11 BACKEND_MODULE nanobind_backend)
    else()
        set(abi NB_STATIC)
    endif()
    nanobind_add_module(_core ${abi} NB_SUPPRESS_WARNINGS NOMINSIZE ${ARGN})
    denizen_together(_core ${ARGN})
    if(DENIZEN_UNITY AND TARGET nanobind-static) # as nanobind's own nb_combined.cpp
        set_target_properties(nanobind-static PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
    denizen_compile(_core)
    denizen_harden(_core)
    # Where the C++ library is linked statically its symbols would be this module's to give, and those
    # that are unique in a process would bind what other modules bring of it.
    target_link_options(_core PRIVATE
        LINKER:--version-script=${PROJECT_SOURCE_DIR}/src/bind/exports.map)
    set_property(TARGET _core APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/src/bind/exports.map)
    target_precompile_headers(_core PRIVATE <denizen/actor/any_runtime.hpp>
        <nanobind/nanobind.h> <nanobind/stl/string.h> <nanobind/stl/vector.h>)
    add_dependencies(denizen_wheel _core)
    install(TARGETS _core LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
endfunction()

# The parts whose tests' files nearly all include the whole runtime.
set(denizen_parts_on_the_runtime actor cluster io memory task)

# denizen_optimise_test(<target> <part> <concurrency>): tests of concurrency meet the optimiser that users'
# programs meet. Compiling the others at -O1 takes two thirds of the time. With DENIZEN_OPTIMISED_TESTS=OFF both are
# a step lower: the others at -Og take a third less again. What the files include is parsed once for all that share it
# and have the same options.
function(denizen_optimise_test target part concurrency)
    set(level -O1)
    if(concurrency AND DENIZEN_OPTIMISED_TESTS)
        set(level -O2)
    elseif(NOT concurrency AND NOT DENIZEN_OPTIMISED_TESTS)
        set(level -Og)
    endif()
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:${level}>)
    if(NOT DENIZEN_UNITY OR DENIZEN_CUDA)
        return()
    endif()
    set(parsed denizen_parsed)
    if(part IN_LIST denizen_parts_on_the_runtime)
        set(runtime <denizen/actor/runtime.hpp>)
        string(APPEND parsed _runtime)
    endif()
    if(concurrency AND NOT DENIZEN_SANITIZE)
        string(APPEND parsed _concurrency)
    endif()
    if(NOT TARGET ${parsed})
        add_library(${parsed} OBJECT ${PROJECT_SOURCE_DIR}/tests/support/parsed.cpp)
        target_link_libraries(${parsed} PRIVATE denizen_core denizen_strict GTest::gtest)
        target_compile_options(${parsed} PRIVATE
            $<$<CONFIG:Release>:${level}> ${CMAKE_CXX_COMPILE_OPTIONS_PIE}) # as executables are compiled
        set_target_properties(${parsed} PROPERTIES POSITION_INDEPENDENT_CODE OFF EXCLUDE_FROM_ALL ON)
        target_precompile_headers(${parsed} PRIVATE <gtest/gtest.h> ${runtime}
            <algorithm> <filesystem> <fstream> <map> <random> <set> <thread>)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${parsed})
endfunction()

# denizen_test(<part>_<what> SOURCES <file>... [NEEDS <part>...] [CUDA] [SANITIZERS] [CONCURRENCY [PLAIN]]
#              [LIFETIMES] [TIMEOUT <seconds>] [COST <seconds>])
# A GoogleTest program, labelled <part>, and device if it has a .cu file. NEEDS: parts beside the core
# that it links. CUDA: it has nothing to do without a GPU, so it is skipped there and not built without
# nvcc; any other .cu file is compiled by g++ where there is no nvcc. SANITIZERS: it belongs to the asan
# and tsan builds too; CONCURRENCY: also to the shorter tsan build of make test, which on a machine without a
# GPU is then the only one there to have it, with every case that the other build has; PLAIN: both have it, since
# ThreadSanitizer's order of events is not the processor's, or since it runs less of it. LIFETIMES: to make
# test's shorter asan build, for what is allocated and freed by several threads. COST: how long it runs, of the
# longest, which begin first so that others run beside them.
function(denizen_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "CUDA;SANITIZERS;CONCURRENCY;PLAIN;LIFETIMES" "TIMEOUT;COST" "NEEDS;SOURCES")
    if(arg_CONCURRENCY OR arg_LIFETIMES)
        set(arg_SANITIZERS TRUE)
    endif()
    if((DENIZEN_SANITIZE AND NOT arg_SANITIZERS) OR (arg_CUDA AND NOT DENIZEN_CUDA)
       OR NOT TARGET GTest::gtest)
        return()
    endif()
    if(arg_CONCURRENCY AND NOT (arg_PLAIN OR DENIZEN_OPTIMISED_TESTS OR DENIZEN_SANITIZE OR DENIZEN_CUDA))
        return()
    endif()
    if(DENIZEN_DEVICE_CHECK)
        denizen_check_device(${arg_SOURCES})
        return()
    endif()
    string(REGEX REPLACE "_.*" "" labels ${name})
    add_executable(test_${name} ${arg_SOURCES})
    list(TRANSFORM arg_NEEDS PREPEND denizen_)
    denizen_compile(test_${name} denizen_core ${arg_NEEDS})
    denizen_optimise_test(test_${name} ${labels} ${arg_CONCURRENCY})
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
    if(arg_COST)
        set_tests_properties(${name} PROPERTIES COST ${arg_COST})
    endif()
    if(arg_SOURCES MATCHES "\\.cu(;|$)")
        list(APPEND labels device)
        if(DENIZEN_CUDA)
            set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu)
        endif()
    endif()
    if("device" IN_LIST labels)
        add_dependencies(denizen_gpu_tests test_${name})
    endif()
    if(arg_CONCURRENCY)
        list(APPEND labels concurrency)
        add_dependencies(denizen_concurrency test_${name})
    endif()
    if(arg_LIFETIMES)
        list(APPEND labels lifetimes)
        add_dependencies(denizen_lifetimes test_${name})
    endif()
    set_tests_properties(${name} PROPERTIES LABELS "${labels}")
endfunction()

# Every public header compiles on its own and twice, as C++, and with all others as CUDA.
function(denizen_check_headers)
    get_property(roots GLOBAL PROPERTY denizen_include_roots)
    foreach(root IN LISTS roots)
        file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*.hpp)
        list(APPEND headers ${found})
    endforeach()
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
    add_library(denizen_headers OBJECT EXCLUDE_FROM_ALL ${files}) # make test-headers
    target_link_libraries(denizen_headers PRIVATE denizen denizen_strict)
endfunction()
