// SPDX-License-Identifier: Apache-2.0
// NVRTC only: the C name of <cfloat>.
#pragma once

#include <cfloat>
