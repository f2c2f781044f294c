// Trying a destination out, from a session [P]: outbox.test_server(), and what create_route() says of its server.
#pragma once

#include <string>
#include <vector>

#include "admin/lookup/server.h"
#include "sink/checkup.h"

namespace outbox::admin {

struct TestRequest {
  std::string server;
  std::string topic;                                  // "": none is looked at
  sink::RecordForm form = sink::RecordForm::kStream;  // of the records that go there
  int64_t timeout_ms = 0;
};

// What was looked at, in order; at the first thing that is wrong it ends. Takes the timeout and a quarter of a second
// at most; interrupts are processed, and end the program that asks. Throws PgError.
std::vector<sink::CheckupRow> TestDestination(const Destination& destination, const TestRequest& request);

// A NOTICE, if the server of a new route cannot be used as it is. Nothing where no client would see it, or
// outbox.test_new_routes is off; nor where statement_timeout leaves no time for it. `options`: the route's, as a JSON
// object.
void NoticeUnusable(const Destination& destination, const std::string& server, const std::string& topic_template,
                    const std::string& options);

}  // namespace outbox::admin
