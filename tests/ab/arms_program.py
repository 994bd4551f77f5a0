# SPDX-License-Identifier: Apache-2.0
"""A program that serves two arms by JSON lines, as one in C++ would, or misbehaves."""

import json
import sys
import time
from array import array

how = sys.argv[1]
values = array("f", [0.0] * 4)
size = 0
for line in sys.stdin:
    ask = json.loads(line)
    answer = {}
    if ask["do"] == "params":
        size = ask["params"]["bytes"]
    elif ask["do"] == "poison":
        values = array("f", [float("nan")] * 4)
    elif ask["do"] == "result":
        with open(ask["file"], "wb") as file:
            values.tofile(file)
        answer = {"dtype": "float32"}
    elif how == "silent":
        time.sleep(60)
    elif how == "ends":
        sys.exit(3)
    elif how == "babbles":
        print("hello", flush=True)
        continue
    elif how == "error":
        answer = {"error": "no such arm"}
    elif how == "half":
        answer = {"seconds": 1.0}
    else:
        values = array("f", [1.0, 2.0, 3.0, 4.0])
        answer = {
            "seconds": 1e-6,
            "ran": {ask["arm"]: ask["operations"]},
            "moved": size * ask["operations"],
            "spans": [["copy", 0.0, 1e-6]],
        }
    print(json.dumps(answer), flush=True)
