// What an attacker would try who has taken a sink process over [-], for tests: in a build with fault points.
#pragma once

namespace outbox::sink {

// File "escape" of the directory of fault points names a file of the data directory, and sockets, a line each. What
// came of it is a line of "escape.result". Without that file nothing is done.
void TryToEscape();

}  // namespace outbox::sink
