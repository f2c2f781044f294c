# matrix: E-5 E-11
# Ids of a stream are ahead of the clock, since somebody has given it one of tomorrow (or the clock was wrong for a while):
# all later ids of it are. A Redis that comes back without a part of what it had is noticed all the same: in that stream, in
# others beside it, in streams that are gone, by new workers, too. Where nothing is lost, or something was deleted, trimmed
# or made again on purpose, nothing is sent again.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my (%redis, %sent);
sub rewinds { my ($name) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action IN ('rewind', 'lost writes') AND route LIKE '$name %'") }
# Ten more events in each of these streams, each under a route of its own (`lanes`: all under one).
sub emit
{
	my ($name, @streams) = @_;
	foreach my $stream (@streams)
	{
		my $from = $sent{$name}{$stream} // 0;
		emit_counted($node, "$name.$stream", ['k'], $from + 1, $from + 10);
		$sent{$name}{$stream} = $from + 10;
	}
	return;
}
sub start
{
	my ($name, @routes) = @_;
	my $redis = $redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	sql("CREATE SERVER $name FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$redis->{port}')");
	foreach my $route (@routes)
	{
		my $types = join ',', map { "$name.$_" } split / /, $route;
		sql("SELECT outbox.create_route('$name $route', server => '$name', aggregate_types => '{$types}')");
	}
	emit($name, map { split / / } @routes);
	return;
}
sub stream { my ($name, $stream) = @_; return "outbox.event.$name.$stream" }
sub arrived { my ($name, $stream) = @_; return by_key([ grep { defined } map { $_->{payload} } @{ $redis{$name}->entries(stream($name, $stream)) } ])->{k} // '' }
sub is_complete
{
	my ($name, $what) = @_;
	foreach my $stream (sort keys %{ $sent{$name} })
	{
		my %seen;
		is(join(' ', grep { !$seen{$_}++ } split / /, arrived($name, $stream)), join(' ', 1 .. $sent{$name}{$stream}), "$name: $what: all of $stream is there, in order");
	}
	return;
}
sub relaying
{
	my ($on) = @_;
	sql("ALTER SYSTEM SET outbox.enabled = $on");
	sql('SELECT pg_reload_conf()');
	return wait_until(sub { (relay_pids($node) > 0) == ($on eq 'on') }, 60);
}
sub restart { my ($name) = @_; $redis{$name}->kill9; $redis{$name}->restart; return }
# Streams that lose something each time.
my %loses = (beside => ['b'], two => [qw(a b)], within => ['a'], lanes => ['b'], fresh => ['c']);

start('beside', 'a', 'b');
start('two', 'a', 'b');
start('within', 'a', 'b');
start('lanes', 'a b');
start('fresh', 'a', 'b');
start('whole', 'a', 'b', 'gone', 'trimmed', 'made');
ok(wait_idle($node, 120), 'events are delivered');
my $tomorrow = (time + 86_400) * 1000;
$redis{$_}->command('XADD', stream($_, 'a'), "$tomorrow-0", 'their', 'own') foreach keys %redis;
emit($_, 'a', 'b') foreach keys %redis;
ok(wait_idle($node, 120), 'and others, in one stream under ids of tomorrow');
is($redis{whole}->entries(stream('whole', 'a'))->[-1]{_entry}, "$tomorrow-10", 'as Redis does it');
sql("SELECT outbox.create_route('fresh c', server => 'fresh', aggregate_types => '{fresh.c}')");

# Deleted, trimmed, and made again by a consumer's group, while others go on.
$redis{whole}->command('DEL', stream('whole', $_)) foreach qw(gone made);
$redis{whole}->command('XTRIM', stream('whole', 'trimmed'), 'MAXLEN', 0);
emit('whole', 'a', 'b');
ok(wait_idle($node, 120), 'idle');
$redis{whole}->command('XGROUP', 'CREATE', stream('whole', 'made'), 'group', '$', 'MKSTREAM');

foreach my $workers ('workers that were there', 'new workers')
{
	my %before = map { $_ => rewinds($_) } keys %redis;
	$_->command('SAVE') foreach values %redis;
	emit($_, @{ $loses{$_} }) foreach keys %loses;
	ok(wait_idle($node, 120), "$workers: more is delivered since it was saved");
	ok(relaying('off'), 'the workers are away') if $workers eq 'new workers';
	restart($_) foreach keys %redis;
	ok(relaying('on'), 'others come') if $workers eq 'new workers';
	foreach my $name (sort keys %loses)
	{
		ok(wait_until(sub { rewinds($name) > $before{$name} }, 60), "$workers: $name: the loss is noticed");
	}
	emit($_, 'b') foreach keys %redis;
	ok(wait_idle($node, 120), 'idle');
	is_complete($_, $workers) foreach sort keys %loses;
}
is(arrived('whole', $_), join(' ', 1 .. $sent{whole}{$_}), "where nothing is lost: $_ is as it was") foreach qw(a b);
is(arrived('whole', $_), '', "where nothing is lost: $_ stays empty") foreach qw(gone trimmed made);
is(rewinds('whole'), 0, 'nothing went again there');

# What was sent again is there; that a run before had lost it is no news to the next.
my %before = map { $_ => rewinds($_) } keys %redis;
$_->command('SAVE') foreach values %redis;
restart($_) foreach keys %redis;
emit($_, 'b') foreach keys %redis;
ok(wait_idle($node, 120), 'idle after another restart');
is(rewinds($_), $before{$_}, "$_: nothing is lost, and nothing goes again") foreach sort keys %redis;
no_server_crashed($node);
done_testing();
