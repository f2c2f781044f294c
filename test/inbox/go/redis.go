package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// A consumer of a Redis stream's group that handles each event once: docs/consumers.md.
// page: redis
func consumeRedis(ctx context.Context, db *pgx.Conn) error {
	options, err := redis.ParseURL(os.Getenv("REDIS"))
	if err != nil {
		return err
	}
	options.MaxRetries = -1 // XREADGROUP sent again would ask for what is next
	client, stream := redis.NewClient(options), os.Getenv("TOPIC")
	err = client.XGroupCreateMkStream(ctx, stream, "billing", "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return err
	}
	after := "0" // first what this consumer was given before it died; then what is new: ">"
	for {
		streams, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: "billing", Consumer: os.Getenv("INSTANCE"), Streams: []string{stream, after}, Count: 100, Block: time.Second,
		}).Result()
		if err != nil && err != redis.Nil {
			return err
		}
		var entries []redis.XMessage
		if len(streams) > 0 {
			entries = streams[0].Messages
		}
		if after != ">" {
			after = ">"
			if len(entries) > 0 {
				after = entries[len(entries)-1].ID
			}
		}
		for _, entry := range entries {
			handling, done := context.WithTimeout(ctx, 90*time.Second) // a database that answers nothing any more; handle() takes less
			err := pgx.BeginFunc(handling, db, func(tx pgx.Tx) error {
				if len(entry.Values) == 0 {
					return nil // the entry was trimmed away after this consumer was given it
				}
				var fresh bool
				if err := tx.QueryRow(handling, "SELECT outbox.receive($1, $2)", "billing", entry.Values["id"]).Scan(&fresh); err != nil || !fresh {
					return err
				}
				var payload []byte // nil: a tombstone
				if text, ok := entry.Values["payload"].(string); ok {
					payload = []byte(text)
				}
				return handle(handling, tx, payload)
			})
			done()
			if err != nil {
				return err
			}
			if err := client.XAck(ctx, stream, "billing", entry.ID).Err(); err != nil {
				return err
			}
		}
	}
}

// page end
