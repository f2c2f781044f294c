-- What the writers of the chaos ring do. Every event's intent is written in the transaction that emits it, so the two
-- exist together or not at all. The row lock on the key makes n the order of commits.
CREATE SCHEMA chaos;
CREATE TABLE chaos.key (key text PRIMARY KEY, n bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
INSERT INTO chaos.key SELECT 'k' || i FROM generate_series(0, 299) i;
INSERT INTO chaos.key SELECT 'p' || i FROM generate_series(0, 99) i;  -- those of prepared transactions: locked for long
CREATE TABLE chaos.intent (id uuid NOT NULL, key text, n bigint NOT NULL, payload text, topic text NOT NULL);
CREATE SEQUENCE chaos.loose;

-- One event of the key, one way or another; it has an intent.
CREATE FUNCTION chaos.emit_one(k text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  number bigint;
  content text;
  topic text := CASE WHEN random() < 0.2 THEN 'chaos.b' ELSE 'chaos.a' END;
  event uuid;
  way double precision := random();
BEGIN
  IF k IS NULL THEN
    number := nextval('chaos.loose');
  ELSE
    -- Per topic: order is promised on one route and topic.
    UPDATE chaos.key SET n = n + 1 WHERE key = k RETURNING n INTO number;
  END IF;
  content := format('%s %s %s', coalesce(k, '-'), number, repeat(md5(random()::text), (random() ^ 4 * 60)::int));
  IF way < 0.1 AND k IS NOT NULL THEN
    event := outbox.emit_tombstone('chaos', k, 'gone', topic => topic);
    content := NULL;
  ELSIF way < 0.2 THEN
    INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload, topic)
      VALUES ('chaos', k, 'through the view', to_jsonb(content), topic) RETURNING id INTO event;
    content := to_jsonb(content)::text;
  ELSIF way < 0.3 THEN
    event := outbox.emit_bytes('chaos', k, 'bytes', convert_to(content, 'UTF8'), topic => topic);
  ELSE
    event := outbox.emit_text('chaos', k, 'text', content, headers => '{"who": "chaos"}', topic => topic);
  END IF;
  INSERT INTO chaos.intent VALUES (event, k, number, content, topic);
END $$;

-- `events` of one key (NULL: without), some of them in savepoints that stay or roll back.
CREATE FUNCTION chaos.work(k text, events integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1 .. events LOOP
    IF random() < 0.15 THEN
      BEGIN
        PERFORM chaos.emit_one(k);
        RAISE division_by_zero;
      EXCEPTION WHEN division_by_zero THEN NULL;
      END;
    ELSIF random() < 0.15 THEN
      BEGIN
        PERFORM chaos.emit_one(k);
      EXCEPTION WHEN division_by_zero THEN NULL;
      END;
    ELSE
      PERFORM chaos.emit_one(k);
    END IF;
  END LOOP;
END $$;

-- Many events by emit_many, of one key or none.
CREATE FUNCTION chaos.burst(k text, events integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  first bigint;
  ids uuid[];
BEGIN
  IF k IS NULL THEN
    SELECT min(nextval('chaos.loose')) INTO first FROM generate_series(1, events);
  ELSE
    UPDATE chaos.key SET n = n + events WHERE key = k RETURNING n - events + 1 INTO first;
  END IF;
  ids := outbox.emit_many('chaos', CASE WHEN k IS NOT NULL THEN array_fill(k, ARRAY[events]) END, 'many',
    (SELECT array_agg(to_jsonb(format('%s %s', coalesce(k, '-'), i)) ORDER BY i) FROM generate_series(first, first + events - 1) i),
    topic => 'chaos.a');
  INSERT INTO chaos.intent SELECT id, k, first + o - 1, to_jsonb(format('%s %s', coalesce(k, '-'), first + o - 1))::text, 'chaos.a'
    FROM unnest(ids) WITH ORDINALITY u(id, o);
END $$;

-- What the resolver of prepared transactions does with each.
CREATE FUNCTION chaos.verdict(gid text) RETURNS text LANGUAGE sql AS
  $$ SELECT CASE WHEN hashtext(gid) % 3 = 0 THEN 'ROLLBACK' ELSE 'COMMIT' END || format(' PREPARED %L', gid) $$;
