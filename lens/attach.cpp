// SPDX-License-Identifier: Apache-2.0
#include "attach.hpp"

#include "environment.hpp"
#include "real.hpp"
#include "session.hpp"
#include "signals.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

constexpr int longest_line = 700;
constexpr int patience = 5000; // ms for the line of who has connected

constinit int listener = -1;
constinit sockaddr_un place{};

void answer(int client, const char* a, const char* b = "", const char* c = "", const char* d = "",
            const char* e = "", const char* f = "")
{
    char line[longest_line];
    const int n = snprintf(line, sizeof line, "%s%s%s%s%s%s\n", a, b, c, d, e, f);
    const size_t bytes = n < longest_line ? static_cast<size_t>(n) : sizeof line - 1;
    [[maybe_unused]] const ssize_t sent = send(client, line, bytes, MSG_NOSIGNAL);
}

// Without its end; false if none comes in time.
bool read_line(int client, char (&line)[longest_line])
{
    for (int n = 0; n + 1 < longest_line;) { // ends: each turn reads something
        pollfd asked{client, POLLIN, 0};
        if (poll(&asked, 1, patience) <= 0) {
            return false;
        }
        const ssize_t got = recv(client, line + n, 1, 0);
        if (got <= 0) {
            return false;
        }
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
        ++n;
    }
    return false;
}

bool is_short() { return errno == EMFILE || errno == ENFILE || errno == ENOMEM; }

// Who has connected; -1 with errno if nobody has after all, or where the process has no descriptor
// or no memory for it. It says so a while later, since the next try would find the same.
int accept_next()
{
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0 && is_short()) {
        const int e = errno;
        usleep(100'000);
        errno = e;
    }
    return client;
}

// Until the attacher speaks or goes; who else comes is told so.
void stay(int client)
{
    for (;;) { // ends: as above
        pollfd asked[] = {{client, POLLIN, 0}, {listener, POLLIN, 0}};
        if (poll(asked, 2, -1) < 0 && errno != EINTR) {
            return;
        }
        if (asked[0].revents) {
            return;
        }
        if (asked[1].revents) {
            const int other = accept_next();
            if (other >= 0) {
                answer(other, "error somebody else is attached to it");
                real().close(other);
            }
        }
    }
}

void talk(int client)
{
    char line[longest_line], path[600] = "";
    if (!read_line(client, line)) {
        return;
    }
    Mode mode = Mode::count;
    const char* directory = nullptr;
    if (strncmp(line, "attach count ", 13) == 0) {
        directory = line + 13;
    } else if (strncmp(line, "attach full ", 12) == 0) {
        directory = line + 12;
        mode = Mode::full;
    }
    if (!directory || strlen(directory) > 511) {
        answer(client, "error expected: attach count|full DIRECTORY");
        return;
    }
    if (const char* wrong = session.attach(mode, directory, path, sizeof path)) {
        if (path[0]) {
            answer(client, "error ", path, ": ", wrong, ": ", strerror(errno));
        } else {
            answer(client, "error ", wrong);
        }
        return;
    }
    answer(client, "attached ", path);
    stay(client);
    session.detach();
    answer(client, "detached");
}

void* serve(void*)
{
    pthread_setname_np(pthread_self(), "denizen-attach");
    for (;;) { // ends with the process
        const int client = accept_next();
        if (client >= 0) {
            talk(client);
            real().close(client);
        } else if (errno != EINTR && errno != ECONNABORTED && !is_short()) {
            return nullptr;
        }
    }
}

// What lies in the folder is obeyed, so nobody else may write there.
bool is_private(const char* folder)
{
    struct stat s{};
    return lstat(folder, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           (s.st_mode & 077) == 0;
}

const char* start(int pid)
{
    const char* folder = environment().sockets;
    mkdir(folder, 0700);
    if (!is_private(folder)) {
        return "the folder must be the user's own with mode 700";
    }
    place.sun_family = AF_UNIX;
    snprintf(place.sun_path, sizeof place.sun_path, "%s/%d", folder, pid);
    unlink(place.sun_path); // of a process that had this number before, or of this one before exec
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 ||
        bind(listener, reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
        listen(listener, 4) != 0) {
        return strerror(errno);
    }
    // The program's signals are for its own threads; what the lens takes comes to this one, too.
    sigset_t own, old;
    sigfillset(&own);
    remove_taken(own);
    pthread_t thread{};
    real().pthread_sigmask(SIG_SETMASK, &own, &old);
    const int e = real().pthread_create(&thread, nullptr, serve, nullptr);
    real().pthread_sigmask(SIG_SETMASK, &old, nullptr);
    if (e != 0) {
        return strerror(e);
    }
    pthread_detach(thread);
    return nullptr;
}

} // namespace

bool listen_for_attach(int pid)
{
    const char* wrong = start(pid);
    if (wrong) {
        complain("nobody can attach, the program runs on: ", environment().sockets, ": ", wrong);
        abandon_listening();
    }
    return wrong == nullptr;
}

void stop_listening()
{
    if (listener >= 0) {
        unlink(place.sun_path);
    }
}

void abandon_listening()
{
    if (listener >= 0) {
        real().close(listener);
        listener = -1;
    }
}

} // namespace denizen::lens
