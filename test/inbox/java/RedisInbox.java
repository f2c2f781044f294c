import java.nio.charset.StandardCharsets;
import java.sql.DriverManager;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;

/** A consumer of a Redis stream's group that handles each event once: docs/consumers.md. */
public final class RedisInbox {
  public static void main(String[] arguments) throws Exception {
    var env = System.getenv();
    var stream = env.get("TOPIC");
    // page: redis
    try (var db = DriverManager.getConnection(env.get("JDBC_URL"));
        var receive = db.prepareStatement("SELECT outbox.receive(?, ?)");
        var redis = new JedisPooled(env.get("REDIS"))) {
      db.setAutoCommit(false);
      try {
        redis.xgroupCreate(stream, "billing", new StreamEntryID("0-0"), true);
      } catch (JedisDataException e) {
        if (!e.getMessage().startsWith("BUSYGROUP")) {
          throw e;
        }
      }
      var fresh = StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY;
      var after = new StreamEntryID("0-0"); // first what this consumer was given before it died; then what is new
      while (true) {
        var answer = redis.xreadGroup(
            "billing", env.get("INSTANCE"), XReadGroupParams.xReadGroupParams().count(100).block(1000), Map.of(stream, after));
        List<StreamEntry> entries = answer == null || answer.isEmpty() ? List.of() : answer.get(0).getValue();
        if (after != fresh) {
          after = entries.isEmpty() ? fresh : entries.get(entries.size() - 1).getID();
        }
        for (var entry : entries) {
          var fields = entry.getFields();
          if (fields != null && !fields.isEmpty()) { // none: the entry was trimmed away after this consumer was given it
            receive.setString(1, "billing");
            receive.setObject(2, UUID.fromString(fields.get("id")));
            try (var row = receive.executeQuery()) {
              row.next();
              if (row.getBoolean(1)) {
                var payload = fields.get("payload"); // null: a tombstone
                Handle.handle(db, payload == null ? null : payload.getBytes(StandardCharsets.UTF_8));
              }
            }
            db.commit();
          }
          redis.xack(stream, "billing", entry.getID());
        }
      }
    }
    // page end
  }

  private RedisInbox() {}
}
