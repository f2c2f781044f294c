# matrix: E-5
# The clock of a Redis goes back, as where a replica whose clock is behind takes the place of its master: what it was given
# since has older ids than what it had. It loses that, and it is noticed all the same: with one lane, with several, with
# streams that go on from before. What consumers have deleted is not sent again, also where a lane notes late what it
# delivered.
use strict;
use warnings;

use File::Temp ();
use Outbox::Clock;
use Outbox::Test;
use Test::More;

Outbox::Clock::prepare(File::Temp::tempdir('outbox-clock.XXXXXX', TMPDIR => 1, CLEANUP => 1));
my $node = new_node();
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
my (%redis, %sent);
sub rewinds { my ($name) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action IN ('rewind', 'lost writes') AND route = '$name'") }
# Events in streams NAME.STREAM, one more of each; `noted`: until it is noted where they are.
sub emit
{
	my ($name, @streams) = @_;
	foreach my $stream (@streams)
	{
		my $n = ++$sent{$name}{$stream};
		sql("SELECT outbox.emit_text('$name', '$stream', 'e', '$n')");
	}
	return;
}
sub noted
{
	my ($name, @streams) = @_;
	my $ids = join ',', map { "('$name.$_', '" . ($redis{$name}->entries("$name.$_")->[-1]{_entry} // '') . "')" } @streams;
	return sql("SELECT count(*) FROM (VALUES $ids) s(stream, id) WHERE EXISTS (SELECT FROM outbox_internal.progress p WHERE p.places -> s.stream ->> 1 = s.id)") == @streams;
}
sub deliver
{
	my ($name, $what, @streams) = @_;
	emit($name, @streams);
	ok(wait_idle($node, 120), "$name: $what: delivered");
	ok(wait_until(sub { noted($name, @streams) }, 60), "$name: $what: noted");
	return;
}
sub start
{
	my ($name, %options) = @_;
	my $redis = $redis{$name} = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
	redis_route($node, $redis, $name, aggregate_types => "'{$name}'", topic => "'$name.{aggregate_id}'", %options);
	return;
}
sub arrived { my ($name, $stream) = @_; return join ' ', map { $_->{payload} } @{ $redis{$name}->entries("$name.$stream") } }
sub is_complete
{
	my ($name) = @_;
	my @lacking;
	foreach my $stream (sort keys %{ $sent{$name} })
	{
		my %seen;
		my $there = join ' ', grep { !$seen{$_}++ } split / /, arrived($name, $stream);
		push @lacking, "$stream: $there" if $there ne join ' ', 1 .. $sent{$name}{$stream};
	}
	is("@lacking", '', "$name: all that was delivered is there, in order");
	return;
}
# In good order, with another clock; and without what it was given since it was saved.
sub goes_back { my ($name) = @_; $redis{$name}->command('SAVE'); Outbox::Clock::with(sub { $redis{$name}->restart }); return }
sub crash { my ($name) = @_; $redis{$name}->kill9; Outbox::Clock::with(sub { $redis{$name}->restart }); return }

Outbox::Clock::set(-60);
start('one');
start('several', lanes => 4);
start('touched');
start('within');
start('whole');
deliver($_, 'before', 'a' .. 'f') foreach sort keys %redis;
goes_back($_) foreach sort keys %redis;
cmp_ok($redis{one}->command('TIME')->[0], '<', time - 50, 'the clocks have gone back');

deliver('one', 'new streams', 'n1' .. 'n9');
deliver('several', 'new streams', 'n1' .. 'n9');
deliver('several', 'more of them', 'm1' .. 'm9');
deliver('touched', 'old streams', 'a' .. 'f');
$redis{touched}->command('SAVE');
deliver('touched', 'new streams', 'n1' .. 'n9');
deliver('within', 'new streams', 'n1' .. 'n9');
$redis{within}->command('SAVE');
deliver('within', 'more of them', 'm1' .. 'm9');
cmp_ok((split /-/, $redis{$_}->entries("$_.n1")->[0]{_entry})[0], '<', (split /-/, $redis{$_}->entries("$_.a")->[0]{_entry})[0], "$_: what is new has older ids")
	foreach qw(one several touched within);
# Deleted by their consumer; others go on.
deliver('whole', 'new streams', 'n1' .. 'n9');
$redis{whole}->command('DEL', map { "whole.$_" } 'n1' .. 'n8');
delete $sent{whole}{$_} foreach 'n1' .. 'n8';
deliver('whole', 'others', 'b', 'm1');
$redis{whole}->command('SAVE');

my %before = map { $_ => rewinds($_) } keys %redis;
is(join(' ', map { "$_: $before{$_}" } grep { $before{$_} } sort keys %before), '', 'nothing was lost by that');
crash($_) foreach sort keys %redis;
foreach my $name (qw(one several touched within))
{
	ok(wait_until(sub { rewinds($name) > 0 }, 60), "$name: the loss is noticed");
}
emit($_, 'a') foreach sort keys %redis;
ok(wait_idle($node, 120), 'idle');
is_complete($_) foreach sort keys %redis;
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
like($log, qr/WARNING:.*destination "$_": the Redis server has lost .*: stream "$_\.n\d" had/, "$_: the WARNING names a stream that is gone") foreach qw(one touched);
is(rewinds('whole'), 0, 'whole: nothing went again');
is(arrived('whole', $_), '', "whole: $_ stays away") foreach 'n1' .. 'n8';

# The right clock. Two routes to one server: a stream of the one is deleted by its consumer, after the other has written to its own, which
# was noted a moment earlier.
my $late = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $late, 'early', aggregate_types => q('{early}'), topic => q('early.{aggregate_id}'));
sql(q{SELECT outbox.create_route('late', server => 'early', aggregate_types => '{late}', topic => 'late.{aggregate_id}')});
my $acknowledged = q{SELECT count(*) FROM outbox_internal.progress p JOIN outbox.route r ON r.id = p.route_id WHERE r.name = '%s' AND p.acknowledged IS NOT NULL};
sql(q{SELECT outbox.emit_text('late', 'x', 'e', 'x')});
ok(wait_for_value($node, sprintf($acknowledged, 'late'), '1', 60), 'one of them is delivered');
sql(q{SELECT outbox.emit_text('early', 'y', 'e', 'y')});
ok(wait_for_value($node, sprintf($acknowledged, 'early'), '1', 60), 'then the other');
sql(q{SET outbox.allow_loss = on; UPDATE outbox_internal.progress p SET at = (SELECT max(at) + interval '1 microsecond' FROM outbox_internal.progress)
	FROM outbox.route r WHERE r.name = 'late' AND p.route_id = r.id AND p.acknowledged IS NOT NULL});
is(sql(q{SELECT r.name FROM outbox_internal.progress p JOIN outbox.route r ON r.id = p.route_id WHERE r.name IN ('early', 'late') AND p.acknowledged IS NOT NULL ORDER BY at DESC LIMIT 1}),
	'late', 'the first of them was noted last');
$late->command('DEL', 'late.x');
$late->command('SAVE');
$late->restart;
sql(q{SELECT outbox.emit_text('early', 'z', 'e', 'z')});
ok(wait_idle($node, 120), 'idle after a restart in good order');
is($late->xlen('early.z'), 1, 'the server is used');
is(rewinds($_), 0, "$_: nothing went again") foreach qw(early late);
is($late->command('EXISTS', 'late.x'), 0, 'late: what was deleted stays away');
no_server_crashed($node);
done_testing();
