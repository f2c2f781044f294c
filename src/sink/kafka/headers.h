// A record's fields as the headers of a Kafka message [-]. Which fields there are is src/format's business.
#pragma once

#include <librdkafka/rdkafka.h>

namespace outbox::sink {
struct Record;
}

namespace outbox::sink::kafka {

// In the record's order, bytes as they are; nullptr where there are none. The library owns them once it has taken the
// message; until then the caller.
rd_kafka_headers_t* MakeHeaders(const Record& record);

}  // namespace outbox::sink::kafka
