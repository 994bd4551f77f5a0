// SPDX-License-Identifier: Apache-2.0
// The programs of this process that live on a GPU. Loading code and taking or freeing memory may
// wait for everything that runs on the device, and a program without a breath never ends: for such
// a moment all of those leave. They come back by themselves when there is something for them to do.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace denizen::gpu {

class Resident {
public:
    virtual void ask_to_leave() = 0;
    // It has left, or has died.
    virtual bool off() = 0;
    // It may come back, or stay if it has not left.
    virtual void let_return() = 0;

    // No kernel of it lasts, or each leaves when it has had no work for a while: whoever waits for
    // the device need not ask it to leave.
    virtual bool ends_by_itself() const { return false; }
    // Kernels of it that have been launched, and how many of them have ended, if each does.
    virtual uint32_t launched() const { return 0; }
    virtual uint32_t ended() const { return 0; }
    virtual int ordinal() const = 0;     // its device's
    virtual uint32_t blocks() const = 0; // each on an SM
    // Whether any SMs do for its blocks: they are in no clusters.
    virtual bool anywhere() const = 0;

protected:
    ~Resident() = default;
};

class Residents {
public:
    // Runs `use` while no program of this process is on a GPU that would stay there. False, without
    // running it, if one does not leave within two seconds.
    bool without_any(const std::function<void()>& use);

    void add(Resident* resident);
    void remove(Resident* resident);

    // Whether there is another than `who` on its device, which may have taken the room for it.
    bool beside(const Resident& who);
    // With the mutex held: SMs of a device that are taken, at most.
    uint32_t taken(int ordinal) const;
    // With the mutex held: launches `who`, whose clusters need SMs that lie together, while those
    // that can be anywhere are away; these come back when seated(), or after a second.
    void seat(const Resident& who, const std::function<void()>& launch,
              const std::function<bool()>& seated);

    // Waits until what runs on a device was launched after this call, as far as it breathes; 10 s
    // at most. Compute-sanitizer's memcheck knows of no memory that was taken after a kernel's
    // launch.
    void renew(int ordinal);

    // Held during a launch, too: nobody comes back before `use` has ended.
    std::mutex mutex;

private:
    std::vector<Resident*> all_;
};

Residents& residents();

} // namespace denizen::gpu

namespace denizen {

// True if a CUDA driver is loaded and sees a GPU.
bool gpu_present();

// Runs `use`, which may wait for everything on a GPU, while no program of this process is on one.
// False, without running it, if one does not leave within two seconds.
bool without_residents(const std::function<void()>& use);
// The same; Errc::stuck, which says that `who` has to wait for them, if one does not leave.
void off_the_gpu(const std::string& who, const std::function<void()>& use);

} // namespace denizen
