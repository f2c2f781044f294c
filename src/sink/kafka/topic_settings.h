// A topic's settings, as the cluster tells them (DescribeConfigs) [-]. Not every user may ask.
#pragma once

#include <librdkafka/rdkafka.h>

#include <functional>
#include <string>
#include <string_view>

namespace outbox::sink::kafka {

// Asks for them: an event with this opaque comes to the queue.
void AskForSettings(rd_kafka_t* handle, const std::string& topic, int timeout_ms, void* opaque,
                    rd_kafka_queue_t* queue);

// Calls `each` with the name and value of each that has a value. Returns an error code, and calls nothing, if the event
// is no answer: TOPIC_AUTHORIZATION_FAILED where the user may not ask.
int ReadSettings(rd_kafka_event_t* event, const std::function<void(std::string_view, const char*)>& each);

}  // namespace outbox::sink::kafka
