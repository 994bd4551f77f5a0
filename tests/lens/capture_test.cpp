// SPDX-License-Identifier: Apache-2.0
// The preload library under the program play, on the driver of fake_kernel.cpp: what the program
// sees must not change, and the log must have every doorbell, entry and word, each once.
#include "fake_cuda.hpp"
#include "played.hpp"

#include <tuple>

namespace {

using Capture = Played;

const std::string full = "DENIZEN_LENS_MODE=full";

uint32_t words(uint64_t entry) { return static_cast<uint32_t>(entry >> 42) & 0x1fffff; }

// Entries and contents agree, and the totals are their sum.
void expect_whole(const LogFile& log, bool has_contents)
{
    uint64_t entries = 0, bytes = 0;
    std::vector<uint64_t> sequences;
    std::map<uint32_t, uint32_t> put;
    for (const Doorbell& d : log.doorbells) {
        uint64_t own = 0;
        EXPECT_EQ(d.record.put_old, put[d.record.channel]);
        put[d.record.channel] = d.record.put_new;
        for (size_t k = 0; k < d.entries.size(); ++k) {
            own += words(d.entries[k]) * uint64_t{4};
            const auto segment = d.segments.find(static_cast<uint32_t>(k));
            if (has_contents && words(d.entries[k])) {
                ASSERT_NE(segment, d.segments.end());
                EXPECT_EQ(segment->second.size(), words(d.entries[k]));
            } else {
                EXPECT_EQ(segment, d.segments.end());
            }
        }
        EXPECT_EQ(d.record.bytes, own);
        entries += d.entries.size();
        bytes += own;
        sequences.push_back(d.record.sequence);
    }
    std::sort(sequences.begin(), sequences.end());
    for (size_t k = 0; k < sequences.size(); ++k) {
        ASSERT_EQ(sequences[k], k);
    }
    ASSERT_TRUE(log.has_end);
    EXPECT_EQ(log.end.doorbells, log.doorbells.size());
    EXPECT_EQ(log.end.entries, entries);
    EXPECT_EQ(log.end.bytes, bytes);
    EXPECT_EQ(log.end.lost_records, 0u);
}

template <class Records, class Of>
auto each(const Records& records, Of of)
{
    std::vector<decltype(of(*records.begin()))> found;
    for (const auto& r : records) {
        found.push_back(of(r));
    }
    return found;
}

// But for times, threads, callers and where doorbell pages lie.
void expect_same_capture(const LogFile& a, const LogFile& b)
{
    const auto page = [](const PageRecord& p) {
        return std::tuple(p.gpu, p.class_id, p.bytes, p.bar1);
    };
    const auto channel = [](const auto& numbered) {
        const ChannelRecord& c = numbered.second;
        return std::tuple(numbered.first, c.gpu, c.class_id, c.client, c.handle, c.parent, c.engine,
                          c.entries, c.gpfifo, c.userd, c.token);
    };
    const auto engine = [](const EngineRecord& e) {
        return std::tuple(e.channel, e.class_id, e.handle);
    };
    const auto doorbell = [](const Doorbell& d) {
        return std::tuple(d.record.channel, d.record.token, d.record.put_old, d.record.put_new,
                          d.record.bytes, d.record.header.flags, d.entries);
    };
    EXPECT_EQ(each(a.pages, page), each(b.pages, page));
    EXPECT_EQ(each(a.channels, channel), each(b.channels, channel));
    EXPECT_EQ(each(a.engines, engine), each(b.engines, engine));
    EXPECT_EQ(a.closed, b.closed);
    // Those of one channel are in order; others' may stand between.
    const auto by_channel = [&](const LogFile& log) {
        auto found = each(log.doorbells, doorbell);
        std::ranges::stable_sort(found, {}, [](const auto& d) { return std::get<0>(d); });
        return found;
    };
    EXPECT_EQ(by_channel(a), by_channel(b));
    EXPECT_GT(b.doorbells.size(), 0u);
    EXPECT_EQ(a.end.unknown_tokens, b.end.unknown_tokens);
}

TEST_F(Capture, EveryFormOfStoreAndLoadIsPerformedAndLogged)
{
    for (const uint32_t options : {0, 2, 4, 8, 16, 31 - 1}) { // see fake_cuda.hpp; tokens are told
        SCOPED_TRACE(options);
        empty_logs();
        const PlayedRun run = play("forms " + std::to_string(options), full);
        ASSERT_TRUE(run.is_good()) << run.err;
        ASSERT_EQ(run.logs.size(), 1u);
        const LogFile& log = run.logs[0];
        expect_whole(log, true);
        ASSERT_EQ(log.doorbells.size(), 24u);
        for (uint32_t form = 0; form < 24; ++form) {
            const Doorbell& d = log.doorbells[form];
            const bool is_stepped = form >= 21;
            EXPECT_EQ(d.record.channel, 0u);
            EXPECT_EQ(d.record.token, is_stepped ? none : 1u) << form;
            ASSERT_EQ(d.segments.size(), 1u);
            const auto& segment = d.segments.at(0);
            ASSERT_EQ(segment.size(), form + 1);
            EXPECT_EQ(segment.front(), form * 1000);
            EXPECT_EQ(segment.back(), form * 1000 + form);
        }
        EXPECT_EQ(log.instructions.size(), 6u); // three stores, three loads
        EXPECT_EQ(log.end.unknown_instructions, 6u);
        for (const auto& i : log.instructions) {
            EXPECT_EQ(i.header.flags, instruction_stepped);
        }
        EXPECT_EQ(log.end.other_stores, 1u);
        EXPECT_GE(log.end.loads, 12u);
    }
}

TEST_F(Capture, WhatIsLearnedOfTheDriver)
{
    const PlayedRun run = play("once", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    ASSERT_EQ(run.logs.size(), 1u);
    const LogFile& log = run.logs[0];
    EXPECT_STREQ(log.header.driver_text, "580.159.04");
    EXPECT_EQ(log.header.driver[0], 580u);
    EXPECT_EQ(log.header.mode, Mode::full);
    EXPECT_EQ(log.header.forced, 0u);
    ASSERT_EQ(log.command.size(), 2u);
    EXPECT_EQ(log.command[1], "once");
    ASSERT_EQ(log.pages.size(), 2u);
    EXPECT_EQ(log.pages[0].class_id, 0xc661u);
    EXPECT_EQ(log.pages[0].bar1, 0u);
    EXPECT_EQ(log.pages[1].bar1, 1u);
    ASSERT_EQ(log.channels.size(), 1u);
    const ChannelRecord& c = log.channels.at(0);
    EXPECT_EQ(c.class_id, 0xc86fu);
    EXPECT_EQ(c.engine, 1u); // of its group
    EXPECT_EQ(c.entries, 64u);
    EXPECT_EQ(c.userd, c.gpfifo + 0x2000);
    EXPECT_EQ(c.token, 1u);
    EXPECT_EQ(log.closed, std::vector<uint32_t>{0});
    ASSERT_EQ(log.engines.size(), 1u);
    EXPECT_EQ(log.engines[0].class_id, 0xcbc0u);
    ASSERT_EQ(log.threads.size(), 1u);
    EXPECT_EQ(log.doorbells.size(), 2u);
    for (const Doorbell& d : log.doorbells) { // found on the stack
        EXPECT_EQ(log.names.at(d.record.api), "fakeLaunchKernel");
        EXPECT_EQ(d.record.tid, log.threads[0].tid);
    }
}

// As the kernel module has it: the control file maps system memory, a GPU's own what the GPU has.
TEST_F(Capture, MappedMemoryIsToldWithItsPlace)
{
    const PlayedRun run = play("once", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    const auto aperture_at = [&](uint64_t address) {
        for (const MemoryRecord& m : log.memories) {
            if (address >= m.address && address < m.address + m.bytes) {
                return m.aperture;
            }
        }
        return Aperture::unknown;
    };
    const ChannelRecord& channel = log.channels.at(0);
    EXPECT_EQ(aperture_at(channel.gpfifo), Aperture::device);
    EXPECT_EQ(aperture_at(channel.userd), Aperture::device);
    const uint64_t entry = log.doorbells.at(0).entries.at(0);
    EXPECT_EQ(aperture_at((entry & 0xfffffffc) | (entry >> 32 & 0xff) << 32), Aperture::system);
}

// Of every release that a doorbell or the end found made: when, by the GPU's clock. In full mode
// alone.
TEST_F(Capture, TimesOfReleasesAreTold)
{
    const PlayedRun run = play("releases", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    std::vector<std::pair<uint32_t, uint64_t>> found;
    for (const ReleaseRecord& r : run.logs.at(0).releases) {
        EXPECT_EQ(r.channel, 0u);
        found.emplace_back(r.payload, r.gpu_ns);
    }
    const std::vector<std::pair<uint32_t, uint64_t>> made{{1, 1'000'100}, {3, 1'000'300},
                                                          {4, 1'000'400}, {6, 1'000'600},
                                                          {7, 1'000'700}, {9, 1'000'900}};
    EXPECT_EQ(found, made);
    empty_logs();
    EXPECT_TRUE(play("releases", "DENIZEN_LENS_MODE=count").logs.at(0).releases.empty());
}

TEST_F(Capture, TokensThatTheDriverDoesNotTellAreInferred)
{
    const PlayedRun run = play("forms 1", "DENIZEN_LENS_MODE=count");
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    expect_whole(log, false);
    EXPECT_EQ(log.channels.at(0).token, 1u);
    EXPECT_EQ(log.channels.at(0).header.flags, channel_inferred);
    EXPECT_EQ(log.doorbells.at(0).record.header.flags, doorbell_inferred);
    EXPECT_EQ(log.doorbells.at(1).record.header.flags, 0);
}

TEST_F(Capture, RingsWrap)
{
    const PlayedRun run = play("wrap", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    expect_whole(log, true);
    ASSERT_EQ(log.doorbells.size(), 201u);
    uint64_t longest = 0;
    for (uint32_t n = 0; n < 200; ++n) {
        const Doorbell& d = log.doorbells[n];
        ASSERT_GE(d.entries.size(), 1u);
        for (const auto& [k, segment] : d.segments) {
            for (uint32_t w = 0; w < segment.size(); ++w) {
                ASSERT_EQ(segment[w], n * 100 + k + w);
            }
            longest = std::max<uint64_t>(longest, segment.size());
        }
    }
    EXPECT_EQ(longest, 30000u); // three pieces
    EXPECT_TRUE(log.doorbells.back().entries.empty());
}

void expect_load(const PlayedRun& run, bool has_contents)
{
    ASSERT_TRUE(run.is_good()) << run.err;
    ASSERT_EQ(run.logs.size(), 1u);
    const LogFile& log = run.logs[0];
    expect_whole(log, has_contents);
    std::vector<uint32_t> seen(16);
    for (const Doorbell& d : log.doorbells) {
        const uint32_t n = seen.at(d.record.channel)++;
        ASSERT_EQ(d.entries.size(), 1 + n % 3);
        for (uint32_t k = 0; k < d.entries.size(); ++k) {
            ASSERT_EQ(words(d.entries[k]), 4 + (n + k) % 60);
            if (has_contents) {
                const auto& segment = d.segments.at(k);
                for (uint32_t w = 0; w < segment.size(); ++w) {
                    ASSERT_EQ(segment[w], n + w);
                }
            }
        }
    }
    std::istringstream sent(run.out);
    for (uint32_t k = 0; k < 16; ++k) {
        uint32_t n = 0;
        ASSERT_TRUE(sent >> n);
        EXPECT_GT(n, 0u);
        EXPECT_EQ(seen[k], n) << "channel " << k;
    }
    EXPECT_EQ(log.threads.size(), 4u);
}

TEST_F(Capture, FourThreadsWithFourChannelsEachLoseNothing)
{
    expect_load(play("load 4 4 2000 100000", full), true);
}

TEST_F(Capture, CountingAlone)
{
    expect_load(play("load 4 4 1000 100000", "DENIZEN_LENS_MODE=count"), false);
}

// A log of 1 MiB is smaller than what the threads write before the writer has its turn.
TEST_F(Capture, ThreadsWaitForASmallLog)
{
    const PlayedRun run = play("load 4 4 2000 3000", full + " DENIZEN_LENS_LOG_MB=1");
    expect_load(run, true);
}

TEST_F(Capture, HandlersMasksAndTimersOfTheProgram)
{
    const PlayedRun run = play("handlers", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    expect_whole(log, true);
    EXPECT_EQ(log.doorbells.size(), 2007u);
}

TEST_F(Capture, ACrashIsACrash)
{
    const PlayedRun run = play("crash", full);
    ASSERT_TRUE(WIFSIGNALED(run.status) || WEXITSTATUS(run.status) == 128 + SIGSEGV) << run.status;
    const LogFile& log = run.logs.at(0);
    expect_whole(log, true);
    EXPECT_EQ(log.doorbells.size(), 1u);
}

TEST_F(Capture, AChildOfForkIsNotLoggedAndDoesNotDisturb)
{
    const PlayedRun run = play("fork", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    ASSERT_EQ(run.logs.size(), 1u);
    const LogFile& log = run.logs[0];
    ASSERT_EQ(log.doorbells.size(), 2u);
    ASSERT_TRUE(log.has_end);
    // The child's segment is in the ring that it shared; the parent's is beside it.
    EXPECT_EQ(log.end.doorbells, 2u);
}

TEST_F(Capture, ExecKeepsTheLogOfBothPrograms)
{
    for (uint32_t function = 0; function < 5; ++function) {
        SCOPED_TRACE(function);
        empty_logs();
        const PlayedRun run = play("exec " + std::to_string(function), full);
        ASSERT_TRUE(run.is_good()) << run.err;
        ASSERT_EQ(run.logs.size(), 2u);
        const bool is_first = run.logs[0].command.back() == "once"; // by their files' names
        const LogFile &before = run.logs[is_first], &after = run.logs[!is_first];
        EXPECT_EQ(before.doorbells.size(), 500u);
        EXPECT_FALSE(before.has_end);
        EXPECT_EQ(after.doorbells.size(), 2u);
        EXPECT_TRUE(after.has_end);
        EXPECT_EQ(after.command.back(), "once");
    }
}

TEST_F(Capture, EachFunctionThatOpensOrDuplicatesAFileIsFollowed)
{
    std::vector<uint32_t> ways{fake_mmap64, fake_mmap64 | fake_fixed};
    for (uint32_t k = 0; k < fake_openers; ++k) {
        ways.push_back(fake_opened_by(k));
    }
    for (uint32_t k = 0; k < fake_duplicators; ++k) {
        ways.push_back(fake_duplicated_by(k));
    }
    for (const uint32_t options : ways) {
        SCOPED_TRACE(options);
        empty_logs();
        const PlayedRun run = play("once " + std::to_string(options), full);
        ASSERT_TRUE(run.is_good()) << run.err;
        ASSERT_EQ(run.logs.size(), 1u);
        expect_whole(run.logs[0], true);
        EXPECT_EQ(run.logs[0].doorbells.size(), 2u);
    }
}

TEST_F(Capture, DoorbellPagesMayBeMovedReplacedAndUnmapped)
{
    const PlayedRun run = play("pages", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    expect_whole(log, true);
    ASSERT_EQ(log.doorbells.size(), 5u);
    for (uint32_t n = 0; n < 5; ++n) {
        ASSERT_EQ(log.doorbells[n].entries.size(), 1u);
        EXPECT_EQ(log.doorbells[n].segments.at(0).front(), n);
    }
}

TEST_F(Capture, TheHandlerNeitherAllocatesNorPrintsAndHasItsOwnStack)
{
    for (const std::string mode : {"count", "full"}) {
        SCOPED_TRACE(mode);
        empty_logs();
        const PlayedRun run = play("quiet", "DENIZEN_LENS_MODE=" + mode);
        ASSERT_TRUE(run.is_good()) << run.err;
        EXPECT_EQ(run.logs.at(0).doorbells.size(), 42u);
    }
}

TEST_F(Capture, TheTimeInTheHandlerIsTold)
{
    const PlayedRun run = play("forms", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    EXPECT_EQ(log.overhead.doorbells, 21u); // the other three were stepped
    EXPECT_GT(log.overhead.ns, 0u);
    const DoorbellRecord& first = log.doorbells.front().record;
    EXPECT_LT(log.overhead.ns, log.end.time_ns - first.time_ns + 1'000'000'000);
}

TEST_F(Capture, OddSubmissionsAreFlaggedAndForwarded)
{
    const PlayedRun run = play("odd", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    ASSERT_EQ(log.doorbells.size(), 5u);
    ASSERT_EQ(log.broken.size(), 1u); // nothing is mapped at the second entry's address
    EXPECT_EQ(log.broken[0].doorbell, 1u);
    EXPECT_EQ(log.broken[0].length, 0u);
    EXPECT_EQ(log.broken[0].total, 32u);
    EXPECT_EQ(log.doorbells[2].record.header.flags, doorbell_bad_put);
    EXPECT_EQ(log.doorbells[2].record.put_new, 1000u);
    EXPECT_EQ(log.doorbells[3].record.channel, none);
    EXPECT_EQ(log.doorbells[3].record.token, 0xabcdefu);
    EXPECT_EQ(log.doorbells[4].record.channel, none); // closed
    EXPECT_EQ(log.end.unknown_tokens, 2u);
}

TEST_F(Capture, OwnWordsGoOutBeforeTheDrivers)
{
    const PlayedRun run = play("substitute", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    ASSERT_EQ(run.logs.size(), 1u);
    // The log has what went out. Only those of the channel, without those of no channel between.
    std::vector<std::vector<uint32_t>> replaced;
    for (const Doorbell& d : run.logs[0].doorbells) {
        if (d.entries.size() == 1 && (d.entries[0] & 0xfffffffffc) == uint64_t{1} << 39) {
            replaced.push_back(d.segments.at(0));
        }
    }
    ASSERT_EQ(replaced.size(), 40u);
    for (uint32_t n = 0; n < 40; ++n) {
        std::vector<uint32_t> expected;
        for (uint32_t k = 0; k < n % 3; ++k) {
            expected.push_back(7000 + n * 10 + k);
        }
        for (uint32_t k = 0; k < 5; ++k) {
            expected.push_back(n * 100 + k);
        }
        EXPECT_EQ(replaced[n], expected);
    }
}

// A recording, played again without a driver: the lens learns and captures the same from it.
TEST_F(Capture, ARecordingIsPlayedAgain)
{
    for (const std::string scenario :
         {"once", "once 2", "once 16", "load 4 4 200 3000", "wrap", "odd"}) {
        SCOPED_TRACE(scenario);
        empty_logs();
        const std::string count = "DENIZEN_LENS_MODE=count";
        const PlayedRun first = play(scenario, count + " DENIZEN_LENS_RECORD=1");
        ASSERT_TRUE(first.is_good()) << first.err;
        const fs::path recording = folder / "recording.lens";
        fs::copy_file(fs::directory_iterator(folder / "logs")->path(), recording,
                      fs::copy_options::overwrite_existing);
        empty_logs();
        const PlayedRun again = play(recording.string(), count, LENS_REPLAY);
        ASSERT_TRUE(again.is_good()) << again.err;
        expect_same_capture(first.logs.at(0), again.logs.at(0));
    }
}

TEST_F(Capture, CallsAreNamedByCupti)
{
    const PlayedRun run = play("cupti", full + " DENIZEN_LENS_CUPTI=" LENS_CUPTI);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    const uint32_t launch = api_number(ApiDomain::runtime, 211);
    const uint32_t inner[] = {api_number(ApiDomain::driver, 307),
                              api_number(ApiDomain::driver, 119)};
    ASSERT_EQ(log.doorbells.size(), 7u);
    ASSERT_EQ(log.calls.size(), 3u);
    for (uint32_t n = 0; n < 6; ++n) {
        const DoorbellRecord& d = log.doorbells[n].record;
        EXPECT_EQ(d.api, launch);
        EXPECT_EQ(d.api_inner, inner[n % 2]);
        EXPECT_EQ(d.call, log.calls[n / 2].call);
        EXPECT_GE(d.time_ns, log.calls[n / 2].begin_ns);
        EXPECT_LE(d.time_ns, log.calls[n / 2].end_ns);
    }
    EXPECT_EQ(log.doorbells[6].record.api, 0u); // not guessed where CUPTI knows
    EXPECT_EQ(log.doorbells[6].record.call, 0u);
    for (const ApiCallRecord& call : log.calls) {
        EXPECT_EQ(call.api, launch);
        EXPECT_EQ(call.doorbells, 2u);
        EXPECT_EQ(call.tid, log.threads.at(0).tid);
    }
    EXPECT_EQ(log.names.at(launch), "cudaLaunchKernel_v7000");
    EXPECT_EQ(log.names.at(inner[1]), "cuEventRecord");
    EXPECT_EQ(log.counts.at(launch), 3u);
    EXPECT_EQ(log.counts.at(api_number(ApiDomain::runtime, 10)), 3u); // it rang none
}

TEST_F(Capture, WithoutCuptiTheStackIsWalked)
{
    const PlayedRun run = play("names", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    ASSERT_EQ(log.doorbells.size(), 21u);
    for (uint32_t depth = 0; depth < 20; ++depth) {
        const DoorbellRecord& d = log.doorbells[depth].record;
        ASSERT_NE(d.api, 0u) << depth;
        EXPECT_EQ(log.names.at(d.api), "fakeGraphLaunch") << depth;
        EXPECT_EQ(d.api_inner, d.api);
    }
    EXPECT_EQ(log.doorbells[20].record.api, 0u);
}

TEST_F(Capture, AMissingCuptiIsNoted)
{
    const PlayedRun run = play("cupti", full + " DENIZEN_LENS_CUPTI=/nonexistent/libcupti.so");
    ASSERT_TRUE(run.is_good()) << run.err;
    const LogFile& log = run.logs.at(0);
    ASSERT_EQ(log.doorbells.size(), 7u);
    EXPECT_EQ(log.names.at(log.doorbells[0].record.api), "fakeLaunchKernel");
    ASSERT_EQ(log.notes.size(), 1u);
    EXPECT_NE(log.notes[0].find("no libcupti"), std::string::npos);
}

TEST_F(Capture, AnotherDriverIsRefusedByNameUnlessForced)
{
    set_version("999.42.01");
    PlayedRun run = play("once", full);
    ASSERT_TRUE(run.is_good()) << run.err;
    EXPECT_TRUE(run.logs.empty());
    EXPECT_NE(run.err.find("denizen lens: NVIDIA driver 999.42.01 is not one of those"),
              std::string::npos)
        << run.err;
    run = play("once", full + " DENIZEN_LENS_FORCE=1");
    ASSERT_TRUE(run.is_good()) << run.err;
    ASSERT_EQ(run.logs.size(), 1u);
    EXPECT_EQ(run.logs[0].header.forced, 1u);
    EXPECT_EQ(run.logs[0].doorbells.size(), 2u);
    ASSERT_EQ(run.logs[0].notes.size(), 1u);
    EXPECT_NE(run.logs[0].notes[0].find("999.42.01"), std::string::npos);
}

TEST_F(Capture, WithoutADriverItSaysSo)
{
    fs::remove(folder / "dev" / "nvidiactl");
    const PlayedRun run = play("nothing", full);
    EXPECT_TRUE(run.is_good());
    EXPECT_TRUE(run.logs.empty());
    EXPECT_NE(run.err.find("no NVIDIA driver here"), std::string::npos) << run.err;
}

TEST_F(Capture, MpsIsNoted)
{
    std::ofstream(folder / "control");
    const PlayedRun run = play("once", full + " CUDA_MPS_PIPE_DIRECTORY=" + folder.string());
    ASSERT_TRUE(run.is_good()) << run.err;
    ASSERT_EQ(run.logs.at(0).notes.size(), 1u);
    EXPECT_NE(run.logs[0].notes[0].find("MPS"), std::string::npos);
}

TEST_F(Capture, SwitchedOffItIsNotThere)
{
    const PlayedRun run = play("forms", "DENIZEN_LENS_DIR=");
    EXPECT_TRUE(run.is_good()) << run.err;
    EXPECT_TRUE(run.logs.empty());
    EXPECT_EQ(run.err, "");
}

TEST_F(Capture, AFolderThatIsNotThereEndsTheCaptureNotTheProgram)
{
    const PlayedRun run = play("once", "DENIZEN_LENS_DIR=/nonexistent");
    EXPECT_TRUE(run.is_good()) << run.err;
    EXPECT_NE(run.err.find("cannot create the file: No such file or directory"), std::string::npos)
        << run.err;
}

} // namespace
