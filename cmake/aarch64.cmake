# SPDX-License-Identifier: Apache-2.0
# A toolchain: Debian's cross compiler (g++-aarch64-linux-gnu), and qemu-user to run what it makes.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Debian 12 has qemu 7.2, whose pairs of registers are not loaded at once.
# DENIZEN_EMULATED is for the tests: each access of 16 bytes costs this qemu some 10 us, and a child that was
# forked beside threads cannot start one (nor can a C program of ten lines).
set(CMAKE_CXX_FLAGS_INIT "-DDENIZEN_WITHOUT_LSE2 -DDENIZEN_EMULATED")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
