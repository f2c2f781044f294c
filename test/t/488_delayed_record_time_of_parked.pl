# The record of a delayed event has the time when it was due wherever it waited: dead and redriven, behind others of its key, read when it
# was due long since, in a topic in trouble, in a dump that is restored and adopted. One that goes before its time has that of its going.
use strict;
use warnings;

use Outbox::Kafka;
use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();

my $kafka = Outbox::Kafka->start;
my $node = new_node();
sub sql { my ($query, $database) = @_; return $node->safe_psql($database // 'postgres', $query) }
sql(qq{CREATE SERVER k FOREIGN DATA WRAPPER outbox_kafka OPTIONS ("bootstrap.servers" '$kafka->{bootstrap}')});
$kafka->create_topic('small', 1, 'max.message.bytes=3000');
$kafka->create_topic('early', 1);
sql(q{SELECT outbox.create_route('r', server => 'k', topic => '{aggregate_type}', on_failure => 'block')});

# Payloads begin with a name.
sub emit { my ($type, $payload, $delay) = @_; return sql("SELECT outbox.emit_text('$type', 'k', 'e', $payload, deliver_at => now() + interval '$delay')") }
sub parked { my ($name) = @_; return "SELECT state FROM outbox_internal.parked WHERE convert_from(payload, 'UTF8') LIKE '$name%'" }
# NAME => which times its records have.
sub record_times
{
	my ($topic) = @_;
	my %times;
	foreach my $record (@{ $kafka->records($topic) })
	{
		my ($due) = sql("SELECT (extract(epoch FROM deliver_at) * 1000000)::bigint FROM outbox_internal.log WHERE id = '$record->{headers}{id}'");
		my $time = $record->{ts} == int($due / 1000) ? 'due' : $record->{ts} == int($record->{headers}{created_at} / 1000) ? 'created' : $record->{ts};
		push @{ $times{ $record->{payload} =~ s/ .*//r } }, $time;
	}
	return { map { $_ => join ' ', @{ $times{$_} } } keys %times };
}

emit('small', q{'refused ' || (SELECT string_agg(sha256(i::text::bytea)::text, '') FROM generate_series(1, 500) i)}, '1 s');
ok(wait_for_value($node, parked('refused'), 'dead', 60), 'one is refused when it is due');
emit('small', q{'behind'}, '1 s');
ok(wait_for_value($node, parked('behind'), 'blocked', 60), 'the next of its key falls due and waits behind it');
sql(q{SELECT outbox.pause('r', topic => 'small', reason => 'a deployment')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.side_topic WHERE topic = 'small'}, '1', 60), 'paused');
emit('small', q{'late'}, '1 s');
ok(wait_for_value($node, q{SELECT max(deliver_at) < now() - interval '1 s' FROM outbox_internal.log WHERE payload = 'late'}, 't', 60), 'a third falls due in a pause');
sql(q{SELECT outbox.resume('r', topic => 'small')});
ok(wait_for_value($node, parked('late'), 'blocked', 60), 'and waits as soon as it is read');

emit('missing', q{'troubled'}, '1 s');
ok(wait_for_value($node, q{SELECT error_class FROM outbox_internal.parked WHERE payload = 'troubled'}, 'topic', 60), 'one meets a topic that is not there');
$kafka->create_topic('missing', 1);
ok(wait_until(sub { $kafka->count('missing') == 1 }, 90), 'it goes when it is');
is_deeply(record_times('missing'), { troubled => 'due' }, 'with the time when it was due');

my $early = emit('early', q{'early'}, '5 minutes');
ok(wait_for_value($node, parked('early'), 'scheduled', 60), 'one waits for its time');
my $let_go = sql(q{SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint});
sql("SELECT outbox.retry('$early')");
ok(wait_until(sub { $kafka->count('early') == 1 }, 60), 'retry() has it go');
my ($went) = map { $_->{ts} } @{ $kafka->records('early') };
cmp_ok($went, '>=', $let_go - 1, 'it has no earlier time than that');
cmp_ok($went, '<=', sql(q{SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint}), 'and none that is to come');

# A dump has it all.
sql('ALTER SYSTEM SET outbox.enabled = off');
$node->reload;
ok(wait_for_value($node, q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'outbox relay'}, '0', 60), 'the workers leave');
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'a dump');
sql('CREATE DATABASE copy TEMPLATE template0', 'template1');
$node->command_ok([ 'pg_restore', '--exit-on-error', '-d', $node->connstr('copy'), $dump ], 'is restored');

# What is let go has waited since it was due, and says so.
is(sql(q{SELECT outbox.skip(id, reason => 'too large') FROM outbox.dead_letter}), '1', 'what was refused is skipped');
is(sql(q{SELECT l.payload, d.turn_since = l.deliver_at FROM outbox_internal.due_keyed d JOIN outbox_internal.log l USING (created_at) ORDER BY l.created_at}),
	"\\x626568696e64|t\n\\x6c617465|t", 'those behind it are let go, and have waited since they were due');
$kafka->alter_topic('small', 'max.message.bytes=1000000');
sql('ALTER SYSTEM RESET outbox.enabled');
$node->reload;
ok(wait_until(sub { $kafka->count('small') == 2 }, 60), 'they go');
is_deeply(record_times('small'), { behind => 'due', late => 'due' }, 'with the times when they were due');
sql('SELECT outbox.adopt()', 'copy');
sql(q{CALL outbox.redrive(route => 'r', dry_run => false)}, 'copy');
ok(wait_until(sub { $kafka->count('small') == 5 }, 60), 'in a copy that is adopted all three go when the first is redriven');
is_deeply(record_times('small'), { refused => 'due', behind => 'due due', late => 'due due' }, 'with the times when they were due');

no_server_crashed($node);
$node->stop;
done_testing();
