// SPDX-License-Identifier: Apache-2.0
#include "gpu_text.hpp"

#include "cpu_passes.hpp"
#include "cpu_tiles.hpp"

namespace denizen::wave {

template <class T>
uint32_t run_passes(State& state, CpuField<T>& field, const Kinds& kinds, uint32_t depth,
                    uint32_t steps, const std::function<bool(uint32_t)>& serve, T* traces)
{
    CpuPasses<T> passes(state, field, traces, steps);
    return depth == 2 ? passes.template run<PassOf<T, 2>>(kinds, serve)
                      : passes.template run<PassOf<T, 4>>(kinds, serve);
}

template <class T>
void run_by_tiles(State& state, CpuField<T>& field, bool deep, uint32_t steps, Mailbox& box,
                  uint32_t ahead, T* traces, Ran& ran)
{
    const std::vector<Tiling> shapes = tilings<T>(state.geometry, deep);
    const std::vector<Seats> seats(shapes.size(), {most_tiles, most_tiles});
    std::string why_not = "a tile lies in one memory";
    Tiling tiling;
    if (field.slabs() == 1) {
        tiling = choose_tiling(state.geometry, shapes, seats, deep, why_not);
    }
    if (tiling.name == nullptr) {
        throw Error(Errc::bad_argument, std::string("method ") + (deep ? "deep" : "tiles") + ": " +
                                            why_not + "; use threads");
    }
    ran.tiles = tiling.text();
    for_shapes<T>(deep, [&]<class S>(const char* name) {
        if (std::string(name) != tiling.name) return;
        run_tiles<S>(state, field, tiling, steps, box, ahead, traces, ran);
    });
}

template uint32_t run_passes(State&, CpuField<float>&, const Kinds&, uint32_t, uint32_t,
                             const std::function<bool(uint32_t)>&, float*);
template uint32_t run_passes(State&, CpuField<double>&, const Kinds&, uint32_t, uint32_t,
                             const std::function<bool(uint32_t)>&, double*);
template void run_by_tiles(State&, CpuField<float>&, bool, uint32_t, Mailbox&, uint32_t, float*,
                           Ran&);
template void run_by_tiles(State&, CpuField<double>&, bool, uint32_t, Mailbox&, uint32_t, double*,
                           Ran&);

} // namespace denizen::wave
