// SPDX-License-Identifier: Apache-2.0
// The resident model under many askers, by the text of the GPU's blocks, on threads.
#define DENIZEN_INFER_BLOCKS
#include "engine_test.cpp"
