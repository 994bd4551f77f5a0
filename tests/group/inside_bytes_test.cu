// SPDX-License-Identifier: Apache-2.0
// Collectives that handlers of a thread call, bit by bit, of the types of one byte: all kinds by
// all algorithms and operations.
#include "group/inside.hpp"

namespace {

using namespace denizen;
using namespace denizen::test;

using Types = Elements<uint8_t, group::Float8E4M3, group::Float8E5M2>;
class inside_bytes : public InsideHandlers<Grain::thread, Types> {};
DENIZEN_AT_PLACES(inside_bytes, places_of_ranks());

TEST_P(inside_bytes, handlers_of_every_rank_call) { handlers_call(); }

} // namespace
