// SPDX-License-Identifier: Apache-2.0
// Mode S on one core: I/Q bytes in memory to messages, over noise alone, over a quiet and over a
// crowded sky, and over signals near the limit; every message is compared with what was sent. Also
// over dump1090's recording, repeated, if DENIZEN_DATA names the folder of modes1.bin, and then
// beside dump1090 itself, if DENIZEN_DUMP1090_MEMORY names rivals/dump1090_memory.c, compiled.
#include "adsb_resident.hpp"
#include "common.hpp"

#include <denizen/radio/crc24.hpp>
#include <denizen/radio/modulate.hpp>
#include <denizen/radio/receiver.hpp>

#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <unistd.h>

namespace {

using namespace denizen;
using namespace denizen::bench;

constexpr double noise = 4; // steps of the converter

struct Sky {
    const char* name;
    double per_second; // frames
    double low, high;  // dB over the noise
    double least;      // share of them that must be found
};
constexpr Sky skies[] = {{"noise", 0, 0, 0, 0},
                         {"quiet, 10 to 30 dB", 300, 10, 30, 0.7},
                         {"crowded, 10 to 30 dB", 2000, 10, 30, 0.4},
                         {"crowded, 8 to 12 dB", 2000, 8, 12, 0.1}};

radio::Frame squitter(uint32_t icao, uint64_t payload)
{
    radio::Frame f{17ull << 51 | 5ull << 48 | static_cast<uint64_t>(icao) << 24 |
                       (payload >> 32 & 0xFFFFFF),
                   (payload & 0xFFFFFFFF) << 24};
    f.tail |= radio::syndrome(f);
    return f;
}

struct Recording {
    std::vector<uint8_t> iq;
    std::map<std::string, int> sent;
    uint64_t frames = 0;
};

Recording record(const Sky& sky, size_t samples)
{
    Recording out;
    std::mt19937_64 random(1);
    std::uniform_real_distribution<> any(0, 1);
    std::vector<radio::Burst> bursts;
    const double seconds = static_cast<double>(samples) / radio::sample_rate;
    for (double k = 0; k < sky.per_second * seconds; k += 1) {
        const radio::Frame f = squitter(0x400000 + random() % 64, random());
        const double snr = sky.low + (sky.high - sky.low) * any(random);
        bursts.push_back({f, any(random) * static_cast<double>(samples - 300),
                          noise * std::pow(10, snr / 20), 1e5 * (any(random) - 0.5),
                          100 * (any(random) - 0.5), 6.28 * any(random)});
        out.sent[radio::to_hex(f)] += 1;
        out.frames += 1;
    }
    out.iq = radio::modulate(bursts, samples, noise, 2);
    return out;
}

// Of this thread alone: what others do on its core meanwhile is not counted.
uint64_t processor_ns()
{
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// One pass over the recording by a new receiver: Msps. Messages are kept and given to `seen` later.
double receive(const Recording& r, const std::function<void(const radio::Message&)>& seen)
{
    std::vector<radio::Message> messages;
    messages.reserve(1 << 16);
    radio::Receiver receiver;
    const auto sink = [&](const radio::Message& m) { messages.push_back(m); };
    const uint64_t begin = processor_ns();
    constexpr size_t piece = 1 << 18;
    for (size_t at = 0; at < r.iq.size(); at += piece)
        receiver.feed(r.iq.data() + at, std::min(piece, r.iq.size() - at), sink);
    receiver.finish(sink);
    const auto ns = static_cast<double>(processor_ns() - begin);
    for (const radio::Message& m : messages) seen(m);
    return static_cast<double>(r.iq.size() / 2) / ns * 1e3;
}

// The same; false in `right` if a message was not sent, or too few were found.
double pass(const Recording& r, double least, bool& right)
{
    std::map<std::string, int> rest = r.sent;
    uint64_t found = 0;
    const double rate = receive(r, [&](const radio::Message& m) {
        right &= --rest[radio::to_hex(m.frame)] >= 0;
        found += 1;
    });
    right &= static_cast<double>(found) >= least * static_cast<double>(r.frames);
    return rate;
}

std::vector<uint8_t> contents(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// Msps of dump1090 over the file's samples, once they are in memory, by the processor time of its
// thread; 0 if it failed or found fewer messages than `least`.
double rival_pass(const char* program, const std::string& path, size_t samples, uint64_t least)
{
    const std::string command = std::string("\"") + program + "\" \"" + path + "\"";
    FILE* told = popen(command.c_str(), "r");
    if (told == nullptr) return 0;
    unsigned long long ns = 0;
    unsigned long long messages = 0;
    const bool read = std::fscanf(told, "%llu %llu", &ns, &messages) == 2;
    if (pclose(told) != 0 || !read || ns == 0 || messages < least) return 0;
    return static_cast<double>(samples) / static_cast<double>(ns) * 1e3;
}

// The recording: dump1090's list of its messages must be found as often as it is repeated.
void recorded(const std::string& folder, const char* rival, bool quick)
{
    const std::vector<uint8_t> once = contents(folder + "/modes1.bin");
    std::ifstream list(folder + "/modes1.dump1090.txt");
    if (once.empty() || !list) return;
    const int times = quick ? 20 : 100;
    Recording r;
    for (std::string frame; list >> frame; r.frames += static_cast<uint64_t>(times))
        r.sent[frame] += times;
    for (int k = 0; k < times; ++k) r.iq.insert(r.iq.end(), once.begin(), once.end());
    std::string path = "/tmp/denizen-adsb-XXXXXX";
    if (rival != nullptr) {
        const int file = mkstemp(path.data());
        if (file < 0 || write(file, r.iq.data(), r.iq.size()) != static_cast<ssize_t>(r.iq.size()))
            throw std::runtime_error(path + " cannot be written");
        close(file);
    }
    const uint32_t rounds = quick ? 5 : 31;
    const size_t samples = r.iq.size() / 2;
    Samples ours[2] = {Samples(rounds), Samples(rounds)}; // and A/A
    Samples theirs(rounds);
    bool right = true;
    bool ran = true;
    interleaved(rounds, rival != nullptr ? 3 : 2, [&](size_t k) {
        if (k == 2) {
            theirs.add(rival_pass(rival, path, samples, r.frames));
            ran &= theirs.values().back() > 0;
            return;
        }
        std::map<std::string, int> found;
        ours[k].add(
            receive(r, [&](const radio::Message& m) { found[radio::to_hex(m.frame)] += 1; }));
        for (const auto& [frame, count] : r.sent) right &= found[frame] >= count;
    });
    if (rival != nullptr) unlink(path.c_str());
    Case one("recorded signal", Json().add("cores", 1), "Msps");
    one.n = rounds * samples;
    one.verified = right;
    if (rival != nullptr) one.ratio_base = {"recorded signal, dump1090 in memory"};
    one.print(ours[0]);
    one.ratio_base.clear();
    one.arm = "A/A";
    one.print(ours[1]);
    if (rival == nullptr) return;
    Case other("recorded signal, dump1090 in memory", Json().add("cores", 1), "Msps");
    other.n = rounds * samples;
    other.verified = ran;
    other.print(theirs);
}

} // namespace

int main(int argc, char** argv)
{
    bool quick = false;
    const char* device = "auto";
    for (int i = 1; i < argc; ++i) {
        quick |= std::strcmp(argv[i], "--quick") == 0;
        if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) device = argv[i + 1];
    }
    const std::vector<int> cores = allowed_cores();
    const bool pinned = !cores.empty() && pin_to_core(cores.back());
    print_environment(Json().add("pinned", pinned));
    const size_t samples = quick ? 2'000'000 : 10'000'000;
    const uint32_t rounds = quick ? 5 : 31;
    std::vector<Recording> recordings;
    std::vector<Samples> results;
    std::vector<Samples> again;
    for (const Sky& sky : skies) {
        recordings.push_back(record(sky, samples));
        results.emplace_back(rounds);
        again.emplace_back(rounds);
    }
    constexpr size_t count = std::size(skies);
    bool right[count];
    for (size_t k = 0; k < count; ++k) {
        right[k] = true;
        pass(recordings[k], skies[k].least, right[k]); // warm-up
    }
    interleaved(rounds, 2 * count, [&](size_t k) {
        Samples& to = k < count ? results[k] : again[k - count];
        to.add(pass(recordings[k % count], skies[k % count].least, right[k % count]));
    });
    for (size_t k = 0; k < count; ++k) {
        Case one("receive", Json().add("sky", skies[k].name).add("cores", 1), "Msps");
        one.n = rounds * samples;
        one.verified = right[k];
        one.print(results[k]);
        one.arm = "A/A";
        one.print(again[k]);
    }
    if (const char* folder = std::getenv("DENIZEN_DATA"))
        recorded(folder, std::getenv("DENIZEN_DUMP1090_MEMORY"), quick);
    keep_on(cores); // workers on threads of the CPU have all
    resident_receiver(recordings[1].iq, device, quick);
    return 0;
}
