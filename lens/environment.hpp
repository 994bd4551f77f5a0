// SPDX-License-Identifier: Apache-2.0
// What the command `denizen lens` tells this library, through environment variables: they pass on
// to every process that the program starts.
#pragma once

#include "format.hpp"

namespace denizen::lens {

struct Environment {
    bool is_on;       // DENIZEN_LENS_DIR or DENIZEN_LENS_SOCKETS is set
    char sockets[96]; // DENIZEN_LENS_SOCKETS: sleep until told there by whom to attach (attach.hpp)
    char directory[512]; // DENIZEN_LENS_DIR: one log per process goes there
    Mode mode;           // DENIZEN_LENS_MODE: count (default) or full
    bool force;          // DENIZEN_LENS_FORCE=1: capture on a driver that is not in the table
    uint32_t log_mib;    // DENIZEN_LENS_LOG_MB: the log in memory; 0: 16 in count, 128 in full mode
    bool record;         // DENIZEN_LENS_RECORD=1: for a replay, see recorder.hpp
    char cupti[512];     // DENIZEN_LENS_CUPTI: libcupti; empty: by its usual names
    char device_prefix[512]; // /dev/nvidia, or DENIZEN_LENS_FAKE/nvidia: a driver played by a test
    char version_file[512];  // /proc/driver/nvidia/version, or DENIZEN_LENS_FAKE/version
};

const Environment& environment();

} // namespace denizen::lens
