# SPDX-License-Identifier: Apache-2.0
"""What is known of each rival: why it is ahead of denizen or behind it, and what makes its figure
uneven. How far, and how sure, is the records' business.

The reasons follow from how each is built.
"""

from __future__ import annotations

from collections.abc import Mapping

# By experiment and rival, the latter without the case's own name before it ("boost queue").
WHY: Mapping[tuple[str, str], str] = {
    ("driver", "launches, CUPTI records"): "under the lens each doorbell traps; CUPTI writes a "
    "record for each kernel, also of a graph, whose launch rings once",
    ("dispatch", "launch + sync"): "a message is a store that a running kernel sees; a launch "
    "goes through the driver, starts a grid and is waited for",
    ("dispatch", "graph + sync"): "as a launch, with less of the driver",
    ("dispatch", "device graph launch"): "no driver in between, but still a grid that starts",
    ("dispatch", "launch + sync, alone"): "as above, on a GPU without our program",
    ("dispatch", "graph + sync, alone"): "as above, on a GPU without our program",
    ("dispatch", "device graph launch, alone"): "as above, on a GPU without our program",
    ("ring", "boost spsc_queue"): "both are rings; ours reads the other side's index in batches",
    ("ring", "boost queue"): "a node for each element, and two compare-and-swaps for each",
    ("ring", "moodycamel readerwriter"): "our consumer keeps eight slots behind the producer, "
    "which pays between distant cores and costs between two threads of one core",
    ("ring", "moodycamel concurrent"): "a queue for each producer, looked for at each element",
    ("channels", "mutex and condition"): "ours spins before it sleeps, and takes no lock",
    ("channels", "boost spsc_queue"): "its users poll; ours may sleep, so a sender looks who does",
    ("channels", "moodycamel readerwriter"): "its users poll; ours may sleep, so a sender looks "
    "who does",
    ("channels", "moodycamel concurrent"): "a queue for each producer, looked for at each element",
    ("channels", "moodycamel concurrent with tokens"): "a queue for each producer, found by token",
    ("flow", "launches"): "two copies and a launch for each block and buffer",
    ("flow", "GNU Radio"): "a thread for each block, and buffers that go from core to core",
    ("throughput", "two launches + syncs"): "the driver's work, twice",
    ("throughput", "graph"): "the driver's work, once a pair or chunk",
    ("throughput", "sync"): "the driver's work for each task",
    ("throughput", "batched"): "the driver's work for each task, without waiting",
    ("throughput", "bulk"): "work that is uniform and known beforehand is one launch; a message "
    "costs the host's thread 7 to 8 ns",
    ("sync", "grid barrier"): "goes through L2 to every SM; a cluster's own stays on its SMs",
    ("sync", "counting barrier"): "goes through L2 to every SM; a cluster's own stays on its SMs",
    ("sync", "grid iteration, timed by the host"): "goes through L2 to every SM",
    ("actors", "two words and a mutex"): "a lock for each stamp; ours is one word",
    ("actors", "two words and a mutex, update"): "a lock for each stamp; ours is one word",
    ("adsb", "dump1090"): "one sample after the other; ours takes preambles in vectors",
    ("adsb", "dump1090 in memory"): "one sample after the other; ours takes preambles in vectors",
    ("dsp", "NumPy"): "a pass over memory for each step; a single multiply is one pass of either, "
    "and ours is called for each piece of a stream",
    ("dsp", "SciPy"): "general code; its transform is as good as ours",
    ("bfs", "launch per level"): "a launch, and a wait of the host, for each level",
    ("bfs", "while graph"): "a node of the graph for each level",
    ("bfs", "CPU threads"): "denizen on the host's cores, where a search is told the GPU: where a "
    "level is one vertex (a chain) a core's step is shorter than a barrier of the GPU",
    ("bfs", "SciPy"): "one thread in C; on a chain that is the best there is",
    ("bfs", "NetworkX"): "one thread in Python",
    ("bfs", "shortest paths, SciPy"): "one thread in C; on a chain that is the best there is",
    ("bfs", "shortest paths, NetworkX"): "one thread in Python",
    ("bfs", "plain queue"): "the same search; ours fetches rows ahead",
    ("group", "NCCL in a graph"): "packets without a fence or a barrier at the end; at some sizes "
    "the algorithm that our table gives to them is the worse one",
    ("group", "NCCL eager, synchronised"): "a launch and a wait; ours is a message to who is there",
    ("group", "NCCL in a graph, windows"): "as above, without copies through its own buffers",
    ("group", "barrier, sum, barrier"): "on CPU ranks: nothing but the sum and two barriers; ours "
    "is one text for both sides, and says who is late",
    ("layer", "NCCL"): "nearly all of the time is the layer's own",
    ("layer", "PyTorch symmetric memory"): "nearly all of the time is the layer's own; what makes "
    "its sum the faster one is not known",
    ("group", "vLLM's custom all-reduce in a graph"): "at 4 MB: it loads each input where it "
    "lies on the peer; our packets carry 4 bytes for 3, from any memory",
    ("layer", "vLLM's custom all-reduce"): "nearly all of the time is the layer's own; as in group",
    ("layer", "denizen, fused"): "ours too: the sum and the norm are in the all-reduce's kernel",
    ("arena", "device malloc"): "one lock for a class; ours takes 32 blocks with one atomic",
    ("arena", "Gallatin"): "ours takes 32 blocks with one atomic, of large ones too; what makes "
    "its frees the faster ones was not measured",
    ("arena", "malloc"): "a cache for each thread, no atomic; ours takes one, so that any thread "
    "and the GPU's code may free",
    ("arena", "std::pmr::synchronized_pool_resource"): "one mutex: cheap for one thread",
    ("pools", "cudaMallocAsync"): "hands out an address; a `buffer` is also counted, as messages "
    "may refer to it",
    ("pools", "cudaMallocAsync + sync"): "as above, and waited for",
    ("pools", "cudaMalloc"): "the driver, each time",
    ("pools", "cudaMallocHost"): "the driver, each time",
    ("pools", "aligned_alloc"): "hands out an address; a `buffer` is also counted",
    ("tasks", "one launch each"): "the driver's work for each task",
    ("tasks", "graph"): "a node for each task",
    ("tasks", "device graph launch"): "a grid that starts for each task",
    ("tasks", "dynamic parallelism"): "a grid that starts for each task",
    ("tasks", "bulk"): "tasks that are uniform and known beforehand are one launch",
    ("tasks", "one launch per level"): "a tree whose levels are known beforehand is one launch "
    "for each; ours are spawned one by one",
    ("tasks", "launches"): "the driver's work for each hop",
    ("transactions", "launches per batch, streamed"): "the same passes; ours end with their "
    "slowest shard and wait for the host's next batch",
    ("transactions", "launches per batch, resident"): "the same passes; ours end with their "
    "slowest shard and wait for the host's next batch",
    ("transactions", "threads with barriers"): "the same passes by threads that meet after each",
    ("transactions", "reference, one thread"): "one record after the other, on one core",
    ("io", "by handlers of a warp"): "denizen's, too: its lanes write a long message together, a "
    "thread writes slot after slot; for a short one a warp takes longer to begin",
    ("io", "received and written by the host"): "each block comes to the program as a message, and "
    "it writes it",
    ("infer", "ONNX Runtime, CPU"): "a session's call and its threads for each step; ours keep "
    "weights and state",
    ("infer", "ONNX Runtime, CPU, no spinning"): "as above, and its threads sleep in between",
    ("infer", "CUDA graph, pinned copies"): "two copies and a launch for each step",
    ("infer", "PyTorch eager"): "two copies and a launch, or several, for each layer",
    ("infer", "torch.compile"): "two copies, fewer launches than eager, and Python's guards before "
    "them",
    ("cluster", "TCP socket, half a trip"): "two threads and nothing between them; ours is a "
    "message of an actor by a worker, a sending and a receiving thread",
    ("cluster", "Unix socket, half a trip"): "as TCP; where all sleep, our rings save system calls",
    ("cluster", "ZeroMQ, half a trip"): "a thread of its own on each side, as our links",
    ("cluster", "pyzmq, half a trip"): "ZeroMQ from Python; ours is asked from Python, too",
    ("cluster", "gRPC, half a trip"): "HTTP/2 and a pool of threads for each call",
    ("cluster", "Ray, half a trip"): "a task for each call, and its result by an object's number",
    ("cluster", "TCP socket, 256 at a time"): "one copy of all 256; ours looks at each message",
    ("cluster", "Unix socket, 256 at a time"): "one copy of all 256; ours looks at each message",
    ("cluster", "ZeroMQ"): "batches between its threads; what holds up ours is not known",
    ("cluster", "pyzmq"): "ZeroMQ from Python; what holds up ours is not known",
    ("cluster", "gRPC"): "a call for each message",
    ("cluster", "Ray"): "a call for each message",
    ("wave", "graph"): "planes go to L2 between steps; our tiles keep theirs on the SM, and large "
    "rooms take several steps a pass",
    ("wave", "launches"): "as a graph, and a launch for each step",
    ("wave", "plain graph"): "a sweep without walls, sources or losses: less work a cell",
    ("wave", "CPU threads"): "denizen on the host's cores",
}  # fmt: skip

# What a rival's figure holds that ours does not, or the other way round; and the case of newer
# records that is even.
UNEVEN: Mapping[tuple[str, str], tuple[str, str]] = {
    ("flow", "chain of saxpy, GNU Radio"): (
        "its time holds the start and stop of its graph", "chain with data, GNU Radio",
    ),
    ("adsb", "dump1090"): (
        "its time holds the start of the process, the file and printing",
        "recorded signal, dump1090 in memory",
    ),
    ("wave", "graph"): (
        "a captured graph of our own sweep; a plain sweep was twice as fast on an H200",
        "plain graph",
    ),
    ("dispatch", "launch + sync"): (
        "ran beside our polling kernel; alone it took a seventh less", "launch + sync, alone",
    ),
    ("dispatch", "graph + sync"): (
        "ran beside our polling kernel; alone it took an eighth less", "graph + sync, alone",
    ),
    ("group", "NCCL in a graph"): (
        "without registered buffers and windows", "NCCL in a graph, windows",
    ),
    ("group", "NCCL eager, synchronised"): (
        "without registered buffers and windows", "NCCL in a graph, windows",
    ),
    ("channels", "moodycamel concurrent"): (
        "without its tokens", "moodycamel concurrent with tokens",
    ),
    ("arena", "device malloc"): ("with fewer threads", ""),
    ("flow", "launches"): (
        "ran before ours, not by turns with it; both fill pinned memory, from where the launches "
        "copy a buffer to the GPU, and its result back, while our workers read it where it lies",
        "",
    ),
}  # fmt: skip

# Of those that people would ask for, the ones without a row in any record, and why.
MISSING: Mapping[tuple[str, str], str] = {
    ("bfs", "Gunrock"): "no program of ours builds it",
    ("pools", "CCCL's memory pools"): "newer than the CUDA 13.0 that is built with; they call "
    "cudaMallocAsync, which has rows",
    ("flow", "Holoscan"): "no program of ours runs it; docs/comparison.md says what it is",
    ("flow", "qsdr"): "no program of ours builds it; `saxpy` has its experiments",
    ("group", "PyTorch symmetric memory"): "runs in `layer` alone, not beside the plain all-reduce",
    ("group", "TensorRT-LLM's all-reduce"): "not built",
    ("driver", "Nsight Systems"): "watches the same launches as the lens where `nsys` is installed",
}  # fmt: skip


def known(table: Mapping[tuple[str, str], object], experiment: str, rival: str) -> str | None:
    """The longest name in ``table`` that ``rival`` is, or ends with after a comma."""
    found = [name for of, name in table if of == experiment and f", {rival}".endswith(f", {name}")]
    return max(found, key=len, default=None)
