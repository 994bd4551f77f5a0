// SPDX-License-Identifier: Apache-2.0
// NVRTC only: the C name of <cstdint>.
#pragma once

#include <cstdint>
