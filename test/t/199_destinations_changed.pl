# What a destination is changes under its name: another address takes effect with the very next event, also where it is
# changed again at once; another kind, too. A route that is dropped and made anew in one transaction is two
# routes until it commits, and that is said.
# matrix: S2
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
my @db = ($redis, bless({ %$redis, db => 3 }, ref $redis));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub has { my ($db, $stream) = @_; return by_key(eval { $db[$db]->column($stream, 'payload') } // [])->{k} // '' }

# The address, of one of two servers; workers have read both before.
redis_route($node, $redis, 'steady', aggregate_types => q('{steady}'), topic => q('steady'));
redis_route($node, $redis, 'moved', aggregate_types => q('{moved}'), topic => q('moved'), server_options => q(, db '0'));
my @expected = ([], []);
foreach my $n (1 .. 20)
{
	my $to = $n % 2;
	sql("ALTER SERVER moved OPTIONS (SET db '" . ($to ? 3 : 0) . "')");
	emit_counted($node, 'moved', ['k'], $n, $n);
	emit_counted($node, 'steady', ['k'], $n, $n);
	push @{ $expected[$to] }, $n;
	ok(wait_idle($node), "event $n is delivered");
}
is(has($_, 'moved'), join(' ', @{ $expected[$_] }), "each event is where its address was, address $_") foreach 0, 1;
is(has(0, 'steady'), join(' ', 1 .. 20), 'the other is where it was');

# The kind, under the same oid of the server.
sql(q{CREATE SERVER kind FOREIGN DATA WRAPPER outbox_null});
sql(q{SELECT outbox.create_route('kind', server => 'kind', aggregate_types => '{kind}', topic => 'kind')});
sub logged { return scalar(() = slurp_file($node->logfile) =~ /outbox event: .*kind/g) }
emit_counted($node, 'kind', ['k'], 1, 1);
ok(wait_idle($node), 'thrown away');
is(logged(), 0, 'nothing is written to the log');
sql(q{SET outbox.allow_loss = on; ALTER FOREIGN DATA WRAPPER outbox_log RENAME TO outbox_log_before});
sql(q{SET outbox.allow_loss = on; ALTER FOREIGN DATA WRAPPER outbox_null RENAME TO outbox_log});
emit_counted($node, 'kind', ['k'], 2, 3);
ok(wait_until(sub { logged() == 2 }, 20), 'another kind takes effect without a word more') || diag(logged());
sql(q{SET outbox.allow_loss = on; ALTER FOREIGN DATA WRAPPER outbox_log RENAME TO outbox_null});
emit_counted($node, 'kind', ['k'], 4, 4);
ok(wait_idle($node), 'thrown away again');
is(logged(), 2, 'and no more is written');

# Dropped and made anew in one transaction.
sub arrived { my ($n) = @_; return ok(wait_until(sub { has(0, 'twice') eq $n }, 20), "arrived: $n") || diag(has(0, 'twice')) }
redis_route($node, $redis, 'twice', aggregate_types => q('{twice}'), topic => q('twice'));
emit_counted($node, 'twice', ['k'], 1, 1);
arrived('1');
my $session = $node->background_psql('postgres', on_error_stop => 1, timeout => 600);
$session->query_safe(q{SET client_min_messages = warning; BEGIN; SELECT outbox.drop_route('twice')});
emit_counted($node, 'twice', ['k'], 2, 2);
arrived('1 2');
$session->{stderr} = '';
$session->query(q{SELECT outbox.create_route('twice', server => 'twice', aggregate_types => '{twice}', topic => 'twice')});
like($session->{stderr}, qr/WARNING:  route "twice" was dropped in this transaction: some events may be sent by both routes, or by neither\n.*is not sent by then is for neither/s, 'that both are there until it commits is said');
emit_counted($node, 'twice', ['k'], 3, 3);
arrived('1 2 3');
$session->{stderr} = '';
$session->query_safe('COMMIT');
emit_counted($node, 'twice', ['k'], 4, 4);
ok(wait_idle($node), 'idle');
is(has(0, 'twice'), '1 2 3 3 4', 'what was emitted in between is sent by both, nothing else twice, and nothing is missing');
# alter_route() is the way.
$session->query_safe(q{BEGIN; SELECT outbox.alter_route('twice', topic => 'twice')});
emit_counted($node, 'twice', ['k'], 5, 5);
arrived('1 2 3 3 4 5');
$session->query_safe('COMMIT');
emit_counted($node, 'twice', ['k'], 6, 6);
ok(wait_idle($node), 'idle');
is(has(0, 'twice'), '1 2 3 3 4 5 6', 'alter_route() repeats nothing');
sql(q{SELECT outbox.pause('twice', reason => 'a change')});
my $since = sql('SELECT clock_timestamp()');
emit_counted($node, 'twice', ['k'], 7, 7);
$session->query_safe(q{BEGIN; SELECT outbox.drop_route('twice')});
emit_counted($node, 'twice', ['k'], 8, 8);
$session->{stderr} = '';
$session->query(qq{SELECT outbox.create_route('twice', server => 'twice', aggregate_types => '{twice}', topic => 'twice', start => '$since')});
unlike($session->{stderr}, qr/WARNING/, 'one that starts before what the old one did not come to is warned of nothing');
$session->query_safe('COMMIT');
ok(wait_idle($node), 'idle');
like(has(0, 'twice'), qr/ 7 8$/, 'and sends that');
# Not said where it is not so.
$session->{stderr} = '';
$session->query_safe(q{SELECT outbox.drop_route('twice')});
$session->query_safe(q{SELECT outbox.create_route('twice', server => 'twice', aggregate_types => '{twice}', topic => 'twice')});
$session->query_safe(q{BEGIN; SAVEPOINT s; SELECT outbox.drop_route('twice'); ROLLBACK TO s; SELECT outbox.create_route('other', server => 'twice'); ROLLBACK});
unlike($session->{stderr} // '', qr/WARNING/, 'nothing is said of a route that was dropped before, or of another one');
$session->quit;
no_server_crashed($node);
done_testing();
