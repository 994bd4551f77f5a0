// SPDX-License-Identifier: Apache-2.0
// Which API call a doorbell belongs to. With CUPTI the driver tells us at the start and end of each
// call; else the stack of the faulting thread is walked up to where it entered the driver library.
#pragma once

#include "format.hpp"
#include "instruction.hpp"

namespace denizen::lens {

struct Attribution {
    uint32_t api, api_inner; // as DoorbellRecord
    uint64_t call;
};

// Safe in a signal handler; counts a doorbell for the thread's call.
Attribution attribute(const Registers& at);

// The library that holds this address is the driver's: its exported functions are learned, once.
void learn_driver_library(const void* address);

// Subscribes to CUPTI. False if there is none, or another tool has it; `why` says so.
bool subscribe(const char*& why);

// Another log begins: names are written, and calls counted, anew.
void forget_names();

// ApiCountRecords, at the end.
void log_api_counts();

} // namespace denizen::lens
