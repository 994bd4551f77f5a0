# SPDX-License-Identifier: Apache-2.0
"""Everyday calls of a CUDA runtime, by its library's path: the same calls for any of 12.8 or later.

    python runtime_calls.py .../libcudart.so.13

50 launches, 20 copies of 1 KiB, 10 fills, and 10 launches of a graph of 10 kernels; the kernel
counts itself, and the count is checked.
"""

import ctypes
import sys
from ctypes import byref, c_size_t, c_uint, c_void_p

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry count(.param .u64 given)
{
    .reg .u64 at;
    .reg .u32 n;
    ld.param.u64 at, [given];
    cvta.to.global.u64 at, at;
    ld.global.u32 n, [at];
    add.u32 n, n, 1;
    st.global.u32 [at], n;
    ret;
}
"""
LAUNCHES, COPIES, FILLS, GRAPHS, NODES = 50, 20, 10, 10, 10


class Dim3(ctypes.Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


class Runtime:
    def __init__(self, path):
        self._library = ctypes.CDLL(path)

    def __getattr__(self, name):
        def call(*arguments):
            if status := getattr(self._library, name)(*arguments):
                sys.exit(f"{name} failed: {status}")

        return call


def main(path):
    try:
        cuda = Runtime(path)
    except OSError as error:
        sys.exit(f"{path} is no CUDA runtime: {error}")
    stream, library, kernel, memory = c_void_p(), c_void_p(), c_void_p(), c_void_p()
    graph, made, version = c_void_p(), c_void_p(), ctypes.c_int()
    cuda.cudaRuntimeGetVersion(byref(version))
    cuda.cudaSetDevice(0)
    cuda.cudaStreamCreateWithFlags(byref(stream), 1)
    cuda.cudaMalloc(byref(memory), c_size_t(4096))
    cuda.cudaMemset(memory, 0, c_size_t(4096))
    cuda.cudaLibraryLoadData(byref(library), PTX, None, None, 0, None, None, 0)
    cuda.cudaLibraryGetKernel(byref(kernel), library, b"count")
    arguments = (c_void_p * 1)(ctypes.addressof(memory))
    one = Dim3(1, 1, 1)

    def launch():
        cuda.cudaLaunchKernel(kernel, one, one, arguments, c_size_t(0), stream)

    for _ in range(LAUNCHES):
        launch()
    host = ctypes.create_string_buffer(1024)
    for _ in range(COPIES):
        cuda.cudaMemcpyAsync(c_void_p(memory.value + 1024), host, c_size_t(1024), 1, stream)
    for _ in range(FILLS):
        cuda.cudaMemsetAsync(c_void_p(memory.value + 2048), 0, c_size_t(1024), stream)
    cuda.cudaStreamBeginCapture(stream, 1)
    for _ in range(NODES):
        launch()
    cuda.cudaStreamEndCapture(stream, byref(graph))
    cuda.cudaGraphInstantiate(byref(made), graph, ctypes.c_ulonglong(0))
    for _ in range(GRAPHS):
        cuda.cudaGraphLaunch(made, stream)
    cuda.cudaStreamSynchronize(stream)
    counted = c_uint()
    cuda.cudaMemcpy(byref(counted), memory, c_size_t(4), 2)
    if counted.value != LAUNCHES + GRAPHS * NODES:
        sys.exit(f"{counted.value} kernels ran, not {LAUNCHES + GRAPHS * NODES}")
    print(f"runtime {version.value}: {counted.value} kernels")


if __name__ == "__main__":
    main(sys.argv[1])
