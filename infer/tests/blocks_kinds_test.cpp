// SPDX-License-Identifier: Apache-2.0
// Every kind of op by the text of the GPU's blocks, on threads.
#define DENIZEN_INFER_BLOCKS
#define DENIZEN_INFER_FEW
#include "kinds_test.cpp"
