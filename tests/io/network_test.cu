// SPDX-License-Identifier: Apache-2.0
// Sockets: two agents of a program talk to each other, and peers that are not there, or go.
#include "agent.hpp"

namespace denizen::test {
namespace {

class IoNetwork : public IoTest {
protected:
    // The service listens, and may connect to where it does.
    void SetUp() override
    {
        IoTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) {
            return;
        }
        io::Options o;
        o.listen = {"127.0.0.1:0"};
        start(o);
        const std::string address = service->address(0);
        service.reset();
        o.listen = {address};
        o.connect = {address, "127.0.0.1:1"};
        serve(o);
    }

    // The two ends of a connection.
    void connected(uint32_t& left, uint32_t& right)
    {
        rt->send(agent, io::Accept{1, 0});
        rt->send(agent, io::Connect{2, 0});
        for (int i = 0; i < 2; ++i) {
            const auto d = rt->receive<io::Done>(20s);
            ASSERT_STREQ(name_of(d.error), "none");
            (d.tag == 1 ? left : right) = d.file;
            EXPECT_EQ(d.op, static_cast<uint32_t>(d.tag == 1 ? io::Op::accept : io::Op::connect));
        }
    }
};
DENIZEN_BY_BOTH_ENGINES(IoNetwork);

TEST_P(IoNetwork, what_is_sent_comes_whole_and_in_order)
{
    uint32_t left = 0;
    uint32_t right = 0;
    connected(left, right);
    std::string sent;
    std::string came;
    for (uint32_t i = 0; i < 60; ++i) {
        const std::string text = pattern(100 + 40 * i);
        sent += text;
        rt->send(agent, write_of<Long>(left, text));
    }
    rt->send(agent, io::Close{left, 5}); // after what was sent before it
    rt->send(agent, io::Read{right, 6, 4000, 0, io::next});
    for (bool end = false; !end;) { // ends with the connection
        const auto m = rt->receive(20s);
        if (m.is<io::Done>()) {
            EXPECT_STREQ(name_of(m.as<io::Done>().error), "none");
            continue;
        }
        const auto d = m.as<Page>();
        ASSERT_STREQ(name_of(d.error), "none");
        came.append(reinterpret_cast<const char*>(d.bytes), d.length);
        end = d.length == 0;
        if (!end) {
            rt->send(agent, io::Read{right, 6, 4000, 0, io::next});
        }
    }
    EXPECT_EQ(came, sent);
    rt->drain(20s);
    EXPECT_STREQ(error_of_request(io::Sync{right, 1}), "bad file");
}

TEST_P(IoNetwork, a_peer_that_is_gone_is_an_error)
{
    uint32_t left = 0;
    uint32_t right = 0;
    connected(left, right);
    EXPECT_STREQ(error_of_request(io::Close{right, 1}), "none");
    std::string last;
    for (int i = 0; i < 100 && last != "ended"; ++i) { // the first may still go out
        last = error_of_request(write_of<Line>(left, "anybody there?"));
    }
    EXPECT_EQ(last, "ended");
    EXPECT_STREQ(error_of_request(io::Connect{1, 1}), "refused");
    EXPECT_STREQ(error_of_request(io::Connect{1, 2}), "denied");
    EXPECT_STREQ(error_of_request(io::Accept{1, 1}), "denied");
}

TEST_P(IoNetwork, a_read_that_waits_ends_with_its_socket)
{
    uint32_t left = 0;
    uint32_t right = 0;
    connected(left, right);
    for (uint32_t i = 0; i < 3; ++i) {
        rt->send(agent, io::Read{left, 10 + i, 100, 0, io::next});
    }
    rt->drain(20s);
    service->drain(20s); // these wait, and a drain does not wait for them
    rt->send(agent, io::Close{left, 1});
    uint32_t ended = 0;
    for (int i = 0; i < 4; ++i) {
        const auto m = rt->receive(20s);
        if (m.is<Chunk>()) {
            EXPECT_STREQ(name_of(m.as<Chunk>().error), "ended");
            ++ended;
        } else {
            EXPECT_STREQ(name_of(m.as<io::Done>().error), "none");
        }
    }
    EXPECT_EQ(ended, 3u);
}

TEST_P(IoNetwork, so_many_reads_may_wait)
{
    uint32_t left = 0;
    uint32_t right = 0;
    connected(left, right);
    for (uint32_t i = 0; i < io::waiting_reads + 3; ++i) { // one of them is under way
        rt->send(agent, io::Read{left, i, 10, 0, io::next});
        rt->drain(20s);
        service->drain(20s);
    }
    for (int i = 0; i < 2; ++i) {
        EXPECT_STREQ(name_of(rt->receive<Chunk>(20s).error), "limit");
    }
}

TEST_P(IoNetwork, close_answers_what_waits)
{
    uint32_t left = 0;
    uint32_t right = 0;
    connected(left, right);
    rt->send(agent, io::Accept{20, 0});
    rt->send(agent, io::Accept{20, 0});
    rt->send(agent, io::Read{left, 21, 100, 0, io::next});
    rt->send(agent, io::Read{left, 21, 100, 0, io::next});
    rt->drain(20s);
    service->drain(20s);
    service->close(20s);
    for (int i = 0; i < 4; ++i) {
        const auto m = rt->receive(20s);
        const uint32_t error = m.is<Chunk>() ? m.as<Chunk>().error : m.as<io::Done>().error;
        EXPECT_STREQ(name_of(error), "cancelled");
    }
    const io::Stats s = service->stats();
    EXPECT_EQ(s.requests, s.answered);
    EXPECT_EQ(s.open, 0u);
}

// A peer that reads nothing holds up its own socket, and no other file.
TEST_P(IoNetwork, a_slow_peer_holds_up_nobody_else)
{
    uint32_t left = 0;
    uint32_t right = 0;
    connected(left, right);
    constexpr uint64_t bytes = 64 << 20; // more than the system keeps of it
    Buffer data = rt->buffer(bytes, BufferKind::pinned);
    std::memset(data.cpu(), 'x', bytes);
    rt->send(agent, io::WriteFrom{left, 30, io::next, data.ref(), 0, bytes});
    rt->drain(20s);
    const uint32_t file = opened("beside", new_file);
    EXPECT_EQ(done_of(write_of<Line>(file, "goes on")).bytes, 7u);
    expect_error_like(Errc::timeout, "1 of [0-9]+ requests are not answered after .* s",
                      [&] { service->drain(200ms); });
    service->close(1ms);
    const auto d = rt->receive<io::Done>(20s);
    EXPECT_EQ(d.tag, 30u);
    EXPECT_STREQ(name_of(d.error), "cancelled");
    EXPECT_LT(d.bytes, bytes);
}

} // namespace
} // namespace denizen::test
