#include "sink/kafka/topic_settings.h"

#include "sink/kafka/producer.h"

namespace outbox::sink::kafka {

void AskForSettings(rd_kafka_t* handle, const std::string& topic, int timeout_ms, void* opaque,
                    rd_kafka_queue_t* queue) {
  char text[128];
  rd_kafka_AdminOptions_t* options = rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
  rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, text, sizeof text);
  rd_kafka_AdminOptions_set_opaque(options, opaque);
  rd_kafka_ConfigResource_t* resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str());
  rd_kafka_DescribeConfigs(handle, &resource, 1, options, queue);
  rd_kafka_ConfigResource_destroy(resource);
  rd_kafka_AdminOptions_destroy(options);
}

int ReadSettings(rd_kafka_event_t* event, const std::function<void(std::string_view, const char*)>& each) {
  const rd_kafka_DescribeConfigs_result_t* result = rd_kafka_event_DescribeConfigs_result(event);
  size_t count = 0;
  const rd_kafka_ConfigResource_t** resources =
      result == nullptr ? nullptr : rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (const int code = CodeOf(rd_kafka_event_error(event)); code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return code;
  }
  if (count != 1) {
    return RD_KAFKA_RESP_ERR__BAD_MSG;
  }
  if (const int code = CodeOf(rd_kafka_ConfigResource_error(resources[0])); code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return code;
  }
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(resources[0], &count);
  for (size_t i = 0; i < count; ++i) {
    if (const char* value = rd_kafka_ConfigEntry_value(entries[i]); value != nullptr) {
      each(rd_kafka_ConfigEntry_name(entries[i]), value);
    }
  }
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

}  // namespace outbox::sink::kafka
