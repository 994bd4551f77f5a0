// SPDX-License-Identifier: Apache-2.0
// antirez's dump1090 over samples in memory: without the start of its process, its reader thread,
// the file and printing. It is no part of this project and is built from its sources (commit
// efe64db):
//
//     cc -O3 -march=native -I DUMP1090 benchmarks/rivals/dump1090_memory.c DUMP1090/anet.c \
//         -o dump1090_memory -lrtlsdr -lpthread -lm
//
// `dump1090_memory FILE` prints the nanoseconds of this thread for one pass over the file's I/Q
// bytes and how many messages it found. DENIZEN_DUMP1090_MEMORY names the program to bench_adsb.
#define main dump1090_main
#include "dump1090.c"
#undef main

#include <time.h>

static unsigned long long processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

int main(int argc, char** argv)
{
    FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL) return 1;
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    unsigned char* iq = malloc(size);
    if (iq == NULL || fread(iq, 1, size, file) != size) return 1;
    fclose(file);

    modesInitConfig();
    modesInit();
    Modes.stats = 1; // counts messages and prints none
    const size_t kept = (MODES_FULL_LEN - 1) * 4;
    const unsigned long long begin = processor_ns();
    for (size_t at = 0; at < size; at += MODES_DATA_LEN) { // as its reader and its main loop do
        const size_t part = size - at < MODES_DATA_LEN ? size - at : MODES_DATA_LEN;
        memcpy(Modes.data, Modes.data + MODES_DATA_LEN, kept);
        memcpy(Modes.data + kept, iq + at, part);
        memset(Modes.data + kept + part, 127, MODES_DATA_LEN - part);
        computeMagnitudeVector();
        detectModeS(Modes.magnitude, Modes.data_len / 2);
    }
    const unsigned long long end = processor_ns();
    printf("%llu %lld\n", end - begin, Modes.stat_goodcrc + Modes.stat_fixed);
    return 0;
}
