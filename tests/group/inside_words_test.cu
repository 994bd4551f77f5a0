// SPDX-License-Identifier: Apache-2.0
// Collectives that tasks of a thread call, bit by bit, of i32, i64 and f64: all kinds by all
// algorithms and operations.
#include "group/inside.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;

using Types = Elements<int32_t, int64_t, double>;
class inside_words : public InsideTasks<task::Grain::thread, Types> {};
DENIZEN_AT_PLACES(inside_words, places_of_ranks());

TEST_P(inside_words, tasks_of_every_rank_call) { tasks_call(); }

} // namespace
