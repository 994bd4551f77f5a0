// SPDX-License-Identifier: Apache-2.0
// The tests of resident models, on a GPU.
#define DENIZEN_INFER_FEW
#include "engine_test.cpp"
#include "kinds_test.cpp"
