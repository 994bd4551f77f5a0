// SPDX-License-Identifier: Apache-2.0
// Which of two methods is the faster one for a graph, found out by using it: what decides, how many
// rounds there are and how wide each is, only a search tells. Used by Search for shortest paths on
// a GPU.
#pragma once

#include <denizen/graph/search.hpp>

namespace denizen::graph {

class Choice {
public:
    // Nothing is lost by trying `second` once.
    Choice(Method first, Method second, uint32_t vertices)
        : methods_{first, second}, vertices_(vertices)
    {
    }

    // The first, then once the second, then whichever took less time for each vertex it reached.
    Method next() const
    {
        if (pace_[0] == 0 || pace_[1] == 0) {
            return methods_[pace_[0] == 0 ? 0 : 1];
        }
        return methods_[pace_[0] <= pace_[1] ? 0 : 1];
    }

    // Searches that reach less than a quarter of the graph say nothing about others.
    void took(const Paths& paths)
    {
        if (paths.reached == 0 || paths.reached < vertices_ / 4) return;
        for (int i = 0; i < 2; ++i) {
            const double pace = paths.seconds / paths.reached;
            if (paths.method == methods_[i] && (pace_[i] == 0 || pace < pace_[i])) pace_[i] = pace;
        }
    }

private:
    Method methods_[2];
    uint32_t vertices_;
    double pace_[2] = {0, 0}; // the least seconds for a vertex; 0: not known
};

} // namespace denizen::graph
