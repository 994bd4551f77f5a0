// SPDX-License-Identifier: Apache-2.0
// A block on the resident runtime that reads one circuit and fills others: for what makes more
// samples than it gets, whole frames, or several streams. Those of signal processing are in
// dsp/resident_circuits.hpp.
//
// The host copies samples, a thousand or so at a time and with what they need of the past, into
// pinned memory of the block; a worker makes outputs of them; the host copies these into the
// quanta of the circuits, in the order of the stream. All workers of the block are at it at once.
// Host only.
#pragma once

#include <denizen/flow/resident.hpp>

namespace denizen::flow {

class ResidentBridge : public Block {
public:
    ~ResidentBridge() override;
    Resident& resident() const { return resident_; }

protected:
    // What a worker makes of the samples. Per `down` inputs each stream of the block gets `up`
    // outputs, which also need the inputs `before`; `frame` samples and outputs stay together.
    struct Shape {
        uint32_t before = 0;
        uint32_t up = 1;
        uint32_t down = 1;
        uint32_t frame = 1;
        uint32_t streams = 1;
        uint32_t beside = 0;  // bytes of a sample of a second input, read in step; 0: there is none
        uint32_t scratch = 0; // bytes of a worker's memory for each output
        std::vector<float> values;
        float a = 0;
        float b = 0;
    };

    // `kind` names what the worker does (dsp/resident/kinds_circuits.hpp). Throws bad_argument if
    // the program does not have it.
    ResidentBridge(std::string name, Resident& resident, const std::string& kind, size_t in_bytes,
                   size_t out_bytes);

    // While the graph runs: from some sample on, the same for all workers. Throws bad_argument
    // unless there are as many as shape() has.
    void set(const std::vector<float>& values);

private:
    friend class detail::Engine;

    virtual Shape shape() const = 0; // when the graph starts
    // Consumes up to `most` samples of the current quantum, if there is one, and as many of the
    // second input; gives their number.
    virtual size_t take(std::byte* to, std::byte* beside, size_t most) = 0;
    // Samples that each stream's current quantum has room for; 0 if one has none.
    virtual size_t room() const = 0;
    // Produces `count` of each stream; those of stream s begin at from + s * apart.
    virtual void give(const std::byte* from, size_t apart, size_t count) = 0;
    virtual void flush() = 0;

    void work() final;
    bool poll() final;
    bool busy() const final;

    Resident& resident_;
    uint32_t kind_;
    uint32_t in_bytes_;
    uint32_t out_bytes_;
    std::unique_ptr<Engine::ResidentCrossing> crossing_; // from the start on
};

// One that takes T, of one input or two, and gives U, with its ports.
template <class T, class U>
class ResidentBetween : public ResidentBridge {
public:
    In<T> in;

protected:
    ResidentBetween(std::string name, Resident& resident, const std::string& kind,
                    std::string input = "in")
        : ResidentBridge(std::move(name), resident, kind, sizeof(T), sizeof(U)),
          in(*this, std::move(input))
    {
    }
    // The second input, with Shape::beside: by whoever has it, before the graph starts.
    void reads(In<T>& beside) { beside_ = &beside; }
    // The next stream's port: by whoever has it, before the graph starts.
    void gives(Source<U>& out) { outs_.push_back(&out); }

private:
    size_t take(std::byte* to, std::byte* beside, size_t most) override
    {
        if (!in.has_quantum() || (beside_ != nullptr && !beside_->has_quantum())) {
            return 0;
        }
        size_t count = std::min(most, in.view().size());
        if (beside_ != nullptr) {
            count = std::min(count, beside_->view().size());
            std::memcpy(beside, beside_->view().data(), count * sizeof(T));
            beside_->consume(count);
        }
        std::memcpy(to, in.view().data(), count * sizeof(T));
        in.consume(count);
        return count;
    }
    size_t room() const override
    {
        size_t least = ~size_t{0};
        for (const Source<U>* out : outs_) {
            least = std::min(least, out->has_quantum() ? out->room().size() : 0);
        }
        return least;
    }
    void give(const std::byte* from, size_t apart, size_t count) override
    {
        for (Source<U>* out : outs_) {
            std::memcpy(out->room().data(), from, count * sizeof(U));
            out->produce(count);
            from += apart;
        }
    }
    void flush() override
    {
        for (Source<U>* out : outs_) {
            out->flush();
        }
    }
    In<T>* beside_ = nullptr;
    std::vector<Source<U>*> outs_;
};

} // namespace denizen::flow
