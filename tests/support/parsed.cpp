// SPDX-License-Identifier: Apache-2.0
// Nothing: what owns the precompiled header of the tests (cmake/targets.cmake) needs a source.
