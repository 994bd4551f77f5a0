// SPDX-License-Identifier: Apache-2.0
// What the text of a program may call besides denizen's own: one vocabulary for the host compiler
// and for NVRTC (docs/vocabulary.md lists it). Every program that is compiled at run time includes
// this file first. Text that nvcc compiles ahead of time needs it not: nvcc knows both libraries.
//
// NVRTC has no headers. It finds the standard ones of this vocabulary by name in denizen/rtc, which
// is on its include path and on nobody else's. All of them are included here, on both sides, so
// that text which forgot an #include compiles on both or on neither.
#pragma once

#include <denizen/base/target.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <numbers>
#include <numeric>
#include <type_traits>
#include <utility>

#include <denizen/base/vocabulary/host.hpp>
#include <denizen/base/vocabulary/nvrtc.hpp>
#include <denizen/base/vocabulary/words.hpp>
