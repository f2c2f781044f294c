// The figures in a file while the server is down [P], as pg_stat_statements keeps its own: written when it stops in
// good order, read and removed at the next start, so that figures from before a crash are not taken for those of now.
#pragma once

namespace outbox::metrics {

// Both in the postmaster; neither raises. A file that cannot be read, or is of another version, is left out with a word
// in the server's log.
void SaveStats();
void LoadStats();

}  // namespace outbox::metrics
