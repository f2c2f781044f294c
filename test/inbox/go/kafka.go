package main

import (
	"context"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A Kafka consumer that handles each event once: docs/consumers.md.
// page: kafka
func consumeKafka(ctx context.Context, db *pgx.Conn) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Getenv("BROKERS")),
		kgo.ConsumeTopics(os.Getenv("TOPIC")),
		kgo.ConsumerGroup(os.Getenv("GROUP")),
		kgo.InstanceID(os.Getenv("INSTANCE")), // a restart takes its partitions back at once
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks()) // what of it is lost comes again, and is not new then
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			var id string
			for _, header := range record.Headers {
				if header.Key == "id" {
					id = string(header.Value)
				}
			}
			handling, done := context.WithTimeout(ctx, 90*time.Second) // a database that answers nothing any more; handle() takes less
			err := pgx.BeginFunc(handling, db, func(tx pgx.Tx) error {
				var fresh bool
				if err := tx.QueryRow(handling, "SELECT outbox.receive($1, $2)", "billing", id).Scan(&fresh); err != nil || !fresh {
					return err
				}
				return handle(handling, tx, record.Value) // nil: a tombstone
			})
			done()
			if err != nil {
				return err
			}
			client.MarkCommitRecords(record)
		}
	}
}

// page end
