// pgx of the ring of clients: one line of JSON for each case, which test/clients/clients.pl judges.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	customer = `Zoë "Z" O'Neil`
	nobody   = "nobody"
	number   = int64(9007199254740993)
	uuid     = "0190b6f0-0000-7000-8000-000000000001"
	text     = `a key "ü"`
	asSent   = `{"b" :  1, "a":2}`
	lines    = "Größe \"42\"\nsecond line\\"
)

type payload map[string]any

var (
	ctx     = context.Background()
	db      *pgxpool.Pool
	object  = payload{"n": 1, "t": `ü "q" \`}
	headers = map[string]string{"tenant": "acme", "who": "Jürgen"}
	bytes   = []byte{0x00, 0xff, 0x0d, 0x0a, 0x27, 0x5c}
	undo    = errors.New("undo")
)

// page: emit
func placeOrder(ctx context.Context, db *pgxpool.Pool, customer string) (order int64, event string, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "INSERT INTO orders (customer) VALUES ($1) RETURNING id", customer).Scan(&order)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT outbox.emit('order', $1::bigint, 'order.placed', $2)",
			order, map[string]any{"customer": customer}).Scan(&event)
	})
	return
}

// page end

type querier interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}

func emit(to querier, call string, values ...any) (payload, error) {
	var id string
	err := to.QueryRow(ctx, "SELECT outbox."+call, values...).Scan(&id)
	return payload{"id": id}, err
}

func view(to querier, eventType string) (payload, error) {
	var id string
	// page: view
	err := to.QueryRow(ctx, `INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, headers)
		VALUES ($1, $2, $3, $4, $5) RETURNING id`, "order", "7", eventType, object, headers).Scan(&id)
	// page end
	return payload{"id": id}, err
}

func report(name string, what payload) {
	if what == nil {
		what = payload{}
	}
	what["case"] = name
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func test(name string, run func() (payload, error)) {
	what, err := run()
	if err != nil {
		what = payload{"failed": err.Error()}
	}
	report(name, what)
}

func fails(err error) (payload, error) {
	if err == nil {
		return nil, errors.New("it did not fail")
	}
	return nil, nil
}

func refused(name string, err error) {
	var said *pgconn.PgError
	if !errors.As(err, &said) {
		report(name, payload{"failed": fmt.Sprint("it was not refused by the server: ", err)})
		return
	}
	what := payload{"sqlstate": said.Code, "message": said.Message, "hint": nil}
	if said.Hint != "" {
		what["hint"] = said.Hint
	}
	report(name, what)
}

func emits(name, call string, values ...any) {
	test(name, func() (payload, error) { return emit(db, call, values...) })
}

func main() {
	var err error
	if db, err = pgxpool.New(ctx, os.Getenv("DATABASE_URL")); err != nil {
		panic(err)
	}
	test("placed", func() (payload, error) {
		order, event, err := placeOrder(ctx, db, customer)
		return payload{"order": order, "id": event}, err
	})
	test("commit_fails", func() (payload, error) {
		_, _, err := placeOrder(ctx, db, nobody)
		return fails(err)
	})
	test("rolled_back", func() (payload, error) {
		return fails(pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ($1)", customer); err != nil {
				panic(err)
			}
			if _, err := emit(tx, "emit('order', '1', 'rolled.back', $1)", object); err != nil {
				panic(err)
			}
			return undo
		}))
	})
	test("entity", func() (what payload, err error) {
		err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) (err error) {
			what, err = view(tx, "entity")
			return
		})
		return
	})
	test("entity_rolled_back", func() (payload, error) {
		return fails(pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := view(tx, "entity.rolled.back"); err != nil {
				panic(err)
			}
			return undo
		}))
	})
	test("savepoint", func() (payload, error) {
		return nil, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := emit(tx, "emit('order', '1', 'savepoint.outer', $1)", object); err != nil {
				return err
			}
			err := pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
				if _, err := emit(nested, "emit('order', '1', 'savepoint.inner', $1)", object); err != nil {
					panic(err)
				}
				return undo
			})
			if !errors.Is(err, undo) {
				return err
			}
			return nil
		})
	})
	emits("key_number", "emit('order', $1::bigint, 'key.number', $2)", number, object)
	emits("key_uuid", "emit('order', $1::uuid, 'key.uuid', $2)", uuid, object)
	emits("key_text", "emit('order', $1, 'key.text', $2)", text, object)
	emits("key_null", "emit('order', $1, 'key.null', $2)", nil, object)
	emits("as_sent", "emit('order', '1', 'as.sent', $1::json)", asSent)
	emits("text", "emit_text('order', '1', 'text', $1)", lines)
	emits("bytes", "emit_bytes('order', '1', 'bytes', $1)", bytes)
	emits("tombstone", "emit_tombstone($1, $2, $3)", "order", "1", "tombstone")
	emits("nulls", "emit('order', '1', 'nulls', $1, $2, $3, $4)", object, nil, nil, nil)
	emits("all", "emit('order', '1', 'all', $1, $2, $3, $4)", object, headers, "elsewhere", time.Now().Add(-time.Hour))
	test("many", func() (payload, error) {
		var many []payload
		for n := 1; n <= 3; n++ {
			many = append(many, payload{"aggregate_type": "order", "aggregate_id": fmt.Sprint(n), "event_type": "many", "payload": payload{"n": n}})
		}
		// page: many
		_, err := db.Exec(ctx, "SELECT outbox.emit_many($1)", many)
		// page end
		return nil, err
	})
	test("repeated", func() (payload, error) {
		return nil, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			for n := 1; n <= 7; n++ { // one prepared statement: pgx keeps it
				if _, err := emit(tx, "emit('order', $1::bigint, 'repeated', $2)", n, payload{"n": n}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	test("row", func() (payload, error) {
		for _, sql := range []string{"INSERT INTO shipment (state) VALUES ($1)", "UPDATE shipment SET state = $1", "DELETE FROM shipment WHERE state = $1"} {
			state := "lost"
			if strings.HasPrefix(sql, "INSERT") {
				state = "sent"
			}
			if _, err := db.Exec(ctx, sql, state); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	test("sees_own", func() (payload, error) {
		var inside, after int
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := emit(tx, "emit('order', '1', 'unseen', $1)", object); err != nil {
				panic(err)
			}
			if _, err := view(tx, "unseen"); err != nil {
				panic(err)
			}
			if err := tx.QueryRow(ctx, "SELECT count(*) FROM outbox.event").Scan(&inside); err != nil {
				panic(err)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			return nil, err
		}
		err = db.QueryRow(ctx, "SELECT count(*) FROM outbox.event").Scan(&after)
		return payload{"counts": []int{inside, after}}, err
	})
	_, err = emit(db, "emit('order', '1', 'refused', $1)", nil)
	refused("refused_null", err)
	_, err = emit(db, "emit('order', '1', 'refused', to_jsonb($1::text))", `{"n": 1}`)
	refused("refused_twice", err)
	_, err = db.Exec(ctx, "UPDATE outbox.event SET event_type = 'x'")
	refused("refused_update", err)
	emits("goes_on", "emit('order', '1', 'goes.on', $1)", object)
	// An untyped key is described as text: a number needs the cast.
	test("trap_number_without_cast", func() (payload, error) {
		_, err := emit(db, "emit('order', $1, 'refused', $2)", number, object)
		return fails(err)
	})
}
