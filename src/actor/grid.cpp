// SPDX-License-Identifier: Apache-2.0
#include "grid.hpp"

#include <denizen/base/error.hpp>

#include <algorithm>
#include <bit>
#include <string>

namespace denizen::gpu {
namespace {

constexpr uint32_t most_warps = 31; // that are workers, of a block's 32
// On an SM, of a kernel with the most registers that a thread can have: 65,536 hold 8 x 32 x 256.
constexpr uint32_t warps_of_any_kernel = 8;
constexpr int most_registers = 255;

int attribute(Function function, int which)
{
    int value = 0;
    check(driver().func_get_attribute(&value, which, function), "cuFuncGetAttribute",
          std::to_string(which));
    return value;
}

// Blocks of a cluster at the most.
uint32_t largest_cluster(const DeviceInfo& info, Function function, const Options& options)
{
    // Code that was compiled for an older GPU and translated for this one knows no clusters.
    const int compiled_for = attribute(function, func_ptx_version);
    const bool possible = info.major >= 9 && compiled_for >= 90;
    if (options.cluster > 1 && !possible) {
        throw Error(Errc::bad_argument,
                    "cluster = " + std::to_string(options.cluster) +
                        " needs compute capability 9.0; " + info.name + " has " +
                        std::to_string(info.major) + "." + std::to_string(info.minor) +
                        " and the program was compiled for " + std::to_string(compiled_for / 10) +
                        "." + std::to_string(compiled_for % 10) + "; use cluster = 1");
    }
    if (options.cluster > 8) {
        check(driver().func_set_attribute(function, func_non_portable_cluster, 1),
              "cuFuncSetAttribute", "clusters of 16 blocks");
    }
    // Under compute-sanitizer a kernel whose blocks form clusters was not seen to begin within 10 s
    // (memcheck and initcheck of CUDA 13.0, H100); one without them does.
    return options.cluster != 0 ? options.cluster : possible && !under_sanitizer() ? 8u : 1u;
}

// What a kernel is looked for room for.
struct Wanted {
    Function function;
    Stream stream;      // where it is launched: a partition's has fewer SMs
    uint32_t least;     // slots of a ring
    size_t most_shared; // bytes of an SM's shared memory
    bool to_exchange;   // as in Grid::choose()
};

// Whether the kernel finds room on this grid, on `most_sms` SMs at the most. `least_shared`: of a
// block, whatever it needs.
bool has_room(const Grid& grid, Function function, Stream stream, uint32_t most_sms,
              size_t least_shared = 0)
{
    Shape shape = grid.shape();
    shape.shared_bytes = std::max(shape.shared_bytes, least_shared);
    const uint32_t cluster = grid.geometry.cluster;
    int room = 0; // blocks, or clusters
    if (cluster > 1) {
        // An error of the driver's says that this GPU has no clusters of this size.
        return grid.blocks <= most_sms &&
               driver().occupancy_max_active_clusters(&room, function, Configured(shape, stream)) ==
                   success &&
               grid.blocks <= static_cast<uint32_t>(room) * cluster;
    }
    check(driver().occupancy_max_active_blocks(&room, function, static_cast<int>(shape.threads[0]),
                                               shape.shared_bytes),
          "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    return grid.blocks <= most_sms * static_cast<uint32_t>(room);
}

// The grid for `g`, if it finds room: with blocks == 0 if it does not.
Grid try_grid(Geometry g, const Wanted& wanted, uint32_t most_sms)
{
    const uint32_t with_workers = (g.workers + g.per_sm - 1) / g.per_sm;
    g.cluster = std::min(g.cluster, std::bit_ceil(with_workers));
    Grid grid;
    grid.blocks = (with_workers + g.cluster - 1) / g.cluster * g.cluster;
    grid.geometry = with_boxes(g, wanted.least, wanted.most_shared);
    // Without near rings there is no reason for a cluster.
    const bool worth =
        g.cluster == 1 || (g.cluster * g.per_sm <= max_near && grid.geometry.near > 1);
    // A kernel whose actors take whole blocks was compiled for blocks of this size.
    const bool any_kernel_fits = g.warps > 1 || grid.warps() <= warps_of_any_kernel;
    // Of the other kernel one block fits on an SM, maybe not two: half of its shared memory each.
    const bool fits = worth && (!wanted.to_exchange || any_kernel_fits) &&
                      has_room(grid, wanted.function, wanted.stream, most_sms,
                               wanted.to_exchange ? wanted.most_shared : 0);
    grid.blocks = fits ? grid.blocks : 0;
    return grid;
}

struct Clusters {
    uint32_t least;
    uint32_t most;
};

// Bytes of an SM's shared memory that the kernel may ask for. The other half is for kernels that
// run beside us.
size_t allow_shared(const DeviceInfo& info, Function function)
{
    const size_t most = info.shared_bytes / 2;
    check(driver().func_set_attribute(function, func_max_dynamic_shared, static_cast<int>(most)),
          "cuFuncSetAttribute", "dynamic shared memory");
    return most;
}

// The grid with the most workers on each of `sms` that has near rings: these are worth more than
// one more worker of an SM, whose boxes leave no room for them. If none has, the one with the most
// workers; with blocks == 0 if none finds room.
Grid filled(Geometry g, const Wanted& wanted, uint32_t sms, Clusters clusters, uint32_t most_per_sm)
{
    Grid without;
    for (g.per_sm = most_per_sm; g.per_sm >= 1; --g.per_sm) {
        for (g.cluster = clusters.most; g.cluster >= clusters.least; g.cluster /= 2) {
            g.workers = workers_of(sms, g.cluster, g.per_sm);
            const Grid grid = try_grid(g, wanted, sms);
            if (grid.blocks != 0 && grid.geometry.near > 1) {
                return grid;
            }
            without = without.blocks == 0 ? grid : without;
        }
    }
    return without;
}

} // namespace

Grid Grid::choose(const Chip& chip, Function function, const Options& options,
                  const ProgramTable& table, uint32_t taken, bool mapped, bool to_exchange)
{
    const DeviceInfo& info = chip.info();
    const auto sms = static_cast<uint32_t>(info.sm_count);
    const uint32_t most_sms = options.sms == 0 ? sms : options.sms;
    if (most_sms > sms) {
        throw Error(Errc::bad_argument, "sms = " + std::to_string(most_sms) + "; " + info.name +
                                            " has " + std::to_string(sms));
    }
    const uint32_t most_cluster = largest_cluster(info, function, options);
    const uint32_t least = least_slots(table);
    const Wanted wanted{function, chip.stream(), least, allow_shared(info, function), to_exchange};
    Geometry g;
    g.local_slots = options.local_slots != 0 ? options.local_slots : 32;
    g.near_slots = options.near_slots != 0 ? options.near_slots : 16;
    g.gap = sizeof(Packet);
    g.landing = sizeof(Slot) * landing_slots(options.nodes);
    g.stage = stage_bytes(table);
    g.warps = warps_of_worker(table);
    const bool of_blocks = g.warps > 1; // of a block's warps one is a worker then
    const uint32_t least_cluster = options.cluster != 0 ? options.cluster : 1;
    if (options.workers == 0) {
        const uint32_t wanted_sms =
            options.sms != 0 ? options.sms : std::max(1u, sms_of(sms, taken) / (mapped ? 1 : 2));
        Grid grid = filled(g, wanted, wanted_sms, {least_cluster, most_cluster},
                           mapped && !of_blocks ? most_on_an_sm(least) : 1);
        if (grid.blocks != 0) {
            grid.why =
                grid.why_chosen(info, options, taken, mapped,
                                to_exchange ? most_registers : attribute(function, func_registers));
            return grid;
        }
    }
    g.workers = options.workers != 0 ? options.workers : 1;
    // As few workers on an SM as can be, then the largest clusters.
    const uint32_t most_per_sm = of_blocks ? 1 : most_warps;
    for (g.per_sm = std::min((g.workers + most_sms - 1) / most_sms, most_per_sm);
         g.per_sm <= most_per_sm; ++g.per_sm) {
        for (g.cluster = most_cluster; g.cluster >= least_cluster; g.cluster /= 2) {
            Grid grid = try_grid(g, wanted, most_sms);
            if (grid.blocks != 0) {
                grid.why = "as given";
                if (of_blocks) {
                    grid.why += "; " + grid.why_blocks();
                }
                return grid;
            }
        }
    }
    throw Error(
        Errc::no_fit,
        std::to_string(g.workers) + " workers do not fit on " + std::to_string(most_sms) +
            " SMs with " +
            std::to_string(to_exchange ? most_registers : attribute(function, func_registers)) +
            " registers per thread" +
            (of_blocks ? ", a block of " + std::to_string(g.warps * 32) + " threads for each"
                       : "") +
            (options.cluster > 1 ? " in clusters of " + std::to_string(options.cluster) +
                                       "; use fewer workers or a smaller cluster"
                                 : "; use fewer workers"));
}

void Grid::admit(const Chip& chip, Function function, const Options& options) const
{
    const DeviceInfo& info = chip.info();
    largest_cluster(info, function, options);
    allow_shared(info, function);
    const uint32_t most_sms = options.sms != 0 ? options.sms : static_cast<uint32_t>(info.sm_count);
    if (!has_room(*this, function, chip.stream(), most_sms)) {
        throw Error(Errc::no_fit, text() + " find no room with " +
                                      std::to_string(attribute(function, func_registers)) +
                                      " registers per thread");
    }
}

std::string Grid::why_chosen(const DeviceInfo& info, const Options& options, uint32_t taken,
                             bool mapped, int registers) const
{
    const std::string blocks_too = geometry.warps > 1 ? "; " + why_blocks() : "";
    if (!mapped) {
        return std::to_string(geometry.workers) + " workers, one on each of " +
               std::to_string(blocks) + " of " + std::to_string(info.sm_count) +
               " SMs: few, because each looks for the host's messages across the bus" + blocks_too;
    }
    std::string text = std::to_string(geometry.per_sm) + " workers on each of " +
                       std::to_string(blocks) + " of " + std::to_string(info.sm_count) + " SMs: ";
    if (options.partition != 0 && options.sms == options.partition) {
        text += "all of its partition";
    } else if (options.sms != 0) {
        text += "sms = " + std::to_string(options.sms);
    } else if (taken != 0) {
        text += "half of those that no other program of this process has";
    } else {
        text += "half of them, so that kernels beside find whole ones";
    }
    return text + ", in whole clusters; " + std::to_string(registers) +
           " registers per thread, and " +
           (geometry.warps > 1 ? "one more warp" : "the last place") + " is the monitor's" +
           blocks_too;
}

std::string Grid::why_blocks() const
{
    return "each is the first warp of a block of " + std::to_string(geometry.warps * 32) +
           " threads, which handlers of grain block take";
}

Shape Grid::shape() const
{
    return {.blocks = {blocks, 1, 1},
            .threads = {warps() * 32, 1},
            .shared_bytes = geometry.shared_bytes(),
            .together = true,
            .cluster = geometry.cluster > 1 ? geometry.cluster : 0};
}

std::string Grid::text() const
{
    return text_of(shape()) + " in clusters of " + std::to_string(geometry.cluster);
}

} // namespace denizen::gpu
