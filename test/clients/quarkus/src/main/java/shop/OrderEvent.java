package shop;

import com.fasterxml.jackson.databind.JsonNode;
import io.debezium.outbox.quarkus.ExportedEvent;
import java.time.Instant;
import java.util.Map;

public record OrderEvent(String aggregateId, String type, JsonNode payload, Map<String, Object> additionalFieldValues)
        implements ExportedEvent<String, JsonNode> {
    @Override public String getAggregateId() { return aggregateId; }
    @Override public String getAggregateType() { return "order"; }
    @Override public String getType() { return type; }
    @Override public Instant getTimestamp() { return Instant.EPOCH; }
    @Override public JsonNode getPayload() { return payload; }
    @Override public Map<String, Object> getAdditionalFieldValues() { return additionalFieldValues; }
}
