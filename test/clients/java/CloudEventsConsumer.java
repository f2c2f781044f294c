// Reads a topic as its users do, with the official SDK, and prints a line of JSON for each event: BOOTSTRAP TOPIC COUNT.
import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.kafka.CloudEventDeserializer;
import io.cloudevents.kafka.KafkaMessageFactory;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

public class CloudEventsConsumer {
  public static void main(String[] args) throws Exception {
    int left = Integer.parseInt(args[2]);
    ObjectMapper json = new ObjectMapper();
    Map<String, Object> config = Map.of("bootstrap.servers", args[0], "group.id", "java", "auto.offset.reset", "earliest");
    try (KafkaConsumer<String, CloudEvent> consumer =
        new KafkaConsumer<>(config, new StringDeserializer(), new CloudEventDeserializer())) {
      consumer.subscribe(List.of(args[1]));
      Instant end = Instant.now().plusSeconds(60);
      while (left > 0 && Instant.now().isBefore(end)) {
        for (ConsumerRecord<String, CloudEvent> record : consumer.poll(Duration.ofSeconds(1))) {
          // Kafka's consumer gives null for a tombstone, and asks no deserializer.
          CloudEvent event =
              record.value() != null ? record.value() : KafkaMessageFactory.createReader(record.headers(), null).toEvent();
          Map<String, Object> extensions = new TreeMap<>();
          for (String name : event.getExtensionNames()) {
            extensions.put(name, event.getExtension(name));
          }
          Map<String, Object> row = new LinkedHashMap<>();
          row.put("key", record.key());
          row.put("id", event.getId());
          row.put("source", event.getSource().toString());
          row.put("type", event.getType());
          row.put("subject", event.getSubject());
          row.put("time", ChronoUnit.MICROS.between(Instant.EPOCH, event.getTime().toInstant()));
          row.put("datacontenttype", event.getDataContentType());
          row.put("dataschema", event.getDataSchema() == null ? null : event.getDataSchema().toString());
          row.put("extensions", extensions);
          row.put("bytes", event.getData() == null ? null : event.getData().toBytes());
          System.out.println(json.writeValueAsString(row));
          left--;
        }
      }
    }
    System.exit(left == 0 ? 0 : 1);
  }
}
