// SPDX-License-Identifier: Apache-2.0
// What a test asks of the driver without a GPU (fake_driver.cpp), and what it saw.
#pragma once

// A GPU that runs what is launched, where a test has one (tests/simulation).
class FakeGpu {
public:
    enum class Call { take, launch, other };
    virtual bool refuses(Call call) = 0; // this one fails
    // In the order of the stream, as the next.
    virtual void launch(void* stream, void* function, void** parameters) = 0;
    virtual void set(void* stream, unsigned long long at, unsigned value) = 0;
    virtual bool busy(void* stream) = 0;
    virtual void synchronize(void* stream) = 0;
    // The driver has written there, or the memory is given back: bytes 0 for all of it.
    virtual void wrote(void* at, unsigned long long bytes) = 0;

protected:
    ~FakeGpu() = default;
};

struct FakeDriver {
    FakeGpu* gpu = nullptr; // else kernels do nothing

    int fail_at = 0;   // the call of this number fails, counted from 1; 0: none
    bool dead = false; // no context can be made current

    bool endless = false; // a kernel that is launched runs until a word is copied to it
    bool busy = false;    // one runs

    int capture_mode = 0; // of the one thread: see cuThreadExchangeStreamCaptureMode

    int calls = 0;          // that could fail
    int contexts = 0;       // references to primary contexts
    int held = 0;           // streams, modules, pools, pieces of memory
    int late = 0;           // given back when nobody kept a context any more
    int out_of_context = 0; // calls that need a current context and had none

    unsigned partitioned_sms = 0; // of green contexts, a bit for each of both GPUs
    unsigned shared_sms = 0;      // that were of two at a time
};

extern "C" FakeDriver* fake_driver();
