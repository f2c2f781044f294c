// The events with which the official SDK tests its own bindings and formats, and the Kafka records that it makes of them.
// Without an argument: each as a line of JSON, {name, attributes, data}. With `records`: reads lines {name, attributes}, attributes that
// this event is to have instead of its own, and prints {name, binary: {headers, value}, structured: {headers, value}}.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.cloudevents.CloudEvent;
import io.cloudevents.SpecVersion;
import io.cloudevents.core.builder.CloudEventBuilder;
import io.cloudevents.core.test.Data;
import io.cloudevents.jackson.JsonFormat;
import io.cloudevents.kafka.KafkaMessageFactory;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerRecord;

public class CloudEventsVectors {
  static final ObjectMapper JSON = new ObjectMapper();

  static Map<String, CloudEvent> vectors() throws Exception {
    Map<String, CloudEvent> vectors = new TreeMap<>();
    for (Field field : Data.class.getFields()) {
      if (field.getType() == CloudEvent.class && ((CloudEvent) field.get(null)).getSpecVersion() == SpecVersion.V1) {
        vectors.put(field.getName(), (CloudEvent) field.get(null));
      }
    }
    return vectors;
  }

  static Map<String, Object> show(ProducerRecord<Void, byte[]> record) {
    Map<String, String> headers = new TreeMap<>();
    record.headers().forEach(header -> headers.put(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
    Map<String, Object> shown = new LinkedHashMap<>();
    shown.put("headers", headers);
    shown.put("value", record.value());
    return shown;
  }

  static ProducerRecord<Void, byte[]> binary(CloudEvent event) {
    return KafkaMessageFactory.createWriter("topic").writeBinary(event);
  }

  static void print(String name, Map<String, Object> what) throws Exception {
    what.put("name", name);
    System.out.write((JSON.writeValueAsString(what) + "\n").getBytes(StandardCharsets.UTF_8));
    System.out.flush();
  }

  @SuppressWarnings("unchecked")
  public static void main(String[] arguments) throws Exception {
    if (arguments.length == 0) {
      for (Map.Entry<String, CloudEvent> vector : vectors().entrySet()) {
        Map<String, Object> record = show(binary(vector.getValue()));
        Map<String, Object> attributes = new TreeMap<>();
        ((Map<String, String>) record.get("headers")).forEach((name, value) ->
            attributes.put(name.equals("content-type") ? "datacontenttype" : name.substring("ce_".length()), value));
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("attributes", attributes);
        line.put("data", record.get("value"));
        print(vector.getKey(), line);
      }
      return;
    }
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode asked = JSON.readTree(line);
      CloudEventBuilder builder = CloudEventBuilder.v1(vectors().get(asked.get("name").asText()));
      asked.get("attributes").fields().forEachRemaining(attribute ->
          builder.withContextAttribute(attribute.getKey(), attribute.getValue().asText()));
      CloudEvent event = builder.build();
      Map<String, Object> records = new LinkedHashMap<>();
      records.put("binary", show(binary(event)));
      records.put("structured", show(KafkaMessageFactory.createWriter("topic").writeStructured(event, JsonFormat.CONTENT_TYPE)));
      print(asked.get("name").asText(), records);
    }
  }
}
