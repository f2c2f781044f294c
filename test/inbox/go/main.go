// The consumers of docs/consumers.md in Go: `consumer kafka`, `consumer redis`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// What the consumer does about an event: it is in the transaction, and no unique key protects it.
func handle(ctx context.Context, tx pgx.Tx, payload []byte) error {
	if payload == nil { // a tombstone
		return nil
	}
	var event struct{ N int }
	if err := json.Unmarshal(payload, &event); err != nil {
		return err
	}
	if os.Remove(os.Getenv("FAILS")) == nil { // made by the test: then this event fails, once
		return errors.New("as the test asks")
	}
	_, err := tx.Exec(ctx, "INSERT INTO ledger (n) VALUES ($1)", event.N)
	return err
}

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err == nil {
		if os.Args[1] == "kafka" {
			err = consumeKafka(ctx, db)
		} else {
			err = consumeRedis(ctx, db)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
