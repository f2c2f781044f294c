# A route that goes to another server and comes back, servers that change their address and change it back, routes that change
# places, and restarts of a Redis meanwhile: what went to another place was never written here, so none of it is missed. What
# was written here and is lost is found, though it was lost while the route was elsewhere.
# matrix: E-5 S2
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
# A comes back as it was at the last SAVE; B is never restarted.
my $A = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
my $B = Outbox::Redis->start;
my $A3 = bless { %$A, db => 3 }, ref $A;
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub wrong { return sql(q{SELECT count(*) FROM outbox.audit WHERE action IN ('rewind', 'lost writes')}) }
sub told { my ($route, $action) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action = '$action' AND route = '$route'") }
sub idle { my ($what) = @_; return ok(wait_idle($node), "$what: idle") }

# Always at A: who meets each of its lives at once.
redis_route($node, $A, 'a', aggregate_types => q('{stays}'), topic => q('stays'));
sql("CREATE SERVER a3 FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$A->{port}', db '3')");
sql("CREATE SERVER b FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$B->{port}')");
my $stays = 0;
sub stays { $stays++; emit_counted($node, 'stays', ['s'], $stays, $stays); return }

# A route of its own stream, and what it has emitted.
my %done;
sub route { my ($name, $server, %more) = @_; sql("SELECT outbox.create_route('$name', server => '$server', aggregate_types => '{$name}', topic => '$name'" . ($more{lanes} ? ", lanes => $more{lanes}" : '') . ')'); $done{$name} = 0; return }
sub emits { my ($name, $count) = @_; emit_counted($node, $name, [ 'k', 'l' ], $done{$name} + 1, $done{$name} + $count); $done{$name} += $count; ok(wait_idle($node), "$name: delivered") ; return }
sub moves { my ($name, $server) = @_; sql("SELECT outbox.alter_route('$name', server => '$server')"); return }
# What a server has of a route, each key alike: "1-10 21-30".
sub has
{
	my ($redis, $name) = @_;
	my $keys = by_key(eval { $redis->column($name, 'payload') } // []);
	return 'nothing' if !%$keys;
	return "k: $keys->{k}, l: $keys->{l}" if $keys->{k} ne $keys->{l};
	my @ranges;
	foreach my $n (split / /, $keys->{k})
	{
		if (@ranges && $ranges[-1][1] + 1 == $n) { $ranges[-1][1] = $n }
		else { push @ranges, [ $n, $n ] }
	}
	return join ' ', map { "$_->[0]-$_->[1]" } @ranges;
}
# Each life is met, by the route that stays, before anything else happens.
sub restart
{
	my ($forget) = @_;
	$A->command('SAVE') if !$forget;
	$A->kill9;
	$A->restart;
	$A3->forget;
	stays();
	idle('A restarted');
	return;
}

# There and back, a restart meanwhile: the streams of who was elsewhere count for how much that life has.
stays();
idle('at first');
foreach my $elsewhere (qw(a3 b))
{
	my $name = "to_$elsewhere";
	route($name, 'a', lanes => 2);
	emits($name, 10);
	emits($name, 10);
	moves($name, $elsewhere);
	emits($name, 10);
	restart();
	emits($name, 10);
	moves($name, 'a');
	emits($name, 10);
	moves($name, $elsewhere);
	emits($name, 10);
	restart();
	moves($name, 'a');
	emits($name, 10);
	is(has($A, $name), '1-20 41-50 61-70', "to $elsewhere and back, twice: what it wrote here, once");
	is(has($elsewhere eq 'b' ? $B : $A3, $name), '21-40 51-60', 'the rest is where it was written');
}
is(wrong(), '0', 'nothing is called lost, nothing was sent again');

# A stream for each of 70 kinds of things.
sql(q{SELECT outbox.create_route('many', server => 'a', aggregate_types => '{many*}', topic => '{aggregate_type}')});
sub many { sql(qq{SELECT outbox.emit_text('many' || i, 'k', 'counted', 'k ' || i) FROM generate_series(1, 70) i}); idle('70 streams'); return }
many();
moves('many', 'a3');
many();
restart();
moves('many', 'a');
many();
is_deeply([ map { $A->xlen("many$_") . $A3->xlen("many$_") } 1 .. 70 ], [ ('21') x 70 ], '70 streams there and back');
is(wrong(), '0', 'nothing is missed');

# Two routes change places.
route('one', 'a');
route('two', 'b');
emits('one', 10);
emits('two', 10);
sql(q{SELECT outbox.alter_route('one', server => 'b'), outbox.alter_route('two', server => 'a')});
emits('one', 10);
emits('two', 10);
restart();
sql(q{SELECT outbox.alter_route('one', server => 'a'), outbox.alter_route('two', server => 'b')});
emits('one', 10);
emits('two', 10);
is(join(' | ', map { (has($A, $_), has($B, $_)) } qw(one two)), '1-10 21-30 | 11-20 | 11-20 | 1-10 21-30', 'two routes change places and change back');
is(wrong(), '0', 'nothing is missed');

# The server's options change in place: its address, and back.
sql("CREATE SERVER alters FOREIGN DATA WRAPPER outbox_redis OPTIONS (host '127.0.0.1', port '$A->{port}', db '0')");
route('altered', 'alters');
emits('altered', 10);
emits('altered', 10);
sql(q{ALTER SERVER alters OPTIONS (SET db '3')});
emits('altered', 10);
restart();
sql(q{ALTER SERVER alters OPTIONS (SET db '0')});
emits('altered', 10);
is(has($A, 'altered') . ' | ' . has($A3, 'altered'), '1-20 31-40 | 21-30', 'an address that changes and changes back');
is(wrong(), '0', 'nothing is missed');

# One real loss, sent again once; moving away and back with no restart is no second one.
route('lost', 'a');
emits('lost', 10);
$A->command('SAVE');
emits('lost', 10);
restart('and forget');
ok(wait_until(sub { has($A, 'lost') eq '1-20' }, 30), 'what was lost is sent again') || diag(has($A, 'lost'));
is(told('lost', 'rewind'), '1', 'and that is said');
moves('lost', 'b');
emits('lost', 10);
moves('lost', 'a');
emits('lost', 10);
is(has($A, 'lost'), '1-20 31-40', 'a loss that was seen to is not seen again after moving');
restart();
moves('lost', 'b');
emits('lost', 10);
restart();
moves('lost', 'a');
emits('lost', 10);
is(has($A, 'lost'), '1-20 31-40 51-60', 'nor after another restart');
is(told('lost', 'rewind'), '1', 'it was one loss');

# Lost while the route was elsewhere, with other lives of A since, all met by the route that stays, and written to.
$A->command('SAVE');
route('late', 'a', lanes => 2);
emits('late', 10);
$A->command('SAVE');
emits('late', 10);
moves('late', 'b');
emits('late', 10);
my $before = wrong();
restart('and forget');
is(has($A, 'late'), '1-10', 'the second half is lost');
restart();
restart();
is(wrong(), $before, 'nobody can say so yet');
moves('late', 'a');
ok(wait_until(sub { told('late', 'rewind') == 2 }, 30), 'found when the route is back, by each lane');
emits('late', 10);
my %seen;
my $there = by_key([ grep { !$seen{$_}++ } @{ $A->column('late', 'payload') } ]);
is($there->{k}, join(' ', 1 .. 40), 'all that was lost comes again, in order, with what was written elsewhere since');
is(has($B, 'late'), '21-30', 'nothing more goes to the other');
is(sql(q{SELECT count(*) FROM outbox.audit WHERE action IN ('rewind', 'lost writes') AND (route = 'stays' OR route = 'a')}), '0', 'the route that stayed was never concerned');
my $said = () = slurp_file($node->logfile) =~ /WARNING:  outbox: destination "a": the Redis server has lost .* route "late" sends again/g;
is($said, 2, 'each lane says so once');

# Where a route was for the first time when A lost what others had written: nothing of it.
route('new', 'b');
emits('new', 10);
restart('and forget');
moves('new', 'a');
emits('new', 10);
is(has($A, 'new') . ' | ' . has($B, 'new'), '11-20 | 1-10', 'who was never here has lost nothing here');
is(told('new', 'rewind') + told('new', 'lost writes'), '0', 'and nobody says so');

# What is only said is said once, however often A comes back without it, by a lane that has moved as well.
sql(q{ALTER SERVER a OPTIONS (ADD on_lost_writes 'warn')});
route('warned', 'a');
route('warned_too', 'a');
$A->command('SAVE');
emits($_, 10) foreach qw(warned warned_too);
moves('warned_too', 'b');
emits('warned_too', 10);
$A->kill9;
$A->restart;
ok(wait_until(sub { told('warned', 'lost writes') == 1 }, 30), 'with on_lost_writes = warn it is said');
moves('warned_too', 'a');
ok(wait_until(sub { told('warned_too', 'lost writes') == 1 }, 30), 'also by a lane that comes later');
foreach (1 .. 2)
{
	my $lives = sql('SELECT max(number) FROM outbox_internal.server_run');
	$A->kill9;
	$A->restart;
	ok(wait_until(sub { sql('SELECT max(number) FROM outbox_internal.server_run') > $lives }, 30), 'A is back, and nothing newer was written');
	moves('warned_too', 'b');
	emits('warned_too', 10);
	moves('warned_too', 'a');
	ok(wait_idle($node), 'idle');
}
emits($_, 1) foreach qw(warned warned_too);
is(told('warned', 'lost writes') . told('warned_too', 'lost writes'), '11', 'once');
is(told('warned', 'rewind') + told('warned_too', 'rewind'), 0, 'and nothing is sent again');
no_server_crashed($node);
done_testing();
