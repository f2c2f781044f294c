import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.DriverManager;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.function.Function;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.XReadGroupParams;

/** A consumer of a Redis stream's group that handles each event once: docs/consumers.md. */
public final class RedisInbox {
  public static void main(String[] arguments) throws Exception {
    var env = System.getenv();
    var stream = env.get("TOPIC");
    // page: redis
    var options = DefaultJedisClientConfig.builder()
        .blockingSocketTimeoutMillis(10_000) // longer than block: a connection that nobody closed and nobody answers
        .build();
    var database = new Properties();
    database.setProperty("socketTimeout", "90"); // seconds, of each query: a database that answers nothing any more
    try (var db = DriverManager.getConnection(env.get("JDBC_URL"), database);
        var receive = db.prepareStatement("SELECT outbox.receive(?, ?)");
        var redis = new UnifiedJedis(URI.create(env.get("REDIS")), options)) {
      db.setAutoCommit(false);
      try {
        redis.xgroupCreate(stream, "billing", new StreamEntryID("0-0"), true);
      } catch (JedisDataException e) {
        if (!e.getMessage().startsWith("BUSYGROUP")) {
          throw e;
        }
      }
      Function<String, byte[]> bytes = text -> text.getBytes(StandardCharsets.UTF_8);
      Function<Object, String> text = some -> new String((byte[]) some, StandardCharsets.UTF_8);
      var after = "0"; // first what this consumer was given before it died; then what is new
      while (true) {
        // Bytes, as a payload may be any, which a StreamEntry would decode: [[stream, [[entry, [field, value, ...]], ...]]].
        var answer = redis.xreadGroup(bytes.apply("billing"), bytes.apply(env.get("INSTANCE")),
            XReadGroupParams.xReadGroupParams().count(100).block(1000), Map.entry(bytes.apply(stream), bytes.apply(after)));
        var entries = answer == null || answer.isEmpty() ? List.of() : (List<?>) ((List<?>) answer.get(0)).get(1);
        if (!after.equals(">")) {
          after = entries.isEmpty() ? ">" : text.apply(((List<?>) entries.get(entries.size() - 1)).get(0));
        }
        for (var entry : entries) {
          var list = (List<?>) ((List<?>) entry).get(1);
          if (list != null && !list.isEmpty()) { // none: the entry was trimmed away after this consumer was given it
            var fields = new HashMap<String, byte[]>();
            for (int i = 0; i < list.size(); i += 2) {
              fields.put(text.apply(list.get(i)), (byte[]) list.get(i + 1));
            }
            receive.setString(1, "billing");
            receive.setObject(2, UUID.fromString(text.apply(fields.get("id"))));
            try (var row = receive.executeQuery()) {
              row.next();
              if (row.getBoolean(1)) {
                Handle.handle(db, fields.get("payload")); // null: a tombstone
              }
            }
            db.commit();
          }
          redis.xack(bytes.apply(stream), bytes.apply("billing"), (byte[]) ((List<?>) entry).get(0));
        }
      }
    }
    // page end
  }

  private RedisInbox() {}
}
