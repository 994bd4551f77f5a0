// SPDX-License-Identifier: Apache-2.0
// The runtime that resident blocks share, and what their owners change while they run.
#include <denizen/flow/resident.hpp>

#include "chain.hpp"
#include "refuse.hpp"

#include <algorithm>

namespace denizen::flow {
namespace detail {

uint32_t refuse_taps(const std::string& name, size_t taps, uint32_t down)
{
    if (taps < 1 || taps > 4096 || down < 1 || down > 4096) {
        refuse("block \"" + name + "\": " + std::to_string(taps) + " taps, down by " +
               std::to_string(down) + "; a resident block takes 1 to 4096 of both");
    }
    return static_cast<uint32_t>(taps);
}

} // namespace detail

Resident::Resident(Image image, std::vector<std::string> kinds, const Options& options,
                   uint32_t chain_workers)
    : kinds_(std::move(kinds)), chain_workers_(chain_workers), runtime_(std::move(image), options)
{
    if (chain_workers == 0) {
        refuse("0 chain_workers; a chain of resident blocks needs one at least");
    }
}

Resident::~Resident() = default;

uint32_t Resident::kind(const std::string& name) const
{
    const auto found = std::find(kinds_.begin(), kinds_.end(), name);
    if (found == kinds_.end()) {
        refuse("the resident program has no blocks of kind \"" + name +
               "\": name it in resident::image<...>()");
    }
    return static_cast<uint32_t>(found - kinds_.begin());
}

uint32_t Resident::enter(Engine::ResidentWorkers& chain)
{
    const std::lock_guard lock(mutex_);
    chains_[next_] = &chain;
    return next_++;
}

void Resident::leave(uint32_t chain)
{
    const std::lock_guard lock(mutex_);
    chains_.erase(chain);
}

// Tells the chains what is done. One thread does it for all; the others look at their flights.
void Resident::collect()
{
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) {
        return;
    }
    resident::Done some[32];
    constexpr uint32_t of_done = 4;
    for (size_t n = 32; n == 32;) { // ends: by an empty ring
        n = runtime_.receive_many(of_done, some, sizeof some[0], sizeof some[0], 32, nullptr);
        for (size_t i = 0; i < n; ++i) {
            if (const auto chain = chains_.find(some[i].chain); chain != chains_.end()) {
                chain->second->done(some[i]);
            }
        }
    }
}

ResidentBlock::ResidentBlock(std::string name, Resident& resident, const std::string& kind,
                             uint32_t before, uint32_t down, std::vector<float> values, float a,
                             float b)
    : Block(std::move(name)), resident_(resident), values_(std::move(values)), before_(before)
{
    stage_.kind = resident.kind(kind);
    stage_.down = down;
    stage_.a = a;
    stage_.b = b;
}

void ResidentBlock::set(std::vector<float> values)
{
    if (values.size() > values_.size()) {
        refuse("block \"" + name() + "\": " + std::to_string(values.size()) +
               " values where there were " + std::to_string(values_.size()) +
               ": make it with as many, the rest 0");
    }
    values.resize(values_.size());
    values_ = std::move(values);
    chain_->set(place_, values_);
}

void ResidentBlock::set(float a, float b) { chain_->set(place_, a, b); }

void ResidentBlock::work() { chain_->work(); }

bool ResidentBlock::poll() { return place_ == 0 && chain_->poll(); }

bool ResidentBlock::busy() const { return place_ == 0 && chain_->busy(); }

} // namespace denizen::flow
