# SPDX-License-Identifier: Apache-2.0
"""The lens: what the CUDA driver submits to the GPU, seen from user space.

A preload library (lens/ in the repository) records; this package runs programs under it, reads the
log, decodes it, and tells what each call of the CUDA API cost in doorbells, entries and bytes. It
needs no GPU and does not use the actor runtime.
"""
