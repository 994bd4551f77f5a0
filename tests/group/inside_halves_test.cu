// SPDX-License-Identifier: Apache-2.0
// Collectives that tasks of a warp call, bit by bit, of f16: all kinds by all algorithms
// and operations.
#include "group/inside.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;

using Types = Elements<group::Half>;
class inside_halves : public InsideTasks<task::Grain::warp, Types> {};
DENIZEN_AT_PLACES(inside_halves, places_of_ranks());

TEST_P(inside_halves, tasks_of_every_rank_call) { tasks_call(); }

} // namespace
