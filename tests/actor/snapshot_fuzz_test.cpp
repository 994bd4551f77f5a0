// SPDX-License-Identifier: Apache-2.0
// Snapshots made to harm: each section of a valid one is mutated, byte by byte, word by word and in
// its length, and the checksums are computed anew. What comes of it is refused as a bad snapshot,
// or it is restored, and then the program runs and ends like any other. Sanitizers see the rest.
#include <actor/places.hpp>
#include <actor/victim.hpp>

#include <cstring>
#include <map>
#include <random>

namespace {

using namespace denizen;
using namespace denizen::test;

class Mutator {
public:
    explicit Mutator(uint32_t seed) : random_(seed) {}

    // Changes one section, in one to three places.
    std::string operator()(Parts& parts)
    {
        auto& [name, bytes] = parts.sections[random_() % parts.sections.size()];
        std::string what = name;
        for (uint32_t n = random_() % 4 == 0 ? 3 : 1; n != 0; --n) {
            what += ", " + change(bytes);
        }
        return what;
    }

private:
    std::string change(Bytes& bytes)
    {
        const size_t words = bytes.size() / 4;
        const uint32_t how = random_() % 16;
        if (words < 2 || how == 0) { // another length
            const size_t was = bytes.size();
            bytes.resize(random_() % 2 == 0 ? random_() % (was + 1) : was + random_() % 80);
            return "length " + std::to_string(was) + " -> " + std::to_string(bytes.size());
        }
        if (how < 5) {
            const size_t at = random_() % bytes.size();
            bytes[at] = static_cast<unsigned char>(bytes[at] ^ (1 << random_() % 8));
            return "bit of byte " + std::to_string(at);
        }
        const size_t at = random_() % words * 4;
        uint32_t word = 0;
        std::memcpy(&word, bytes.data() + at, sizeof word);
        const size_t other = random_() % words * 4;
        switch (random_() % 8) {
        case 0: word = 0; break;
        case 1: word = ~0u; break;
        case 2: word += 1; break;
        case 3: word -= 1; break;
        case 4: word = random_() % 128; break;
        case 5: word = 1u << random_() % 32; break;
        case 6: std::memcpy(&word, bytes.data() + other, sizeof word); break;
        default: word = static_cast<uint32_t>(random_()); break;
        }
        std::memcpy(bytes.data() + at, &word, sizeof word);
        return "word at " + std::to_string(at) + " = " + std::to_string(word);
    }

    std::mt19937 random_;
};

struct Scene {
    const char* name;
    uint32_t workers;
    uint32_t nodes;
    bool under_load;
};
void PrintTo(const Scene& s, std::ostream* out) { *out << s.name; }

class snapshot_fuzz : public testing::TestWithParam<Scene> {
protected:
    void SetUp() override
    {
        const Scene& s = GetParam();
        save_victim(small(s.workers, s.nodes), base, s.under_load);
        ASSERT_EQ(fate_of(small(s.workers, s.nodes, base), again), Fate::ran);
    }

    Fate fate_of_mutated(const Parts& parts)
    {
        parts.write(mutated);
        return fate_of(small(GetParam().workers, GetParam().nodes, mutated), again);
    }

    Folder folder;
    const std::string base = folder.file("base");
    const std::string mutated = folder.file("mutated");
    const std::string again = folder.file("again");
};

INSTANTIATE_TEST_SUITE_P(of, snapshot_fuzz,
                         testing::Values(Scene{"rest", 3, 1, false}, Scene{"load", 3, 1, true},
                                         Scene{"nodes", 2, 2, false},
                                         Scene{"nodes_load", 2, 2, true}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(snapshot_fuzz, is_refused_by_name_or_runs)
{
    const char* more = std::getenv("DENIZEN_TEST_MUTATIONS"); // for nights
    const uint32_t n = more != nullptr ? static_cast<uint32_t>(std::atoll(more)) : scaled(400);
    const char* seed = std::getenv("DENIZEN_TEST_SEED");
    const uint32_t first = seed != nullptr ? static_cast<uint32_t>(std::atoll(seed)) : 0;
    const Parts whole(base);
    std::map<Fate, uint32_t> fates;
    for (uint32_t i = first; i < first + n; ++i) {
        Parts parts = whole;
        Mutator mutate(i);
        SCOPED_TRACE("seed " + std::to_string(i) + ": " + mutate(parts));
        ++fates[fate_of_mutated(parts)];
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(fates[Fate::refused], n / 4);
    EXPECT_GT(fates[Fate::ran], 0u); // some bytes may be any: states, payloads
    EXPECT_LE(fates[Fate::stuck], n / 20);
}

// The words of the workers' states once were believed: one of them changed was enough.
TEST_P(snapshot_fuzz, every_byte_of_the_worker_states_may_be_wrong)
{
    const Parts whole(base);
    Parts parts = whole;
    const size_t bytes = parts["node 0 worker_states"].size();
    for (size_t at = 0; at < bytes; at += scaled(8) == 8 ? 1 : 7) {
        SCOPED_TRACE("byte " + std::to_string(at));
        parts = whole;
        unsigned char& byte = parts["node 0 worker_states"][at];
        byte = static_cast<unsigned char>(byte ^ (1 << at % 8));
        fate_of_mutated(parts);
        ASSERT_FALSE(HasFailure());
    }
}

// How many tasks were spawned, and how many were taken: what is changed there is found out.
TEST_P(snapshot_fuzz, the_queue_of_tasks_is_looked_at)
{
    const Parts whole(base);
    Parts parts = whole;
    const Bytes& was = parts["node 0 pool"];
    uint32_t changed = 0;
    for (size_t at = 0; at < was.size(); ++at) {
        if (was[at] != 0) {
            SCOPED_TRACE("byte " + std::to_string(at));
            Parts other = whole;
            unsigned char& byte = other["node 0 pool"][at];
            byte = static_cast<unsigned char>(byte ^ 2);
            EXPECT_EQ(fate_of_mutated(other), Fate::refused);
            ++changed;
        }
    }
    EXPECT_GT(changed, 2u);
}

// A region as it lies, and as one run of all of it.
Bytes whole_region(const Bytes& section)
{
    uint64_t size = 0;
    std::memcpy(&size, section.data(), sizeof size);
    Bytes memory(size);
    for (size_t at = sizeof size; at < section.size();) {
        uint64_t run[2]; // place, length
        std::memcpy(run, section.data() + at, sizeof run);
        at += sizeof run;
        std::memcpy(memory.data() + run[0], section.data() + at, run[1]);
        at += run[1];
    }
    return memory;
}
Bytes as_one_run(const Bytes& memory)
{
    const uint64_t head[3] = {memory.size(), 0, memory.size()};
    Bytes section(sizeof head);
    std::memcpy(section.data(), head, sizeof head);
    section.insert(section.end(), memory.begin(), memory.end());
    return section;
}

// Files may have all slots of near rings, also those of messages that have been handled. A slot
// that looks like a message to come is none of these.
TEST_P(snapshot_fuzz, near_rings_may_be_whole_and_each_slot_is_looked_at)
{
    const Parts whole(base);
    const auto fate_with = [&](uint32_t back) {
        Parts parts = whole;
        Bytes memory = whole_region(parts["node 0 boxes"]);
        NearBox box;
        std::memcpy(static_cast<void*>(&box), memory.data(), sizeof box);
        EXPECT_EQ(box.head[0], box.tail[0]); // worker 0 has handled all that it has sent itself
        const uint32_t ticket = box.tail[0] - back;
        const size_t slot = sizeof box + ticket % 8 * sizeof(Slot);
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t sequence = ticket + 1;
            std::memcpy(memory.data() + slot + 16 * k + 12, &sequence, sizeof sequence);
        }
        parts["node 0 boxes"] = as_one_run(memory);
        return fate_of_mutated(parts);
    };
    if (GetParam().under_load) {
        return;
    }
    EXPECT_EQ(fate_with(1), Fate::ran);
    EXPECT_EQ(fate_with(0), Fate::refused);
}

TEST_P(snapshot_fuzz, no_byte_is_given_twice)
{
    Parts parts{base};
    Bytes& states = parts["node 0 worker_states"];
    const Bytes once = states;
    states.insert(states.end(), once.begin() + sizeof(uint64_t), once.end());
    parts.write(mutated);
    expect_error(Errc::bad_snapshot,
                 "snapshot \"" + mutated + "\": section \"node 0 worker_states\" has bytes twice",
                 [&] {
                     const Runtime<Victim> rt(Device::cpu(),
                                              small(GetParam().workers, GetParam().nodes, mutated));
                 });
}

TEST_P(snapshot_fuzz, a_state_lies_whole_in_the_heap_and_on_its_boundary)
{
    const Parts whole(base);
    const auto with_state_at = [&](uint64_t place) {
        Parts parts = whole;
        // Behind the region's size, a run's place and its length: the first actor's entry.
        const uint64_t word = place + 1; // 0 is none
        std::memcpy(parts["node 0 actors"].data() + 24 + 8, &word, sizeof word);
        parts.write(mutated);
        return error_of([&] {
            const Runtime<Victim> rt(Device::cpu(),
                                     small(GetParam().workers, GetParam().nodes, mutated));
        });
    };
    const std::string prefix = "snapshot \"" + mutated + "\" makes no sense: worker 0" +
                               (GetParam().nodes > 1 ? " on node 0" : "") + " has actor #0 ";
    EXPECT_EQ(with_state_at((32 << 10) - 1).what(),
              prefix + "whose state lies outside of the heap's used part");
    EXPECT_EQ(with_state_at(8).what(), prefix + "whose state is not aligned to 16");
    const Error e = with_state_at(32 << 10);
    EXPECT_EQ(e.code(), Errc::bad_snapshot) << e.what();
}

} // namespace
