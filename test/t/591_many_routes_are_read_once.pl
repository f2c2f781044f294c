# What forget(), adopt() and redrive() read of routes grows with their number, and not with its square: four times the routes, four times
# the rows.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my ($few, $many) = (50, 200);
# Nothing is sent, so all that is emitted stays undelivered, and nobody else reads.
my $node = new_node(extension => 0, conf => "outbox.enabled = off\noutbox.lone_emit = allow\nmax_locks_per_transaction = 512\nautovacuum = off\n");
sub sql { return $node->safe_psql(@_) }

# The rows of outbox's tables that the statement has read.
sub rows_read
{
	my ($database, $statement) = @_;
	my $counted = q{SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_xact_all_tables WHERE schemaname IN ('outbox', 'outbox_internal')};
	return sql($database, "SET client_min_messages = error; DO \$\$ DECLARE a bigint; b bigint; BEGIN $statement; PERFORM set_config('read.rows', ($counted)::text, false); END \$\$; SELECT current_setting('read.rows')");
}
sub grows_as_routes_do
{
	my ($statement, $name, $more) = @_;
	my ($least, $most) = map { rows_read($_ . ($more // ''), $statement) } qw(few many);
	note("$name: $least rows with $few routes, $most with $many");
	cmp_ok($most, '>=', $many, "$name looks at all routes");
	return cmp_ok($most / $least, '<', 1.5 * $many / $few, "$name reads as many times the rows as there are routes, and not the square of that");
}

foreach my $database (qw(few many))
{
	my $routes = $database eq 'few' ? $few : $many;
	sql('postgres', "CREATE DATABASE $database");
	sql($database, qq{CREATE EXTENSION outbox; CREATE SERVER n FOREIGN DATA WRAPPER outbox_null;
		SELECT count(outbox.create_route('r' || i, server => 'n')) FROM generate_series(1, $routes) i;
		SELECT count(outbox.pause('r' || i, reason => 'so that there are as many of these')) FROM generate_series(1, $routes) i;
		SELECT count(outbox.emit('t', i::text, 'a.b', '{}')) FROM generate_series(1, 5) i});
	$node->command_ok([ 'pg_dump', '-Fc', '-f', $node->basedir . "/$database", '-d', $node->connstr($database) ], "$database is dumped");
}

grows_as_routes_do(q{CALL outbox.forget('t', '1', forgotten => a, kept => b)}, 'a look by forget()');
grows_as_routes_do(q{CALL outbox.forget('t', '1', undelivered => true, dry_run => false, forgotten => a, kept => b)}, 'forget()');
is(sql($_, q{SELECT count(*) FROM outbox_internal.outcome WHERE outcome = 'skipped'}), $_ eq 'few' ? $few : $many, 'each route has given it up') foreach qw(few many);

# A dead letter on each route.
sql($_, q{SET client_min_messages = error; SET outbox.allow_loss = on; INSERT INTO outbox_internal.parked (route_id, lane, created_at, id, aggregate_type, event_type, state, attempts, failed_at, topic, payload,
	error_class, error_code, error_message) SELECT r.id, 0, l.created_at, l.id, l.aggregate_type, l.event_type, 'dead', 1, now(), 't', l.payload, 'message', 'TOO_LARGE', 'too large'
	FROM outbox.route r, outbox_internal.log l WHERE l.aggregate_id = '2'}) foreach qw(few many);
grows_as_routes_do(q{CALL outbox.redrive(dry_run => false, events => a)}, 'redrive()');
is(sql('many', q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'retrying'}), $many, 'all are tried again');

foreach my $database (qw(few many))
{
	sql('postgres', "CREATE DATABASE ${database}_copy TEMPLATE template0");
	$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr("${database}_copy"), $node->basedir . "/$database" ], "$database is restored");
}
grows_as_routes_do('PERFORM outbox.adopt()', 'adopt()', '_copy');
is(sql("${_}_copy", q{SELECT count(*) FROM outbox_internal.log}), 5, 'all of it is in the log') foreach qw(few many);
no_server_crashed($node);
done_testing();
