import java.nio.charset.StandardCharsets;
import java.sql.DriverManager;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A Kafka consumer that handles each event once: docs/consumers.md. */
public final class KafkaInbox {
  public static void main(String[] arguments) throws Exception {
    var env = System.getenv();
    // page: kafka
    Map<String, Object> options = Map.of(
        "bootstrap.servers", env.get("BROKERS"),
        "group.id", env.get("GROUP"),
        "group.instance.id", env.get("INSTANCE"), // a restart takes its partitions back at once
        "enable.auto.commit", false,
        "max.poll.records", 50, // what a crash has come again
        "auto.offset.reset", "earliest");
    var bytes = new ByteArrayDeserializer();
    var database = new Properties();
    database.setProperty("socketTimeout", "90"); // seconds, of each query: a database that answers nothing any more
    try (var db = DriverManager.getConnection(env.get("JDBC_URL"), database);
        var receive = db.prepareStatement("SELECT outbox.receive(?, ?)");
        var consumer = new KafkaConsumer<>(options, bytes, bytes)) {
      db.setAutoCommit(false);
      consumer.subscribe(List.of(env.get("TOPIC")));
      while (true) {
        for (var message : consumer.poll(Duration.ofSeconds(1))) {
          var id = new String(message.headers().lastHeader("id").value(), StandardCharsets.UTF_8);
          receive.setString(1, "billing");
          receive.setObject(2, UUID.fromString(id));
          try (var answer = receive.executeQuery()) {
            answer.next();
            if (answer.getBoolean(1)) {
              Handle.handle(db, message.value()); // null: a tombstone
            }
          }
          db.commit();
        }
        consumer.commitAsync(); // what of it is lost comes again, and is not new then
      }
    }
    // page end
  }

  private KafkaInbox() {}
}
