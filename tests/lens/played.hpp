// SPDX-License-Identifier: Apache-2.0
// The preload library under the program play, on the driver of fake_kernel.cpp.
#pragma once

#include "read_log.hpp"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace denizen::lens;

struct PlayedRun {
    int status = 0; // as of waitpid
    std::string out, err;
    std::vector<LogFile> logs; // in the order of their names
    bool is_good() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

class Played : public testing::Test {
protected:
    void SetUp() override
    {
        std::string name = fs::temp_directory_path() / "lens-XXXXXX";
        ASSERT_TRUE(mkdtemp(name.data()));
        folder = name;
        fs::create_directories(folder / "logs");
        fs::create_directories(folder / "dev");
        for (const char* file : {"nvidiactl", "nvidia0"}) {
            std::ofstream(folder / "dev" / file);
        }
        set_version("580.159.04");
    }
    void TearDown() override { fs::remove_all(folder); }

    void set_version(const std::string& version)
    {
        std::ofstream(folder / "dev" / "version")
            << "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " << version
            << "  Release Build\n";
    }

    void empty_logs()
    {
        fs::remove_all(folder / "logs");
        fs::create_directories(folder / "logs");
    }

    PlayedRun play(const std::string& arguments, const std::string& variables,
                   const std::string& program = LENS_PLAY)
    {
        std::ostringstream command;
        command << "DENIZEN_LENS_FAKE=" << folder / "dev" << " DENIZEN_LENS_DIR=" << folder / "logs"
                << " " << " LD_PRELOAD=" << LENS_LIBRARY << " " << variables << " exec " << program
                << " " << arguments << " >" << folder / "out" << " 2>" << folder / "err";
        PlayedRun run;
        run.status = std::system(command.str().c_str());
        run.out = text(folder / "out");
        run.err = text(folder / "err");
        std::vector<fs::path> paths;
        for (const auto& entry : fs::directory_iterator(folder / "logs")) {
            paths.push_back(entry.path());
        }
        std::sort(paths.begin(), paths.end());
        for (const auto& path : paths) {
            run.logs.push_back(read_log(path));
        }
        return run;
    }

    static std::string text(const fs::path& path)
    {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    fs::path folder;
};
