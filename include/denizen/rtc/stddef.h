// SPDX-License-Identifier: Apache-2.0
// NVRTC only: the C name of <cstddef>.
#pragma once

#include <cstddef>
