# ALTER EXTENSION outbox UPDATE from 0.1 beside sessions that use the extension, in whatever order they take its relations: it
# waits for them, none of them fails and neither does it; and it keeps to lock_timeout.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(extension => 0, conf => stage_with('outbox--0.1.sql') . "\nmax_prepared_transactions = 2\n");
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub version_now { return sql(q{SELECT extversion FROM pg_extension WHERE extname = 'outbox'}) }
sub fresh { sql(q{SET outbox.allow_loss = on; DROP EXTENSION IF EXISTS outbox CASCADE; CREATE EXTENSION outbox VERSION '0.1'}); return }

my $emits = q{SELECT outbox.emit('order', 1, 'created', '{}')};
my $inserts = q{INSERT INTO outbox.event (aggregate_type, aggregate_id, event_type, payload) VALUES ('order', '1', 'created', '{}')};

# --- one session that uses one thing before the update and another beside it ---
my $all = 'SELECT count(*) FROM outbox.';
foreach my $case (
	[ 'the view, then emit()', "${all}event", $emits ],
	[ 'emit(), then the view', $emits, $inserts ],
	[ 'emit(), then a view of the monitoring', $emits, "${all}dead_letter" ],
	[ 'a view of the monitoring, then emit()', "${all}blocked_key", $emits ],
	[ 'routes, then emit() and the view', "${all}route", "$emits; $inserts" ],
	[ 'the clock, then the view', 'SELECT last_value FROM outbox.clock_ceiling', $inserts ])
{
	my ($what, $first, $then) = @$case;
	fresh();
	my $application = $node->background_psql('postgres', on_error_stop => 0, timeout => 60);
	$application->query("BEGIN; $first");
	my $update = $node->background_psql('postgres', on_error_stop => 0, timeout => 60);
	my $pid = $update->query('SELECT pg_backend_pid()');
	$update->query_until(qr/begins/, "\\echo begins\nALTER EXTENSION outbox UPDATE;\n");
	ok(wait_until(sub { sql("SELECT count(*) FROM pg_locks WHERE pid = $pid AND NOT granted") eq '1' }, 30), "$what: the update waits");
	$application->query($then);
	is($application->{stderr}, '', "$what: the session goes on");
	is(version_now(), '0.1', "$what: and the update waits until it ends");
	$application->query('COMMIT');
	$update->query('SELECT 1');
	is($update->{stderr}, '', "$what: then it is done");
	is(version_now(), '0.2', "$what: as it says");
	$_->quit foreach $application, $update;
}

# --- many short ones ---
fresh();
my @scripts;
foreach my $script ([ 'emit', "$emits;" ], [ 'view', "$inserts;" ], [ 'both', "BEGIN; $emits; $inserts; ${all}dead_letter; COMMIT;" ], [ 'turned', "BEGIN; ${all}event; $emits; COMMIT;" ])
{
	my $file = $node->basedir . "/$script->[0].sql";
	append_to_file($file, $script->[1] =~ s/; /;\n/gr . "\n");
	push @scripts, '-f', $file;
}
my ($out, $err) = ('', '');
my $load = IPC::Run::start([ 'pgbench', '-n', '-c', '4', '-T', '4', @scripts, $node->connstr('postgres') ], '>', \$out, '2>', \$err);
ok(wait_until(sub { sql(q{SELECT count(*) > 20 FROM outbox.log}) eq 't' }, 30), 'there is load');
is(($node->psql('postgres', 'ALTER EXTENSION outbox UPDATE'))[2], '', 'the update gets through between short transactions');
$load->finish;
unlike($err, qr/ERROR/, 'and none of them fails');
like($out, qr/number of failed transactions: 0 /, 'not one');

# --- lock_timeout ---
fresh();
sql("BEGIN; $emits; PREPARE TRANSACTION 'open'");
like(($node->psql('postgres', q{SET lock_timeout = '700ms'; ALTER EXTENSION outbox UPDATE}))[2], qr/ERROR:  canceling statement due to lock timeout/, 'it gives up after lock_timeout');
is(version_now(), '0.1', 'nothing has changed');
sql($emits);
sql(q{COMMIT PREPARED 'open'});
is(sql(q{SET lock_timeout = '7s'; BEGIN; ALTER EXTENSION outbox UPDATE; SHOW lock_timeout; COMMIT}), '7s', 'which is the same behind it');
no_server_crashed($node);
done_testing();
