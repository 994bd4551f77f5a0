# SPDX-License-Identifier: Apache-2.0
# Seven cases by hand. Minutes from midnight; what is expected of them was worked out on paper.
TRACES = {
    "c1": "a0 b10 c20 d30",
    "c2": "a0 b20 c50 d60",
    "c3": "a5 c10 b40 d50",
    "c4": "a0 b10 b30 c40 d45",
    "c5": "a0 b10 c20 b30 c40 d600",
    "c6": "a7",
    "c7": "b0 d0",
}
EDGES = {  # count, mean, median, p95 in minutes
    ("a", "b"): (4, 12.5, 10, 18.5),
    ("a", "c"): (1, 5, 5, 5),
    ("b", "b"): (1, 20, 20, 20),
    ("b", "c"): (5, 14, 10, 26),
    ("b", "d"): (2, 5, 5, 9.5),
    ("c", "b"): (2, 20, 20, 29),
    ("c", "d"): (4, 146.25, 10, 477.5),
}
MINUTE = 60_000_000


def columns(traces):
    cases, activities, times = [], [], []
    for case, steps in traces.items():
        for step in steps.split():
            cases.append(case)
            activities.append(step[0])
            times.append(int(step[1:]) * MINUTE)
    return cases, activities, times
