// SPDX-License-Identifier: Apache-2.0
// The lens's log: what the preload library writes and what a decoder reads (docs/lens-format.md).
// Plain structs, little-endian, no pointers: a file is one LogHeader and then records, each a
// multiple of 8 bytes long and led by a RecordHeader. A reader skips a kind that it does not know
// by its length. A file without an End record is that of a process that was killed: all before it
// is good.
#pragma once

#include <cstddef>
#include <cstdint>

namespace denizen::lens {

inline constexpr char log_magic[8] = {'D', 'N', 'Z', 'L', 'E', 'N', 'S', '\n'};
inline constexpr uint32_t log_version = 1;

enum class Mode : uint32_t { count = 1, full = 2 };

enum class Kind : uint16_t {
    process = 1,        // the command line
    thread = 2,         // a thread, before its first doorbell
    page = 3,           // a doorbell page
    channel = 4,        // a channel; the last record with its number holds
    channel_closed = 5, // its memory may be used again
    engine = 6,         // an engine object made on a channel
    doorbell = 7,       // one store, with the GPFIFO entries that it announced
    pushbuffer = 8,     // a piece of what one entry points to; only in full mode
    instruction =
        9,          // an access to a doorbell page by an instruction that the decoder does not know
    lost = 10,      // the log was full: how much is missing before this place
    api_name = 11,  // what an api number stands for
    api_call = 12,  // an outermost call that rang at least one doorbell; only with CUPTI
    api_count = 13, // how often an API was called at all; at the end; only with CUPTI
    note = 14,      // a line of text for the user
    end = 15,       // totals, the last record
    overhead = 16,  // what the lens itself took, before the end
    kernel_call = 17, // what the process asked of the kernel driver; only in a recording
    memory = 18,      // a mapping of the driver's memory, as it is made and as it goes
    release = 19,     // what a channel's last release has written; only in full mode
};

inline constexpr uint32_t none = 0xffffffff; // no such channel, GPU, token

// API numbers: the domain in the top 8 bits, below it CUPTI's callback number or, for a symbol, the
// place in the driver library's list of functions. 0: not known.
enum class ApiDomain : uint32_t { driver = 1, runtime = 2, symbol = 3 };

constexpr uint32_t api_number(ApiDomain domain, uint32_t number)
{
    return static_cast<uint32_t>(domain) << 24 | (number & 0xffffff);
}

struct LogHeader {
    char magic[8];
    uint32_t version;      // log_version
    uint32_t header_bytes; // the first record is here
    Mode mode;             //
    uint32_t pid;          //
    uint64_t monotonic_ns; // CLOCK_MONOTONIC at the start; times in records are of this clock
    uint64_t realtime_ns;  // CLOCK_REALTIME at the same moment
    uint32_t driver[3];    // 580, 159, 4
    uint32_t forced;       // 1: the driver is not in the table, and the user said to go on
    char driver_text[32];  // "580.159.04", as the kernel module says it
    char process_name[32]; // /proc/self/comm
    uint8_t reserved[136]; // 0
};

struct RecordHeader {
    uint32_t bytes; // of the whole record, this included; a multiple of 8
    Kind kind;
    uint16_t flags; // see each kind
};

struct ProcessRecord {
    RecordHeader header;
    uint32_t text_bytes; // of `text`, without padding
    uint32_t reserved;
    // char text[]: the arguments, each ended by '\0'
};

struct ThreadRecord {
    RecordHeader header;
    uint32_t tid;
    uint32_t reserved;
    char name[16];
};

struct PageRecord {
    RecordHeader header;
    uint32_t gpu;      // number of the device among the process's (RM's device instance)
    uint32_t class_id; // 0xc661 on Hopper
    uint64_t address;  // what the driver library holds: the shadow
    uint64_t real;     // the mapping behind it
    uint32_t bytes;
    uint32_t bar1; // 1: asked for the BAR1 mapping (the doorbell), 0: BAR0 (timer), none: not said
};

struct ChannelRecord {
    RecordHeader header;
    uint32_t channel; // number in this file, from 0
    uint32_t gpu;
    uint32_t class_id; // 0xc86f on Hopper
    uint32_t client;   // RM's handles
    uint32_t handle;
    uint32_t parent;  // the channel group, or the device
    uint32_t engine;  // engineType of RM: 1 graphics and compute, 9… copy engines; of the group if
                      // the channel gives none
    uint32_t entries; // length of the GPFIFO
    uint64_t gpfifo;  // address of the GPFIFO, the same for CPU and GPU
    uint64_t userd;   // address of USERD in this process, 0 if not known
    uint32_t token;   // work-submit token, `none` if not known yet
    uint32_t chid;    // channel ID in the token (bits 11:0), `none` as above
    uint64_t time_ns; // when this was learned
};
inline constexpr uint16_t channel_inferred = 1; // the token was inferred at a doorbell

struct ChannelClosedRecord {
    RecordHeader header;
    uint32_t channel;
    uint32_t reserved;
    uint64_t time_ns;
};

struct EngineRecord {
    RecordHeader header;
    uint32_t channel;
    uint32_t class_id; // 0xcbc0 compute, 0xc8b5 copy on Hopper
    uint32_t handle;
    uint32_t reserved;
};

struct DoorbellRecord {
    RecordHeader header;
    uint64_t sequence; // from 0 in this process; gaps are in a `lost` record
    uint64_t time_ns;  // before the store is performed
    uint32_t tid;
    uint32_t channel; // `none`: no channel has this token
    uint32_t gpu;
    uint32_t token;   // the value stored
    uint32_t put_old; // GP_PUT as last seen: entries [put_old, put_new) mod the length are new
    uint32_t put_new;
    uint32_t entries;     // how many are new, and how long `entry` is
    uint32_t page_offset; // 0x90
    uint64_t bytes;       // of all new pushbuffer segments
    uint32_t api;         // outermost API call, 0 if not known
    uint32_t api_inner;   // innermost one, 0 if not known
    uint64_t call;        // numbers the outermost call of the process, 0 if not known
    uint64_t caller;      // address of the store
    // uint64_t entry[entries]: the GPFIFO entries as they are in memory
};
inline constexpr uint16_t doorbell_unreadable = 1; // GP_PUT or the ring could not be read
inline constexpr uint16_t doorbell_inferred = 2;   // the channel was found by its moved GP_PUT
inline constexpr uint16_t doorbell_bad_put = 4;    // GP_PUT is not below the ring's length

// Pieces of one entry come in order, but other records may stand between them.
struct PushbufferRecord {
    RecordHeader header;
    uint64_t doorbell; // its sequence
    uint64_t address;  // of the first byte here
    uint32_t entry;    // place in DoorbellRecord's list
    uint32_t offset;   // of the first byte here, from the start of the entry's segment
    uint32_t length;   // of `data`, a multiple of 4
    uint32_t total;    // of the whole segment
    // uint8_t data[length]
};
inline constexpr uint32_t pushbuffer_piece = 48 * 1024; // longest `data`
inline constexpr uint16_t pushbuffer_unreadable = 1;    // the rest of the segment could not be read
inline constexpr uint16_t pushbuffer_lost = 2;          // flag: the log had no room for the rest

struct InstructionRecord {
    RecordHeader header;
    uint64_t time_ns;
    uint64_t address; // of the instruction
    uint32_t tid;
    uint32_t page_offset;
    uint8_t code[16]; // bytes there, 0 where they could not be read
};
inline constexpr uint16_t instruction_stepped =
    1; // performed by single step; else it ended the program

struct LostRecord {
    RecordHeader header;
    uint64_t time_ns;
    uint64_t records;
    uint64_t bytes;
    uint64_t doorbells; // of `records`
};

struct ApiNameRecord {
    RecordHeader header;
    uint32_t api;
    uint32_t text_bytes;
    // char text[text_bytes]: "cudaLaunchKernel_v7000", "cuMemcpyHtoD_v2"
};

struct ApiCallRecord {
    RecordHeader header;
    uint64_t call;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint32_t tid;
    uint32_t api;
    uint32_t doorbells;   // rung by this thread inside the call
    uint32_t correlation; // CUPTI's correlation ID
};

struct ApiCountRecord {
    RecordHeader header;
    uint32_t api;
    uint32_t reserved;
    uint64_t calls; // nested ones too
};

struct NoteRecord {
    RecordHeader header;
    uint64_t time_ns;
    uint32_t text_bytes;
    uint32_t reserved;
    // char text[text_bytes]
};

struct EndRecord {
    RecordHeader header;
    uint64_t time_ns;
    uint64_t doorbells;      // seen, logged or lost
    uint64_t entries;        //
    uint64_t bytes;          // of the segments of those entries
    uint64_t loads;          // from doorbell pages
    uint64_t other_stores;   // to doorbell pages, elsewhere than the doorbell
    uint64_t unknown_tokens; // of doorbells
    uint64_t unknown_instructions;
    uint64_t lost_records;
    uint64_t lost_bytes;
    uint64_t lost_doorbells;
    uint64_t waits; // times a thread waited for room in the log
};

// From the handler's start to the end of the store. The delivery of the signal is not in it, nor
// the return from it.
struct OverheadRecord {
    RecordHeader header;
    uint64_t doorbells; // those that were timed: all but those performed by single step
    uint64_t ns;        // of all of them
};

// Where mapped memory lies. The kernel module maps system memory through its control file and what
// a GPU has (its memory and registers, through a BAR) through that GPU's own.
enum class Aperture : uint32_t { unknown = 0, system = 1, device = 2 };

struct MemoryRecord {
    RecordHeader header;
    uint64_t time_ns;
    uint64_t address; // the same for CPU and GPU
    uint64_t bytes;
    Aperture aperture;
    uint32_t handle; // RM's
};
inline constexpr uint16_t memory_gone = 1; // unmapped, at this time

// Read at a doorbell of the channel and at the end, where it is another than before. The GPU may
// have released more than once since.
struct ReleaseRecord {
    RecordHeader header;
    uint64_t time_ns; // when it was read
    uint64_t address;
    uint64_t gpu_ns; // the GPU's clock at the release
    uint32_t channel;
    uint32_t payload;
};

enum class KernelCall : uint32_t {
    open = 1,  // fd is the new one; first: the file's name after /dev/nvidia
    close,     // fd
    duplicate, // of fd: value[0]
    ioctl, // of RM: number value[0]; first: its argument afterwards, second: what that points to
    map,   // of fd: address, bytes, protection, flags
    unmap, // address, bytes
};

struct KernelCallRecord {
    RecordHeader header;
    KernelCall call;
    int32_t fd;
    uint64_t value[4];
    uint32_t first_bytes;
    uint32_t second_bytes;
    // uint8_t first[first_bytes], padded to a multiple of 8; uint8_t second[second_bytes]
};

static_assert(sizeof(LogHeader) == 256 && sizeof(RecordHeader) == 8);
static_assert(sizeof(ProcessRecord) == 16 && sizeof(ThreadRecord) == 32 &&
              sizeof(PageRecord) == 40);
static_assert(sizeof(ChannelRecord) == 72 && sizeof(ChannelClosedRecord) == 24);
static_assert(sizeof(EngineRecord) == 24 && sizeof(DoorbellRecord) == 88);
static_assert(sizeof(PushbufferRecord) == 40 && sizeof(InstructionRecord) == 48);
static_assert(sizeof(LostRecord) == 40 && sizeof(ApiNameRecord) == 16 &&
              sizeof(ApiCallRecord) == 48);
static_assert(sizeof(ApiCountRecord) == 24 && sizeof(NoteRecord) == 24 && sizeof(EndRecord) == 104);
static_assert(sizeof(OverheadRecord) == 24 && sizeof(KernelCallRecord) == 56);
static_assert(sizeof(MemoryRecord) == 40 && sizeof(ReleaseRecord) == 40);

} // namespace denizen::lens
