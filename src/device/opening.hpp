// SPDX-License-Identifier: Apache-2.0
// GPUs that are opened by a thread while a program for them is compiled: their contexts, and what
// maps their memory for the CPU. The driver takes its time for both, and needs no core of the
// compilers'.
#pragma once

#include <denizen/base/threads.hpp>

#include <memory>
#include <vector>

namespace denizen::gpu {

class PrimaryContext;
class VulkanDevice;

class Opening {
public:
    // `mapped`: also what MappedMemory needs. Nothing fails here, a GPU that is not there neither:
    // who then starts a program on it is told why that cannot be.
    Opening(int first, int count, bool mapped);
    ~Opening();

    // Waits for the thread, and lets go of what it has opened: a program that was started meanwhile
    // has it, too.
    void end();

private:
    void open(int first, int count, bool mapped);

    std::vector<PrimaryContext> contexts_;
    std::vector<std::shared_ptr<const VulkanDevice>> devices_;
    Threads thread_; // last: it ends before what it fills
};

} // namespace denizen::gpu
