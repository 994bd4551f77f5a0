// SPDX-License-Identifier: Apache-2.0
// The protocols' own functions, each in a kernel of its own, so that a compiler that weakens one is
// seen. The comment before a kernel says what its machine code has (tests/device/orders/check):
//
//   SASS: A; B x4; ...   these in this order, others between them; x4: four in a row
//   SASS-NOT: A; B       none of these
//   SASS(sm_80): ...     of that architecture, instead of the line without
//
// A, B: begin of an instruction without its predicate, a regular expression. LD stands for LD and
// LDG, which differ in whether ptxas knows that it is global memory; ST and ATOM likewise.
#include <denizen/actor/detail/post.hpp>
#include <denizen/actor/detail/sources.hpp>
#include <denizen/group/detail/mailbox.hpp>
#include <denizen/task/detail/mailbox.hpp>
#include <denizen/wire/mpmc.hpp>
#include <denizen/wire/mpsc.hpp>

#define PROBE extern "C" __global__ void

using namespace denizen;

struct Message {
    uint32_t word[9];
};

// ---- Packets: one access of 16 bytes, of the scope that is said.

// ptxas makes two loads of a relaxed one of which two words are used.
// SASS: LD.E.128.STRONG.SYS
// SASS-NOT: LD.E.64; LD.E.STRONG
PROBE packet_load_system(const Packet* p, uint2* out)
{
    const Packet got = load_packet<Scope::system>(p);
    *out = make_uint2(got.word[0], got.sequence);
}

// SASS: LD.E.128.STRONG
// SASS-NOT: LD.E.64; LD.E.STRONG
PROBE packet_load_gpu(const Packet* p, uint2* out)
{
    const Packet got = load_packet<Scope::gpu>(p);
    *out = make_uint2(got.word[1], got.sequence);
}

// SASS: ST.E.128.STRONG.SYS
// SASS-NOT: ST.E.64; ST.E.STRONG
PROBE packet_store_system(Packet* p, Packet value) { store_packet<Scope::system>(p, value); }

// SASS: ST.E.128.STRONG.GPU
// SASS-NOT: ST.E.64; ST.E.STRONG
PROBE packet_store_gpu(Packet* p, Packet value) { store_packet<Scope::gpu>(p, value); }

// SASS: LDS.128
// SASS-NOT: LDS.64; LDS R
PROBE near_load(cluster::Address a, uint2* out)
{
    const Packet got = cluster::load_packet(a);
    *out = make_uint2(got.word[0], got.sequence);
}

// SASS: ST.E.128
// SASS-NOT: ST.E.64; ST.E (?!d)
// SASS(sm_80): STS.128
PROBE near_store(cluster::Address a, Packet value) { cluster::store_packet(a, value); }

// Behind other lanes of the warp.
// SASS: LDS; ST.E.128
// SASS(sm_80): LDS; STS.128
PROBE near_send(cluster::Address credit, cluster::Address slot, Packet value)
{
    lanes::sync();
    if (cluster::load(credit) == 1) {
        cluster::store_packet(slot, value);
    }
}

// ---- Rings

// The credit is read, and what it gives back is written after.
// SASS: LD.E.STRONG.SYS; CCTL.IVALL; ST.E.128.STRONG.SYS x4
// SASS-NOT: ST.E.64.STRONG; ST.E.STRONG
PROBE ring_publish(SpscSender<Scope::system>* sender, Message m, Errc* out)
{
    *out = sender->send_if_room(1, 2, 3, m);
}

// SASS: LD.E.128.STRONG.SYS x4; MEMBAR.ALL.SYS; ST.E.STRONG.SYS
// SASS-NOT: LD.E.64.STRONG; LD.E.STRONG
PROBE ring_consume(SpscReceiver<Scope::system>* receiver, Message* m, Errc* out)
{
    Header h;
    *out = receiver->try_receive_short<36>(3, h, m);
}

// The slots were read before.
// SASS: MEMBAR.ALL.SYS; ST.E.STRONG.SYS
PROBE ring_credit(SpscReceiver<Scope::system>* receiver) { receiver->give_credit(); }

// SASS: LD.E.STRONG.GPU; CCTL.IVALL; ATOM.E.CAS.STRONG.GPU; ST.E.128.STRONG.GPU
// SASS-NOT: ST.E.64.STRONG; ST.E.STRONG
PROBE ring_send_shared(MpscSender<Scope::gpu>* sender, Header h, Message m, Errc* out)
{
    *out = sender->try_send(h, &m);
}

// SASS: LD.E.128.STRONG.SYS x4; MEMBAR.ALL.GPU; ST.E.STRONG.GPU
PROBE ring_consume_shared(MpscReceiver<Scope::gpu>* receiver, Message* m, Errc* out)
{
    Header h;
    *out = receiver->try_receive_short<36>(3, h, m);
}

// SASS: LD.E.128.STRONG.SYS; ATOM.E.CAS.STRONG.GPU; MEMBAR.ALL.GPU; ST.E.128.STRONG.GPU
// SASS-NOT: ST.E.64.STRONG; ST.E.STRONG
PROBE ring_send_many(MpmcSender<Scope::gpu>* sender, Header h, Message m, Errc* out)
{
    *out = sender->try_send(h, &m);
}

// SASS: ATOM.E.CAS.STRONG.GPU; LD.E.128.STRONG.SYS; MEMBAR.ALL.GPU; ST.E.128.STRONG.GPU
PROBE ring_consume_many(MpmcReceiver<Scope::gpu>* receiver, Message* m, Errc* out)
{
    Header h;
    *out = receiver->try_receive(h, m, sizeof(Message));
}

// ---- Inboxes of actors

// SASS: LD.E.128.STRONG.SYS; MEMBAR.ALL.GPU; ST.E.STRONG.SYS
// SASS-NOT: MEMBAR.ALL.SYS
PROBE inbox_credit(const Packet* p, uint32_t* credit)
{
    if (load_packet<Scope::system>(p).sequence == 1) {
        denizen::detail::tell_credit(source_node, credit, 1);
    }
}

// SASS: LD.E.128.STRONG.SYS; MEMBAR.ALL.SYS; ST.E.STRONG.SYS
PROBE peer_credit(const Packet* p, uint32_t* credit)
{
    if (load_packet<Scope::system>(p).sequence == 1) {
        denizen::detail::tell_credit(source_peer, credit, 1);
    }
}

// SASS: LD.E.STRONG.SYS; ST.E.128.STRONG.SYS
// SASS-NOT: MEMBAR; CCTL.IVALL
PROBE inbox_send(const Shared* s, denizen::detail::Target to, Packet value)
{
    const denizen::detail::Path path{RingKind::inbox, 0, Route::gpu};
    const denizen::detail::Drawn drawn = denizen::detail::draw(*s, 0, path, to, 1);
    if (drawn.free == 1) {
        store_packet<Scope::system>(&to.slots[drawn.ticket & to.mask].packet[0], value);
    }
}

// ---- Replies: of eight bytes in one packet.

// SASS: ST.E.128.STRONG.SYS
// SASS-NOT: ST.E.64.STRONG; ST.E.STRONG
PROBE reply(Slot* cell, Address to, uint2 words)
{
    const uint32_t both[2] = {words.x, words.y};
    denizen::detail::store_compact(cell, to, 3, 0, both, 8);
}

// ---- Mailboxes of tasks

// What was written before goes with the task; the owner's clearing comes before the packets.
// SASS: MEMBAR.ALL.GPU; ATOM.E.CAS.128.STRONG.GPU; MEMBAR.ALL.GPU; ST.E.128.STRONG.GPU x2
// SASS(sm_80): MEMBAR.ALL.GPU; ATOM.E.CAS.STRONG.GPU; ST.E.128.STRONG.GPU; MEMBAR.ALL.GPU
// SASS-NOT: ST.E.64.STRONG
PROBE mail_send(task::Mailbox* to, uint32_t from, Message m, uint32_t* data, bool* out)
{
    *data = 1;
    *out = task::mailbox::send<9>(*to, from, m.word, 1, true);
}

// The first packet is cleared last.
// SASS: LD.E.128.STRONG.SYS; ST.E.128.STRONG.GPU; MEMBAR.ALL.GPU; ST.E.128.STRONG.GPU
// SASS-NOT: ST.E.64.STRONG; ST.E.STRONG
PROBE mail_take(task::Mailbox* box, Packet first, Message* out)
{
    task::mailbox::take<9>(*box, 0, first, out->word);
}

// Who runs a task that came by mail sees what its sender wrote before.
// SASS: LD.E.128.STRONG.SYS; MEMBAR.SC.GPU; LD.E
PROBE mail_run(task::Mailbox* box, const uint32_t* data, uint32_t* out)
{
    Packet first;
    if (task::mailbox::arrived(*box, 0, first)) {
        __threadfence(); // as mail() does
        *out = *data + first.word[0];
    }
}

// ---- Leaving, and coming back

// Workers find the gate empty.
// SASS: ST.E.STRONG.GPU; MEMBAR.ALL.GPU; ATOM.E.CAS.STRONG.GPU
PROBE breath_soon(BreathRef b, uint32_t* out)
{
    const uint32_t wanted = denizen::detail::next_attempt(b, 0);
    uint32_t before = 0;
    compare_exchange<Scope::gpu, Order::release>(b.command, before, wanted); // as the monitor does
    *out = before;
}

// SASS: LD.E.STRONG.GPU; LD.E.STRONG.GPU; CCTL.IVALL; MEMBAR.ALL.GPU; ST.E.STRONG.GPU
PROBE breath_acknowledge(BreathRef b, uint32_t id, uint32_t told, uint32_t* out)
{
    *out = denizen::detail::acknowledge(b, id, told);
}

// SASS: LD.E.STRONG.GPU; MEMBAR.SC.GPU
PROBE breath_all_acknowledged(BreathRef b, uint32_t word, bool* out)
{
    *out = denizen::detail::all_acknowledged(b, word);
}

// SASS: ATOM.E.ADD.STRONG.GPU; LD.E.STRONG.GPU
PROBE breath_gate(BreathRef b, uint32_t told, bool* out)
{
    *out = denizen::detail::pass_gate(b, told);
}

// SASS: ST.E.STRONG.SYS; ST.E.STRONG.GPU; MEMBAR.ALL.GPU; ATOM.E.ADD.STRONG.GPU; MEMBAR.ALL.GPU
PROBE term_leave(TermRef t, bool* out)
{
    denizen::detail::leave_gpu(t, Leave::stopped);
    *out = denizen::detail::is_last_to_leave(t, true);
}

// The host finds why the program has left when it finds that it has.
// SASS: ATOM.E.ADD.STRONG.GPU; MEMBAR.ALL.GPU; LD.E.STRONG.GPU; MEMBAR.ALL.SYS; ST.E.STRONG.SYS
PROBE term_last(TermRef t)
{
    if (denizen::detail::is_last_to_leave(t, false)) {
        denizen::detail::tell_end(t);
    }
}

// ---- Groups

// SASS: MEMBAR.ALL.SYS; ST.E.128.STRONG.SYS
// SASS-NOT: ST.E.64.STRONG; ST.E.STRONG
PROBE group_release(uint32_t* data, Packet* p, Packet value)
{
    *data = 1;
    group::Direct::release();
    group::Direct::store(p, value);
}

// SASS: LD.E.128.STRONG.SYS; CCTL.IVALL; LD.E
// SASS-NOT: LD.E.64.STRONG; LD.E.STRONG
PROBE group_acquire(const Packet* p, const uint32_t* data, uint32_t* out)
{
    const Packet got = group::Direct::load(p);
    if (got.sequence == 1) {
        group::Direct::acquire();
        *out = *data;
    }
}

// Between the host's packet and the other teams'.
// SASS: CCTL.IVALL; MEMBAR.ALL.SYS; ST.E.128.STRONG.SYS
PROBE group_relay(group::Mailbox box, const Packet* p)
{
    const Packet got = group::Direct::load(p);
    if (got.sequence == 1) {
        group::pass_on(box, 1, 0, got);
    }
}

// SASS: BAR.SYNC; MEMBAR.ALL.SYS; ST.E.128.STRONG.SYS; LD.E.128.STRONG.SYS; CCTL.IVALL; BAR.RED
// SASS-NOT: ST.E.64.STRONG
PROBE group_meet(GroupRef g, bool* out)
{
    group::Channel<> channel(g, blockIdx.x);
    *out = channel.meet();
}
