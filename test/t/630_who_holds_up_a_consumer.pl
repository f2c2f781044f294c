# A consumer that is gone without a word between receive() and COMMIT leaves a session that lies idle in its transaction, and its successors
# wait there in receive(). doctor() says who waits, and since when, for whom, and what ends it; so it does of a prepared transaction. Not of those who wait
# for a moment, and not of a row of a table of somebody's own.
use strict;
use warnings;

use Outbox::Clock;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $clock = PostgreSQL::Test::Utils::tempdir();
Outbox::Clock::prepare($clock);
my $node = Outbox::Clock::with(sub { new_node() });
sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql) }
sub doctor { my ($column) = @_; return sql(qq{SELECT string_agg($column, E'\n' ORDER BY 1) FROM outbox.doctor() WHERE "check" = 'inbox'}) }
# A session that begins to wait, and its process.
sub waits
{
	my ($name, $call) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0, timeout => 600);
	my $pid = $session->query_safe("SET application_name = '$name'; SELECT pg_backend_pid()");
	$session->{stdin} .= "$call;\n";
	$session->{run}->pump_nb;
	ok(wait_for_value($node, "SELECT count(*) FROM pg_locks WHERE pid = $pid AND NOT granted AND waitstart IS NOT NULL", '1', 60), "$name waits");
	return ($session, $pid);
}

sql(q{CREATE ROLE "the app" LOGIN SUPERUSER; CREATE TABLE own (id integer PRIMARY KEY, n integer); INSERT INTO own VALUES (1, 1), (2, 2);
	SELECT outbox.receive('c', 's', 'k', 1763800000000000), outbox.receive('c', gen_random_uuid())});
my $dated = sql(q{SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000000000000001')::uuid});
my $second = 0;
foreach my $case (
	[ 'a dated id', "outbox.receive('c', '$dated')" ],
	[ 'an id without a time', q{outbox.receive('c', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')} ],
	[ 'a batch', qq{(SELECT count(*) FROM outbox.receive_many('b', '{$dated}'))} ],
	[ 'the newest of a key', q{outbox.receive('c', 's', 'k', 1763800000000001)} ],
	[ 'a stream', q{outbox.receive_next('c', 'o/0', 1)} ])
{
	my ($what, $call) = @$case;
	my $gone = $node->background_psql('postgres', extra_params => [ '-U', 'the app' ], timeout => 600);
	my $holder = $gone->query_safe("SET application_name = 'gone'; SELECT pg_backend_pid()");
	$gone->query_safe("BEGIN; SELECT $call");
	my ($next, $waiter) = waits('next', "SELECT $call");
	like(doctor('detail'), qr/^Consumers receive here/, "$what: nothing is said of a moment");
	Outbox::Clock::set($second += 40);
	like(doctor('status || $$: $$ || detail'), qr/^warning: Process $waiter \(next\) receives as a consumer, and has waited since \S+ \S+ UTC for process $holder \(gone, idle in transaction\), which has marked .* in a transaction since \S+ \S+ UTC\.$/,
		"$what: after forty seconds it is");
	my $hint = doctor('hint');
	like($hint, qr/SELECT pg_terminate_backend\($holder\).*ALTER ROLE "the app" SET idle_in_transaction_session_timeout/, "$what: with what ends it, and the next one");
	sql("$1;") if $hint =~ /(SELECT pg_terminate_backend\(\d+\))/;
	ok(wait_for_value($node, "SELECT state FROM pg_stat_activity WHERE pid = $waiter", 'idle', 30), "$what: who waited goes on");
	like(doctor('detail'), qr/^Consumers receive here/, "$what: and all is well");
	eval { $gone->quit };
	$next->quit;
}

# Several for one; a prepared transaction, which has no process.
sql(q{BEGIN; SELECT outbox.receive('p', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'); PREPARE TRANSACTION 'it''s'});
my @sessions = map { (waits("w$_", q{SELECT outbox.receive('p', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12')}))[0] } 1 .. 3;
Outbox::Clock::set($second += 40);
like(doctor('detail || $$ $$ || hint'), qr/^Process \d+ \(w1\) receives as a consumer, and has waited since \S+ \S+ UTC for a prepared transaction, which has marked .* 2 more wait for it\. ROLLBACK PREPARED 'it''s'/, 'a prepared transaction, for which three wait');
sql(q{ROLLBACK PREPARED 'it''s'});
ok(wait_for_value($node, q{SELECT count(*) FROM pg_locks WHERE NOT granted}, '0', 30), 'rolled back: nobody waits');
$_->quit foreach @sessions;

# What a consumer's own work waits for is no matter of the inbox.
my $owner = $node->background_psql('postgres', timeout => 600);
$owner->query_safe(q{BEGIN; SELECT outbox.receive('o', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13'); UPDATE own SET n = n WHERE id = 1});
my ($own) = waits('own', q{BEGIN; SELECT outbox.receive('o', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a14'); UPDATE own SET n = n WHERE id = 1});
my ($none) = waits('none', q{UPDATE own SET n = n WHERE id = 1});
Outbox::Clock::set($second += 40);
like(doctor('detail'), qr/^Consumers receive here/, "a row of one's own is not told of");
$owner->query_safe('COMMIT');
$_->quit foreach $owner, $own, $none;
Outbox::Clock::set(0);
no_server_crashed($node);
done_testing();
