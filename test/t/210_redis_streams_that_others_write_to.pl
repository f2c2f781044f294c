# matrix: E-5 E-11
# A Redis comes back without what it had, and somebody else writes to our streams before we look: what we lost is noticed
# all the same, in the stream that they write to and in others. What was trimmed, deleted, or is there, is not sent again.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my @streams = qw(shared own trimmed consumed);
my %redis;
sub rewinds { my ($name) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action = 'rewind' AND route LIKE '$name%'") }
# Lane by lane, so that each stream has rows of progress of its own.
sub start
{
	my ($name, @conf) = @_;
	my $redis = $redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""', @conf ]);
	sql("CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
	sql("SELECT outbox.create_route('$name $_', server => '$name', aggregate_types => '{$name.$_}', topic => '$_')") foreach @streams;
	emit($name, 1, 10);
	return $redis;
}
sub emit { my ($name, $from, $to) = @_; emit_counted($node, "$name.$_", ['k'], $from, $to) foreach @streams; return }
sub arrived { my ($redis, $stream) = @_; return by_key([ grep { defined } map { $_->{payload} } @{ $redis->entries($stream) } ])->{k} // '' }
# Nobody of ours is there meanwhile.
sub relaying
{
	my ($on) = @_;
	sql("ALTER SYSTEM SET outbox.enabled = $on");
	sql('SELECT pg_reload_conf()');
	return wait_until(sub { (relay_pids($node) > 0) == ($on eq 'on') }, 30);
}
# Another application writes first.
sub restart
{
	my ($redis, @theirs) = @_;
	$redis->kill9;
	$redis->restart;
	$redis->command('XADD', $_, '*', 'their', 'own') foreach @theirs;
	return;
}

my $empty = start('empty');
my $half = start('half');
my $whole = start('whole', 'appendonly yes', 'appendfsync always');
ok(wait_idle($node), 'events are delivered');
$half->command('SAVE');
emit('half', 11, 20);
ok(wait_idle($node), 'one has more since it saved its data');

# Two lanes write one stream: the one with the older id there is the last to note it.
my $pair = $redis{pair} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
sql("CREATE SERVER pair FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$pair->{port}')");
sql("SELECT outbox.create_route('pair $_', server => 'pair', aggregate_types => '{pair.$_}', topic => 'pair')") foreach qw(early late);
sub pair { my ($lane) = @_; return by_key([ grep { defined } map { $_->{payload} } @{ $pair->entries('pair') } ])->{$lane} // '' }
emit_counted($node, 'pair.early', ['early'], 1, 5);
ok(wait_idle($node), 'one of them');
$pair->command('SAVE');
emit_counted($node, 'pair.late', ['late'], 1, 5);
ok(wait_idle($node), 'then the other');
ok(relaying('off'), 'our workers are away');
restart($empty, 'shared');
restart($half, 'shared');
sql(q{SET outbox.allow_loss = on; UPDATE outbox_internal.progress p SET at = clock_timestamp() FROM outbox.route r WHERE r.name = 'pair early' AND p.route_id = r.id
	AND p.at = (SELECT max(at) FROM outbox_internal.progress WHERE route_id = r.id AND acknowledged IS NOT NULL)});
is(sql(q{SELECT r.name FROM outbox_internal.progress p JOIN outbox.route r ON r.id = p.route_id WHERE r.name LIKE 'pair %' AND acknowledged IS NOT NULL
	ORDER BY at DESC LIMIT 1}), 'pair early', 'it noted later what was acknowledged earlier');
restart($pair, 'pair');

# This one has kept all, but somebody has trimmed one stream and consumed another.
$whole->command('XTRIM', 'trimmed', 'MAXLEN', 0);
my @consumed = map { $_->{_entry} } @{ $whole->entries('consumed') };
$whole->command('XDEL', 'consumed', @consumed);
restart($whole, @streams);

ok(relaying('on'), 'they are back');
ok(wait_until(sub { rewinds('empty') == @streams }, 30), 'a Redis that comes back empty, and is written to at once, has lost all');
ok(wait_until(sub { rewinds('half') == @streams }, 30), 'one that comes back with half has lost the other');
ok(wait_until(sub { rewinds('pair late') == 1 }, 30), 'of two lanes the one with the younger id has lost it');
ok(wait_idle($node), 'idle');
is(rewinds('pair early'), 0, 'the lane that was the last to note something has not');
is(pair('late'), join(' ', 1 .. 5), 'what was lost is there');
is(pair('early'), join(' ', 1 .. 5), 'what was not is there once');
foreach my $stream (@streams)
{
	is(arrived($empty, $stream), join(' ', 1 .. 10), "empty: $stream has all again, once");
	is(arrived($half, $stream), join(' ', 1 .. 20), "half: $stream has all, once");
}
emit('whole', 11, 12);
ok(wait_idle($node), 'idle');
is(rewinds('whole'), 0, 'one that has everything has lost nothing');
is(arrived($whole, $_), join(' ', 1 .. 12), "$_ has all, once") foreach qw(shared own);
is(arrived($whole, $_), '11 12', "$_: what is gone on purpose stays so") foreach qw(trimmed consumed);
no_server_crashed($node);
done_testing();
