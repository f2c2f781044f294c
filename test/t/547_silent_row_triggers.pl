# Triggers that call emit_row() and do not fire: switched off and forgotten, or ordinary ones on a table, or on partitions, into which a
# subscription brings rows. doctor() tells of each, with what to type, also an operator, and of no other.
# matrix: C13
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "wal_level = logical\nmax_wal_senders = 10\nmax_replication_slots = 10\nmax_worker_processes = 24\nwal_retrieve_retry_interval = 200ms\n");
$node->safe_psql('postgres', 'CREATE DATABASE there; CREATE DATABASE here');
sub there { return $node->safe_psql('there', join '', @_) }
sub here { return $node->safe_psql('here', 'SET outbox.lone_emit = allow;' . join '', @_) }
my $what = q{FROM outbox.doctor() WHERE "check" = 'triggers' AND status <> 'ok'};
sub told { return here(qq{SELECT status || ': ' || detail $what ORDER BY detail}) }
# What it says to type, without what stands in brackets behind it or is said of another wish.
sub obey { here(here(qq{SELECT regexp_replace(hint, ' (\\(Where|Or, where) .*', '') $what})) }
sub emitted { return here(qq{SELECT coalesce(string_agg(event_type || ' ' || aggregate_id, ', ' ORDER BY created_at), '') FROM outbox_internal.log WHERE aggregate_type = '$_[0]'}) }

here(q{CREATE EXTENSION outbox; CREATE ROLE watcher LOGIN; SELECT outbox.grant_operate('watcher')});
my $events = 'AFTER INSERT OR UPDATE OR DELETE';
my $calls = 'FOR EACH ROW EXECUTE FUNCTION outbox.emit_row';

# --- switched off, and forgotten ---
here(qq{
	CREATE SCHEMA "My shop";
	CREATE TABLE "My shop"."Orders" (id int PRIMARY KEY);
	CREATE TRIGGER "00's events" $events ON "My shop"."Orders" $calls('order', 'id');
	CREATE TRIGGER "00_more" $events ON "My shop"."Orders" $calls('more', 'id')});
is(told(), '', 'nothing to tell of triggers that fire');
here(q{ALTER TABLE "My shop"."Orders" DISABLE TRIGGER USER; INSERT INTO "My shop"."Orders" VALUES (1)});
is(emitted('order'), '', 'switched off they emit nothing');
my $off = q{which calls outbox.emit_row(), is switched off: rows that change there emit nothing.};
is(told(), qq{warning: Trigger "00's events" on "My shop"."Orders", $off\nwarning: Trigger "00_more" on "My shop"."Orders", $off}, 'which doctor() says');
is(here('SELECT outbox.doctor_ok()'), 'f', 'and all is not well');
is($node->safe_psql('here', "SELECT hint $what AND detail LIKE '%more%'", extra_params => [ '-U', 'watcher' ]),
	'ALTER TABLE "My shop"."Orders" ENABLE TRIGGER "00_more"; Or, where that is meant: DROP TRIGGER "00_more" ON "My shop"."Orders";', 'an operator is told as well');
obey();
is(told(), '', 'what it says to type mends it');
here(q{INSERT INTO "My shop"."Orders" VALUES (2)});
is(emitted('order'), 'order.created 2', 'they emit');

# --- partitions: told of once, and of the one that is not as the others are ---
here(qq{
	CREATE TABLE parts (id int) PARTITION BY RANGE (id);
	CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
	CREATE TABLE low_1 PARTITION OF low FOR VALUES FROM (0) TO (5);
	CREATE TABLE low_2 PARTITION OF low FOR VALUES FROM (5) TO (10);
	CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20);
	CREATE TRIGGER events $events ON parts $calls('part', 'id');
	ALTER TABLE parts DISABLE TRIGGER events});
is(told(), "warning: Trigger events on public.parts, $off", 'a partitioned table, once');
obey();
here('ALTER TABLE low_2 DISABLE TRIGGER events');
is(told(), "warning: Trigger events on public.low_2, $off", 'one partition');
obey();
here('INSERT INTO parts VALUES (7), (12)');
is(emitted('part'), 'part.created 7, part.created 12', 'mended');
is(told(), '', 'nothing more');

# --- what a subscription brings ---
there(q{
	CREATE SCHEMA "My shop"; CREATE TABLE "My shop"."Orders" (id int PRIMARY KEY);
	CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE parts_all PARTITION OF parts FOR VALUES FROM (0) TO (20);
	CREATE TABLE high (id int PRIMARY KEY);
	CREATE PUBLICATION tables FOR TABLE "My shop"."Orders"; CREATE PUBLICATION leaf FOR TABLE high;
	CREATE PUBLICATION root FOR TABLE parts WITH (publish_via_partition_root = true)});
# The server's own process would wait for itself, if it made the slot.
sub subscribe {
	my ($name) = @_;
	there("SELECT pg_create_logical_replication_slot('$name', 'pgoutput')");
	$node->safe_psql('here', "CREATE SUBSCRIPTION $name CONNECTION " . sql_literal($node->connstr('there')) . " PUBLICATION $name WITH (create_slot = false, copy_data = false)");
	ok($node->poll_query_until('here', "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid WHERE subname = '$name'"),
		"$name is subscribed to");
}
sub arrived { my ($query, $want) = @_; return ok($node->poll_query_until('here', $query, $want), 'the row has come') }
my $brought = q{which calls outbox.emit_row(), does not fire for what a subscription brings: such rows emit nothing.};

subscribe('tables');
is(told(), qq{warning: Trigger "00's events" on "My shop"."Orders", $brought\nwarning: Trigger "00_more" on "My shop"."Orders", $brought}, 'ordinary triggers of a subscribed table');
is($node->safe_psql('here', "SELECT hint $what AND detail LIKE '%more%'", extra_params => [ '-U', 'watcher' ]),
	'ALTER TABLE "My shop"."Orders" ENABLE ALWAYS TRIGGER "00_more"; (Where the server that they come from emits them, leave it as it is.)', 'to an operator as well');
there(q{INSERT INTO "My shop"."Orders" VALUES (3)});
arrived(q{SELECT count(*) FROM "My shop"."Orders" WHERE id = 3}, 1);
is(emitted('order'), 'order.created 2', 'and has emitted nothing');
here(q{ALTER TABLE "My shop"."Orders" DISABLE TRIGGER "00_more"});
like(here("SELECT hint $what AND detail LIKE '%more%'"), qr/^ALTER TABLE "My shop"\."Orders" ENABLE ALWAYS TRIGGER "00_more"; Or, /, 'one that is switched off there has to be ALWAYS');
obey();
is(told(), '', 'what it says to type mends it');
there(q{INSERT INTO "My shop"."Orders" VALUES (4)});
arrived(q{SELECT count(*) FROM "My shop"."Orders" WHERE id = 4}, 1);
is(emitted('order'), 'order.created 2, order.created 4', 'what comes then is emitted');

subscribe('leaf');
is(told(), "warning: Trigger events on public.parts, $brought", 'a partition that is subscribed to: it is the trigger of its parent');
obey();
is(told(), '', 'mended');
there('INSERT INTO high VALUES (13)');
arrived('SELECT count(*) FROM parts WHERE id = 13', 1);
like(emitted('part'), qr/created 13$/, 'emitted');
here('ALTER TABLE parts ENABLE TRIGGER events; ALTER SUBSCRIPTION leaf DISABLE; ALTER SUBSCRIPTION leaf SET (slot_name = NONE); ');
$node->safe_psql('here', 'DROP SUBSCRIPTION leaf');
is(told(), '', 'no subscription, no word');

subscribe('root');
is(told(), "warning: Trigger events on public.parts, $brought", 'the root that is subscribed to: rows come to its partitions');
here('ALTER TABLE parts ENABLE ALWAYS TRIGGER events; ALTER TABLE low_1 ENABLE TRIGGER events');
is(told(), "warning: Trigger events on public.low_1, $brought", 'one of them');
obey();
is(told(), '', 'mended');
there('INSERT INTO parts VALUES (1)');
arrived('SELECT count(*) FROM low_1 WHERE id = 1', 1);
like(emitted('part'), qr/created 1$/, 'emitted');
here('ALTER TABLE parts ENABLE REPLICA TRIGGER events');
is(told(), '', 'REPLICA is right for those as well');

# --- very many ---
here(qq{DO \$\$ BEGIN
	FOR i IN 1 .. 23 LOOP
		EXECUTE format('CREATE TABLE t%s (id int)', i);
		EXECUTE format('CREATE TRIGGER events $events ON t%s $calls(%L, %L)', i, 'many', 'id');
		EXECUTE format('ALTER TABLE t%s DISABLE TRIGGER events', i);
	END LOOP;
END \$\$});
is(here(qq{SELECT count(*), max(detail) FILTER (WHERE detail LIKE 'And%') $what}), '21|And there are 3 more such triggers.', 'a bounded list');
no_server_crashed($node);
done_testing();
