#include "sink/kafka/headers.h"

#include "sink/record.h"

namespace outbox::sink::kafka {

rd_kafka_headers_t* MakeHeaders(const Record& record) {
  if (record.fields.empty()) {
    return nullptr;
  }
  rd_kafka_headers_t* headers = rd_kafka_headers_new(record.fields.size());
  for (const Field& field : record.fields) {
    rd_kafka_header_add(headers, field.name.data(), static_cast<ssize_t>(field.name.size()), field.value.data(),
                        static_cast<ssize_t>(field.value.size()));
  }
  return headers;
}

}  // namespace outbox::sink::kafka
