# Kafka will never accept single events, under both policies: order per key, neighbours untouched, what people see, and
# what they can do: retry, edit and retry, skip, redrive. All of it behind topics whose limit is smaller than a batch.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

Outbox::Kafka::skip_without();
my $node = new_node();
my $kafka = Outbox::Kafka->start;
$kafka->create_topic($_, 1, 'max.message.bytes=3000') foreach 'skip', 'block';
kafka_route($node, $kafka, 'skip', aggregate_types => q('{skip}'), topic => q('skip'));
$node->safe_psql('postgres', q{SELECT outbox.create_route('block', server => 'skip', aggregate_types => '{block}', topic => 'block', on_failure => 'block')});

sub arrived { my ($topic) = @_; return by_key([ map { $_->{payload} } @{ $kafka->records($topic) } ]) }
sub numbers { my ($from, $to) = @_; return join ' ', $from .. $to }
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

my %refused;
foreach my $route ('skip', 'block')
{
	emit_counted($node, $route, [qw(a b c)], 1, 20);
	$refused{$route} = emit_huge($node, $route, 'a', 8000);
	emit_counted($node, $route, [qw(a b c)], 21, 40);
}
ok(wait_for_value($node, q{SELECT string_agg(r.name || ' ' || p.state || ' ' || p.n, ', ' ORDER BY r.name, p.state)
	FROM (SELECT route_id, state, count(*) AS n FROM outbox_internal.parked GROUP BY 1, 2) p JOIN outbox.route r ON r.id = p.route_id},
	'block blocked 20, block dead 1, skip dead 1', 60), 'one dead letter each; under block its key waits');
ok(wait_until(sub { $kafka->count('skip') == 120 && $kafka->count('block') == 100 }, 30), 'everything else is delivered');
is_deeply(arrived('skip'), { map { $_ => numbers(1, 40) } qw(a b c) }, 'skip: the key went on, its neighbours too, in order, nothing twice');
is_deeply(arrived('block'), { a => numbers(1, 20), map { $_ => numbers(1, 40) } qw(b c) }, 'block: only its key waits');

# What people see.
is(sql(q{SELECT route, aggregate_id, event_type, topic, attempts, error_class, payload_bytes FROM outbox.dead_letter ORDER BY route}),
	"block|a|huge|block|1|message|8000\nskip|a|huge|skip|1|message|8000", 'outbox.dead_letter: dead at once, with one attempt');
is(sql(q{SELECT route, topic, error_class, count FROM outbox.dead_letter_summary ORDER BY route}),
	"block|block|message|1\nskip|skip|message|1", 'outbox.dead_letter_summary');
is(sql(q{SELECT route, aggregate_id, waiting, behind, behind_state FROM outbox.blocked_key}), "block|a|20|$refused{block}|dead", 'outbox.blocked_key');
is(sql("SELECT state, attempts, error_class FROM outbox.status('$refused{block}')"), 'dead|1|message', 'outbox.status of the dead letter');
is(sql(q{SELECT DISTINCT s.state FROM outbox_internal.parked p, outbox.status(p.id) s WHERE p.state = 'blocked'}), 'blocked', 'and of those behind it');

# Blocked survives a restart, and later events of the key join the queue.
$node->restart;
emit_counted($node, 'block', [qw(a b)], 41, 45);
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked WHERE state = 'blocked'}, '25', 30), 'later events of the key wait too, also after a restart');
ok(wait_until(sub { $kafka->count('block') == 105 }, 30), 'those of another key do not');

# With a larger limit the same event goes, and then those behind it.
$kafka->alter_topic('block', 'max.message.bytes=100000');
is(sql("SELECT outbox.retry('$refused{block}', reason => 'limit raised')"), '1', 'retry()');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = 'block'}, '0', 60), 'the queue drains');
my @key_a = map { $_->{payload} =~ / huge$/ ? 'huge' : $_->{payload} =~ s/^a //r } grep { $_->{key} eq 'a' } @{ $kafka->records('block') };
is_deeply(\@key_a, [ 1 .. 20, 'huge', 21 .. 45 ], 'in the order of emission, each once');
like(sql("SELECT state || ' ' || coalesce(place, '') FROM outbox.status('$refused{block}')"), qr/^delivered \D*0\D+\d+/, 'outbox.status knows the place');

# Given up by a person: the key goes on without it.
my $hopeless = emit_huge($node, 'block', 'a', 200_000);
emit_counted($node, 'block', ['a'], 46, 50);
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.blocked_key WHERE waiting = 5}, '1', 60), 'blocked once more');
is(sql("SELECT outbox.skip('$hopeless', 'nobody needs it')"), '1', 'skip()');
ok(wait_until(sub { (arrived('block')->{a} // '') eq numbers(1, 50) }, 30), 'those behind it go, in order');
is(sql("SELECT state FROM outbox.status('$hopeless')"), 'skipped', 'outbox.status says skipped');

# Edited: what does not fit is replaced by what does.
is(sql("SELECT outbox.retry('$refused{skip}', payload => '{\"see\": \"elsewhere\"}', reason => 'cut')"), '1', 'edit and retry');
ok(wait_until(sub { (arrived('skip')->{other} // '') eq '{"see": "elsewhere"}' }, 30), 'the new payload arrives');
my ($edited) = grep { $_->{payload} =~ /elsewhere/ } @{ $kafka->records('skip') };
is("$edited->{key} $edited->{headers}{id}", "a $refused{skip}", 'under the same key and event id');

# Many at once.
emit_huge($node, 'skip', "key$_", 6000) foreach 1 .. 12;
ok(wait_for_value($node, 'SELECT count(*) FROM outbox.dead_letter', '12', 25), 'twelve dead letters, without waiting longer for each');
is(sql(q{CALL outbox.redrive(route => 'skip', dry_run => true)}), '12', 'redrive(): a dry run counts');
is(sql(q{SELECT count(*) FROM outbox.dead_letter}), '12', 'and does nothing');
$kafka->alter_topic('skip', 'max.message.bytes=100000');
is(sql(q{CALL outbox.redrive(route => 'skip', aggregate_id => 'key1', batch => 5, reason => 'limit raised', dry_run => false)}), '1', 'redrive() by key');
is(sql(q{CALL outbox.redrive(route => 'skip', error => 'message', batch => 5, reason => 'limit raised', dry_run => false)}), '11', 'redrive() by class of error');
ok(wait_idle($node, 60), 'idle');
is(sql(q{SELECT count(*) FROM outbox_internal.parked}), '0', 'nothing is parked any more');
is(scalar(grep { $_->{payload} =~ / huge$/ } @{ $kafka->records('skip') }), 12, 'each of them arrived once');

is(sql(q{SELECT string_agg(action || ':' || coalesce(reason, ''), ', ' ORDER BY at) FROM outbox.audit WHERE event_id IS NOT NULL}),
	'retry:limit raised, skip:nobody needs it, retry:cut', 'what was done to single events is in outbox.audit');
is(sql(q{SELECT count(*) > 0 AND bool_and(reason = 'limit raised' AND who = current_user) FROM outbox.audit WHERE action = 'redrive' AND NOT coalesce((detail->>'dry_run')::boolean, false)}), 't', 'and redrives');
no_server_crashed($node);
done_testing();
