# matrix: E-5
# What was delivered from outbox_internal.parked (delayed, resumed, replayed; five thousand of them, sent together) and is lost by
# its Redis is sent again, each event once, in order per key: also where nothing else was lost, twice in a row, after the
# number of lanes changed. What is there is not sent again, nor what was only trimmed; what cannot be sent is said.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my %redis;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }

sub start
{
	my ($name, @more) = @_;
	$redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis{$name}, $name, aggregate_types => "'{$name}'", topic => "'t'", @more);
	return $redis{$name};
}
sub entries { my ($name) = @_; return [ map { $_->{payload} } @{ $redis{$name}->entries('t') } ] }
sub emit
{
	my ($name, $from, $to, %more) = @_;
	my $due = $more{due} ? ", deliver_at => clock_timestamp() + interval '$more{due} s'" : '';
	my $key = $more{keys} ? "(i % $more{keys})::text" : q('k');
	sql("SELECT count(outbox.emit_text('$name', $key, 'x', $key || ' ' || i$due)) FROM generate_series($from, $to) i");
	return;
}
sub ids { my ($name, $from, $to) = @_; return sql("SELECT array_agg(id ORDER BY created_at) FROM outbox_internal.log WHERE aggregate_type = '$name'
	AND split_part(convert_from(payload, 'UTF8'), ' ', 2)::int BETWEEN $from AND $to") }
# All have arrived, and the tables say so.
sub arrived
{
	my ($name, $count, $what) = @_;
	my $ok = wait_until(sub { $redis{$name}->xlen('t') >= $count
		&& sql("SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = '$name'") eq '0'
		&& sql("SELECT coalesce(sum(inflight), 0) FROM outbox.lag WHERE route = '$name'") eq '0' }, 30);
	return ok($ok, "$name: $what") || diag($redis{$name}->xlen('t'));
}
sub said { my ($name, $action) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action = '$action' AND route = '$name'") }
sub lose { my ($name) = @_; $redis{$name}->kill9; $redis{$name}->restart; return }
# What is scheduled for later is due.
sub due
{
	sql(q{SET outbox.allow_loss = on; UPDATE outbox_internal.parked SET due_at = clock_timestamp() WHERE state = 'scheduled'});
	# And the workers know, if none has looked by itself meanwhile: then the event is in its hand, which retry() refuses.
	$node->psql('postgres', q{SELECT outbox.retry(id) FROM outbox_internal.parked WHERE state = 'scheduled' LIMIT 1});
	return;
}
sub there { my ($name) = @_; return by_key(entries($name))->{k} // '' }

start($_) foreach qw(delayed resumed replayed mixed twice);
start('many', lanes => 3);
start('lanes', lanes => 2);
start('warned', server_options => q(, on_lost_writes 'warn'));
start('trimmed');
start('kept');
my @all = sort keys %redis;
emit($_, 1, 3) foreach @all;
arrived($_, 3, 'the first events arrive') foreach @all;

# Only what comes from outbox_internal.parked is lost: all that came by the log is in the dump.
emit($_, 4, 8, due => 3600) foreach qw(delayed twice lanes warned trimmed kept);
sql(q{SELECT count(outbox.emit_text('many', (i % 50)::text, 'x', (i % 50) || ' ' || i, deliver_at => clock_timestamp() + interval '1 h')) FROM generate_series(1, 5000) i});
sql(q{SELECT outbox.pause('resumed', aggregate_type => 'resumed', aggregate_id => 'k', reason => 'a test')});
sql(q{SELECT outbox.pause('mixed', aggregate_type => 'mixed', aggregate_id => 'k', reason => 'a test')});
emit($_, 4, 8) foreach qw(resumed mixed);
ok(wait_for_value($node, q{SELECT count(*) FROM outbox_internal.parked}, 5040, 30), 'all wait');
$redis{$_}->command('SAVE') foreach @all;
due();
sql(qq{SELECT outbox.resume('$_', aggregate_type => '$_', aggregate_id => 'k')}) foreach qw(resumed mixed);
sql(sprintf q{CALL outbox.replay(ids => '%s', route => 'replayed', dry_run => false)}, ids('replayed', 2, 3));
arrived($_, 8, 'what waited arrives') foreach qw(delayed resumed mixed twice lanes warned trimmed kept);
arrived('replayed', 5, 'again');
arrived('many', 5003, 'five thousand');
cmp_ok(sql(q{SELECT count(*) FROM outbox_internal.outcome WHERE place IS NULL}), '>', 1000, 'of many no place of their own is known');

# In `mixed` the lane has delivered since, too.
emit('mixed', 9, 12);
arrived('mixed', 12, 'later ones by the log');
# `lanes` has others by now. `trimmed` keeps all, and was trimmed; `kept` keeps all.
sql(q{SELECT outbox.alter_route('lanes', lanes => 5)});
ok(wait_for_value($node, q{SELECT lanes FROM outbox.route WHERE name = 'lanes'}, 5, 30), 'another number of lanes');
$redis{$_}->command('SAVE') foreach qw(trimmed kept);
$redis{trimmed}->command('XTRIM', 't', 'MAXLEN', 2);
$redis{trimmed}->command('SAVE');
lose($_) foreach @all;

my $numbers = join ' ', 1 .. 8;
arrived($_, 8, 'what is lost comes again') foreach qw(delayed resumed twice lanes);
is(there($_), $numbers, "$_: each once, in order") foreach qw(delayed resumed twice lanes);
arrived('mixed', 12, 'what is lost comes again');
is(there('mixed'), join(' ', 1 .. 12), 'mixed: what came from both comes in order, each once');
arrived('replayed', 5, 'what was replayed comes again');
is(there('replayed'), '1 2 3 2 3', 'replayed: the copies, each once');
is(scalar(grep { defined $_->{'h:outbox-replay'} } @{ $redis{replayed}->entries('t') }), 2, 'and they say that they are copies');
arrived('many', 5003, 'five thousand come again');
my $many = by_key(entries('many'));
my %wrong;
foreach my $key (0 .. 49)
{
	my $want = join ' ', grep { $_ % 50 == $key } 1 .. 5000;
	$wrong{$key} = $many->{$key} // '' if ($many->{$key} // '') ne $want;
}
is_deeply(\%wrong, {}, 'each once, in order per key');
is(said($_, 'rewind') > 0, 1, "$_: the audit says so") foreach qw(delayed resumed replayed mixed many lanes);
is(sql(q{SELECT max((detail ->> 'parked_events')::int) FROM outbox.audit WHERE route = 'delayed' AND action = 'rewind'}), 5, 'with how many there were');
like(slurp_file($node->logfile), qr/destination "delayed": the Redis server has lost .*5 events that were delivered from outbox_internal.parked/, 'the server log too');
my $id = sql(q{SELECT id FROM outbox_internal.log WHERE aggregate_type = 'delayed' AND convert_from(payload, 'UTF8') = 'k 5'});
is(sql("SELECT s.state, s.delivered_at > (SELECT max(at) FROM outbox.audit WHERE route = 'delayed' AND action = 'rewind') FROM outbox.status('$id') s"), 'delivered|t',
	'status() tells when it was delivered again');

ok(wait_for_value($node, q{SELECT count(*) FROM outbox.audit WHERE route = 'warned' AND action = 'lost writes'}, 1, 30), 'with warn it is said');
is(there('warned'), '1 2 3', 'and not sent');
is($redis{trimmed}->xlen('t'), 2, 'what was trimmed is not lost');
is(there('kept'), $numbers, 'what is there is not sent again');
is(said($_, 'rewind') + said($_, 'lost writes'), 0, "$_: nothing is said") foreach qw(trimmed kept);

# Twice: what was put back is lost again; and a third time, when the table has it no more.
lose('twice');
arrived('twice', 8, 'lost again, sent again');
is(there('twice'), $numbers, 'each once');
# Once more nothing: an event that is known to be there is not looked for again.
$redis{delayed}->command('SAVE');
lose('delayed');
emit('delayed', 9, 9);
arrived('delayed', 9, 'a restart that loses nothing');
is(there('delayed'), join(' ', 1 .. 9), 'repeats nothing');

# A day of the log that is no more: what was in it is said to be missing.
emit('kept', 9, 10, due => 1);
arrived('kept', 10, 'two more');
sql(q{SET outbox.allow_loss = on; DELETE FROM outbox_internal.log WHERE aggregate_type = 'kept' AND convert_from(payload, 'UTF8') IN ('k 9', 'k 10')});
lose('kept');
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.audit WHERE route = 'kept' AND action = 'lost writes' AND (detail ->> 'parked_events_missing')::int = 2}, 1, 30),
	'what the log has no more is said');
emit('kept', 11, 11);
arrived('kept', 9, 'and all else goes on');
is(there('kept'), '1 2 3 4 5 6 7 8 11', 'in order');
no_server_crashed($node);
done_testing();
