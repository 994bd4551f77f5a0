# SPDX-License-Identifier: Apache-2.0
"""What test_lens_wrong_words runs under the lens: one small copy by the driver, before which words
of this program's own go to the GPU.

    python wrong_words.py right|unmapped|method|cut

Prints a line of JSON: what the lens and CUDA said, and whether the driver's copy arrived.
"""

import ctypes
import json
import mmap
import os
import sys
import time

SIZE = 1 << 16
FIXED_NOREPLACE = 0x100000
PENDING, DONE = 0, 1  # denizen_lens_pending, denizen_lens_done
NOT_READY = 600  # CUDA_ERROR_NOT_READY
PATIENCE = 10  # seconds
INLINE_COPY = [0x20022062, 0, 0, 0x20022060, 4, 1, 0x2001206C, 0x41, 0x6001206D, 0]
WORDS = {
    "right": [],
    # 4 bytes to an address where the GPU has nothing.
    "unmapped": [*INLINE_COPY[:1], 0x4000, 0, *INLINE_COPY[3:]],
    # A method that the compute class does not have.
    "method": [1 << 29 | 1 << 16 | 1 << 13 | 0x1FFC >> 2, 1],
    # The opcode that ends a segment (NVC86F_DMA_SEC_OP_END_PB_SEGMENT): the words behind it, which
    # would say that the copy is done, are not read.
    "cut": [7 << 29],
}


class Cuda:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name, *arguments):
        if status := getattr(self.library, name)(*arguments):
            sys.exit(f"{name}: {status}")


def main(kind):
    cuda, process = Cuda(), ctypes.CDLL(None)
    device, context = ctypes.c_int(), ctypes.c_void_p()
    stream, pinned = ctypes.c_void_p(), ctypes.c_void_p()
    memory = ctypes.c_uint64()
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    cuda("cuStreamCreate", ctypes.byref(stream), 1)
    cuda("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
    cuda("cuMemsetD8_v2", memory, ctypes.c_ubyte(0), ctypes.c_size_t(SIZE))
    cuda("cuMemAllocHost_v2", ctypes.byref(pinned), ctypes.c_size_t(SIZE))
    cuda("cuCtxSynchronize")
    # Where an entry of the ring can name it, and CPU and GPU have it at one address.
    process.mmap.restype = ctypes.c_void_p
    wanted = 1 << 39
    low = process.mmap(
        ctypes.c_void_p(wanted), ctypes.c_size_t(SIZE), mmap.PROT_READ | mmap.PROT_WRITE,
        mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | FIXED_NOREPLACE, -1, ctypes.c_long(0),
    )  # fmt: skip
    if low != wanted:
        sys.exit("the address 2^39 is taken")
    cuda("cuMemHostRegister_v2", ctypes.c_void_p(low), ctypes.c_size_t(SIZE), 0)
    words = WORDS[kind]
    (ctypes.c_uint32 * len(words)).from_address(low)[:] = words
    source = ctypes.c_uint32.from_address(pinned.value)
    source.value = 0x12345678
    state = process.denizen_lens_substitute(ctypes.c_void_p(low), len(words), SIZE // 4)
    if state != PENDING:
        sys.exit(f"denizen_lens_substitute: {state}")
    cuda("cuMemcpyHtoDAsync_v2", memory, pinned, ctypes.c_size_t(4), stream)
    state = process.denizen_lens_substituted(None)
    end = time.monotonic() + PATIENCE
    while (status := cuda.library.cuStreamQuery(stream)) == NOT_READY and time.monotonic() < end:
        time.sleep(0.001)
    found = ctypes.c_uint32()
    right = status == 0 and (
        cuda.library.cuMemcpyDtoH_v2(ctypes.byref(found), memory, ctypes.c_size_t(4)) == 0
        and found.value == source.value
    )
    print(json.dumps({"sent": state == DONE, "status": status, "right": right}), flush=True)
    os._exit(0)  # what has not come to its end must not be waited for


if __name__ == "__main__":
    main(sys.argv[1])
