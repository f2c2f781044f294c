# A dump that began before a day of the inbox went, and comes to the day's table afterwards: a table is emptied only when every snapshot sees that its day is not kept any more,
# so the restored database knows each event that it says is kept. Sessions go on meanwhile, doctor() tells who keeps the day there, and it goes when the dump has ended.
# matrix: R95
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node(extension => 0, conf => "shared_preload_libraries = ''\nautovacuum = off\n");
my $database = 'postgres';
sub sql { return $node->safe_psql($database, "SET client_min_messages = error; SET lock_timeout = '10s';\n$_[0]") }
sub doctor { return sql(q{SELECT status || ': ' || detail FROM outbox.doctor() WHERE "check" = 'inbox'}) }
sub marks { return sql(q{SELECT coalesce(sum(rows), 0) FROM outbox.received WHERE consumer = 'c' AND day = (now() AT TIME ZONE 'UTC')::date - 15}) }

sql(q{CREATE EXTENSION outbox;
	CREATE FUNCTION id(days integer, n integer) RETURNS uuid LANGUAGE sql AS $$
	  SELECT (lpad(to_hex((extract(epoch FROM date_trunc('day', now(), 'UTC') + interval '12 hours' - days * interval '1 day') * 1000)::bigint), 12, '0')
	    || '70008' || lpad(n::text, 15, '0'))::uuid $$;
	SELECT outbox.receive('c', id(15, 1));
	UPDATE outbox_internal.inbox_kept SET kept_from = (now() AT TIME ZONE 'UTC')::date - 15});
sql(q{SELECT outbox.receive('c', id(15, 2))});

# As it was just before midnight.
my $dump = $node->background_psql('postgres');
my $snapshot = $dump->query_safe("SET application_name = 'a dump'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_export_snapshot()");
is(sql("SELECT outbox.receive('c', id(0, $_))"), 't', 'consumers go on') foreach 1 .. 3;
is(sql(q{SELECT (now() AT TIME ZONE 'UTC')::date - kept_from FROM outbox_internal.inbox_kept}), 14, 'the day is not kept any more');
is(marks(), 2, 'and its marks are there yet, for the snapshot');
is(sql(q{SELECT outbox.receive('c', id(15, 1))}), 'f', 'so that a repeat is known');
sql(q{UPDATE outbox_internal.inbox_kept SET emptied_to = emptied_to - 1});
like(doctor(), qr/^warning: .*cannot be emptied, it is in use by process \d+ \(a dump\), in a transaction since/, 'doctor() says who keeps it there, where that lasts') or diag(doctor());
sql(q{UPDATE outbox_internal.inbox_kept SET emptied_to = emptied_to + 1});

my $file = $node->data_dir . '/../dump';
$node->command_ok([ 'pg_dump', '-Fc', "--snapshot=$snapshot", '-f', $file, '-d', $node->connstr('postgres') ], 'pg_dump');
$dump->query_safe('COMMIT');
$dump->quit;
is(sql("SELECT outbox.receive('c', id(0, 4))"), 't', 'when the dump has ended');
is(marks(), 0, 'the day is emptied');
$node->command_fails_like([ 'psql', '-XAtc', "SELECT outbox.receive('c', id(15, 1))", '-d', $node->connstr('postgres') ], qr/older than what the inbox remembers/, 'and a repeat refused');

$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('restored'), $file ], 'pg_restore');
$database = 'restored';
is(sql(q{SELECT (now() AT TIME ZONE 'UTC')::date - kept_from FROM outbox_internal.inbox_kept}), 15, 'the restored inbox keeps the day');
is(sql(q{SELECT outbox.receive('c', id(15, 1)), outbox.receive('c', id(15, 2))}), 'f|f', 'and handles nothing of it twice');

done_testing();
