// SPDX-License-Identifier: Apache-2.0
// Collectives that handlers of a thread call, bit by bit, of bf16: all kinds by all algorithms and
// operations.
#include "group/inside.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;

using Types = Elements<group::BFloat>;
class inside_bfloats : public InsideHandlers<Grain::thread, Types> {};
DENIZEN_AT_PLACES(inside_bfloats, places_of_ranks());

TEST_P(inside_bfloats, handlers_of_every_rank_call) { handlers_call(); }

} // namespace
