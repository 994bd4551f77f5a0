// SPDX-License-Identifier: Apache-2.0
// The user-space half of the fake driver: makes channels by the ioctls that libcuda uses and
// submits to them. A library of its own, so that its exported functions can be found on the stack.
#pragma once

#include <cstdint>

struct FakeChannel {
    uint32_t number, token, entries, put;
    uint64_t* gpfifo;
    volatile uint32_t* userd;
    uint32_t* pushbuffer; // of the channel: fake_pushbuffer_words words
    uint32_t cursor;
};

inline constexpr uint32_t fake_pushbuffer_words = 64 * 1024;

// Options of fake_open: how unusual drivers do it.
inline constexpr uint32_t fake_no_tokens = 1; // never asks RM for a channel's token
inline constexpr uint32_t fake_wrapped = 2;   // every ioctl inside IOCTL_XFER_CMD
inline constexpr uint32_t fake_old_alloc = 4; // RM_ALLOC in its short form
inline constexpr uint32_t fake_fixed = 8;     // maps the doorbell at an address of its choice
inline constexpr uint32_t fake_dup = 16;      // maps through a duplicate of the device file
inline constexpr uint32_t fake_mmap64 = 32;   // maps by the other name of mmap
// Which function opens the control file (0 is open), and which makes the descriptor by which it is
// used from then on (0: none does).
constexpr uint32_t fake_opened_by(uint32_t function) { return function << 8; }
constexpr uint32_t fake_duplicated_by(uint32_t function) { return function << 12; }
inline constexpr uint32_t fake_openers = 8, fake_duplicators = 8;

// -1 with errno if there is no driver.
extern "C" int fake_open(uint32_t options);
extern "C" FakeChannel fake_channel(uint32_t entries);
extern "C" void fake_free(const FakeChannel& c);

// Appends one segment of `words` words, each `first` + its place, as one entry; does not ring.
extern "C" void fake_append(FakeChannel& c, uint32_t first, uint32_t words);
// A control entry that says where segments from now on are: bits 56:40.
extern "C" void fake_base(FakeChannel& c, uint32_t bits);
// Puts GP_PUT.
extern "C" void fake_publish(FakeChannel& c);
// Stores the token in instruction form `form` of fake_forms.
extern "C" void fake_ring(FakeChannel& c, uint32_t form);
extern "C" void fakeLaunchKernel(FakeChannel& c, uint32_t first, uint32_t words); // all of it
// The same, `depth` calls deeper, through frames of different kinds and back in by an exported
// function.
extern "C" void fakeGraphLaunch(FakeChannel& c, uint32_t depth);
extern "C" uint64_t fakeGraphInstantiate(uint32_t depth); // rings nothing, leaves a dirty stack

extern "C" const char* fake_form_name(uint32_t form); // nullptr beyond the last
extern "C" uint64_t fake_load(uint32_t form, uint32_t offset,
                              uint32_t device_value); // see fake_cuda.cpp
extern "C" const char* fake_load_name(uint32_t form);
extern "C" volatile uint32_t* fake_doorbell();
extern "C" void fake_map_doorbell();                // once more
extern "C" void fake_move_doorbell(void* doorbell); // the page lies there now
extern "C" volatile uint32_t* fake_timer();
