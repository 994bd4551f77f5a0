# SPDX-License-Identifier: Apache-2.0
"""What test_lens_soak runs under the lens: 4 threads, each with 4 streams of a framework, for some
seconds, while children are forked and programs executed.

    python soak.py torch|cupy|triton|jax SECONDS

Prints a line of JSON: how many kernels were launched, or calls of a compiled function made, each of
which the framework submits on its own; and whether every thread got the right sum.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import time

THREADS, STREAMS, BURST = 4, 4, 50


class Torch:
    def __init__(self):
        self.torch = torch = importlib.import_module("torch")
        torch.ones(1, device="cuda")

    def streams(self):
        torch = self.torch
        made = [(torch.cuda.Stream(), torch.zeros(1000, device="cuda")) for _ in range(STREAMS)]
        torch.cuda.synchronize()  # the zeros are written on another stream
        return made

    def step(self, stream):
        with self.torch.cuda.stream(stream[0]):
            stream[1].add_(1)
        return stream

    def value(self, stream):
        stream[0].synchronize()
        return stream[1].cpu().numpy()


class Cupy:
    def __init__(self):
        self.cupy = cupy = importlib.import_module("cupy")
        self.add = cupy.ElementwiseKernel("", "float32 x", "x = x + 1", "soak_add")
        self.add(cupy.zeros(1000, cupy.float32))

    def streams(self):
        cupy = self.cupy
        made = [(cupy.cuda.Stream(non_blocking=True), cupy.zeros(1000, cupy.float32))
                for _ in range(STREAMS)]  # fmt: skip
        cupy.cuda.Device().synchronize()
        return made

    def step(self, stream):
        with stream[0]:
            self.add(stream[1])
        return stream

    def value(self, stream):
        stream[0].synchronize()
        return self.cupy.asnumpy(stream[1])


class Triton(Torch):
    def __init__(self):
        super().__init__()
        self.add_one = importlib.import_module("soak_triton").add_one
        self.add_one[(1,)](self.torch.zeros(1000, device="cuda"), 1000, block=1024)

    def step(self, stream):
        with self.torch.cuda.stream(stream[0]):
            self.add_one[(1,)](stream[1], 1000, block=1024)
        return stream


class Jax:
    def __init__(self):
        self.jax = jax = importlib.import_module("jax")
        if jax.default_backend() != "gpu":
            sys.exit("this JAX has no GPU")
        self.add = jax.jit(lambda x: x + 1)
        self.add(jax.numpy.zeros(1000)).block_until_ready()

    def streams(self):
        return [self.jax.numpy.zeros(1000) for _ in range(STREAMS)]

    def step(self, stream):
        return self.add(stream)

    def value(self, stream):
        return self.jax.device_get(stream)


def main(framework, seconds):
    on = {"torch": Torch, "cupy": Cupy, "triton": Triton, "jax": Jax}[framework]()
    end = time.monotonic() + seconds
    launched, right, guard = [0], [True], threading.Lock()

    def work():
        streams, steps = on.streams(), 0
        while time.monotonic() < end:
            for _ in range(BURST):
                streams = [on.step(stream) for stream in streams]
            steps += BURST
            time.sleep(0.02)
        good = all((on.value(stream) == steps).all() for stream in streams)
        with guard:
            launched[0] += steps * STREAMS
            right[0] &= good

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        if (child := os.fork()) == 0:
            os._exit(7)  # the lens is off here
        status = os.waitpid(child, 0)[1]
        right[0] &= os.waitstatus_to_exitcode(status) == 7
        right[0] &= subprocess.run(["true"], check=False).returncode == 0
        time.sleep(0.25)
    for thread in threads:
        thread.join()
    print(json.dumps({"launched": launched[0], "right": bool(right[0])}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
