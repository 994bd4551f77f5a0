// SPDX-License-Identifier: Apache-2.0
// Attaching to a process whose lens sleeps. The library is preloaded and follows the driver's
// objects, but the driver library has the device's own doorbell pages: a doorbell costs nothing. A
// thread waits at a socket, FOLDER/PID with the FOLDER of DENIZEN_LENS_SOCKETS, for one line:
//
//     attach count|full DIRECTORY
//
// answers "attached PATH" (the log) or "error TEXT", and keeps the pages trapping until the other
// end says anything or goes, so that an attacher who dies is detached. It answers "detached" then.
#pragma once

namespace denizen::lens {

// Makes the socket and starts the thread. False if it cannot, which is told.
bool listen_for_attach(int pid);

// At the end: the socket's name goes. In a child of fork: the socket is the parent's.
void stop_listening();
void abandon_listening();

} // namespace denizen::lens
