// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include "real.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace denizen::lens {
namespace {

constinit Environment e{};
constinit bool is_read = false;

template <size_t N>
void set(char (&to)[N], const char* text, const char* rest = "")
{
    if (snprintf(to, N, "%s%s", text, rest) >= static_cast<int>(N)) {
        complain("a path is too long (95 characters for DENIZEN_LENS_SOCKETS, 511 for others): ",
                 text);
        to[0] = '\0';
    }
}

} // namespace

__attribute__((constructor(102))) static void read_environment()
{
    if (__atomic_load_n(&is_read, __ATOMIC_ACQUIRE)) {
        return;
    }
    const char* mode = getenv("DENIZEN_LENS_MODE");
    const char* directory = getenv("DENIZEN_LENS_DIR");
    const char* force = getenv("DENIZEN_LENS_FORCE");
    const char* mib = getenv("DENIZEN_LENS_LOG_MB");
    const char* record = getenv("DENIZEN_LENS_RECORD");
    const char* cupti = getenv("DENIZEN_LENS_CUPTI");
    const char* sockets = getenv("DENIZEN_LENS_SOCKETS");
    const char* fake = getenv("DENIZEN_LENS_FAKE");
    e.mode = mode && strcmp(mode, "full") == 0 ? Mode::full : Mode::count;
    if (mode && strcmp(mode, "full") != 0 && strcmp(mode, "count") != 0) {
        complain("DENIZEN_LENS_MODE is count or full, not ", mode, "; count it is");
    }
    e.force = force && strcmp(force, "1") == 0;
    e.record = record && strcmp(record, "1") == 0;
    if (mib) {
        const unsigned long n = strtoul(mib, nullptr, 10);
        if (n >= 1 && n <= 4096 && (n & (n - 1)) == 0) {
            e.log_mib = static_cast<uint32_t>(n);
        } else {
            complain("DENIZEN_LENS_LOG_MB is a power of two from 1 to 4096, not ", mib);
        }
    }
    set(e.cupti, cupti ? cupti : "");
    set(e.device_prefix, fake ? fake : "/dev", "/nvidia");
    set(e.version_file, fake ? fake : "/proc/driver/nvidia", "/version");
    set(e.directory, directory ? directory : "");
    set(e.sockets, sockets ? sockets : "");
    e.is_on = e.directory[0] != '\0' || e.sockets[0] != '\0';
    __atomic_store_n(&is_read, true, __ATOMIC_RELEASE);
}

const Environment& environment()
{
    if (!__atomic_load_n(&is_read, __ATOMIC_ACQUIRE)) {
        read_environment();
    }
    return e;
}

} // namespace denizen::lens
