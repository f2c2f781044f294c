# matrix: E-5
# A Redis that comes back without what it had acknowledged (no persistence, a replica promoted without the tail, with a
# worker killed at the same time) is noticed, said, and sent it again, in order. Trimming and deleting while it runs is
# its owner's business; so is the loss where the destination says warn.
# ring: long
use strict;
use warnings;

use Outbox::Ledger;
use Outbox::Test;
use Test::More;

my $node = new_node();
Outbox::Ledger::install($node);
my $redis = Outbox::Redis->start(conf => ['appendonly no']);
my $old = Outbox::Redis->start;
my $replica = Outbox::Redis->start;
redis_route($node, $redis, 'plain', aggregate_types => q('{order}'), topic => q('orders'), lanes => 2, server_options => q(, timeout '5000'));
redis_route($node, $redis, 'quiet', aggregate_types => q('{seldom}'), topic => q('seldom'), server_options => q(, timeout '5000'));

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub rewinds { my ($route) = @_; return sql("SELECT count(*) FROM outbox.audit WHERE action = 'rewind' AND route = '$route'") }
# New sinks, which know only what they are told.
sub new_sinks { my ($timeout) = @_; sql("ALTER SERVER $_ OPTIONS (SET timeout '$timeout')") foreach qw(plain quiet); return }
sub arrived { my ($server, $stream) = @_; return $server->column($stream, 'payload') }

# Without persistence, killed under load: all is gone, and comes again.
my $load = Outbox::Ledger::start_load($node, seconds => 300, rate => 40, events => 5);
sql(q{SELECT outbox.emit_text('seldom', 'k', 'counted', 'k ' || i) FROM generate_series(1, 3) i});
ok(wait_until(sub { $redis->xlen('orders') > 2000 && $redis->xlen('seldom') == 3 }, 30), 'events arrive');
$redis->kill9;
$redis->restart;
ok(Outbox::Ledger::end_load($load), 'no session noticed anything');
ok(wait_until(sub { rewinds('plain') >= 1 && $redis->xlen('seldom') >= 3 }, 30), 'what is gone comes again, also where nothing new does');
ok(wait_idle($node, 60), 'idle after a restart without persistence');
Outbox::Ledger::check($node, 'restarted empty', arrived($redis, 'orders'), duplicates => 1);
is_deeply(arrived($redis, 'seldom'), [ map { "k $_" } 1 .. 3 ], 'a quiet stream too, each event once');
cmp_ok(rewinds('plain'), '>=', 1, 'the lanes were put back, and the audit says so');
is(sql(q{SELECT detail ->> 'survived' FROM outbox.audit WHERE action = 'rewind' LIMIT 1}), '0-0', 'to where all was there still: the beginning');
ok(wait_for_value($node, q{SELECT state, error_code FROM outbox.destination WHERE server = 'plain'}, 'closed|LOST_WRITES', 10), 'the destination shows it');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/WARNING:.*destination "plain": the Redis server has lost what it had acknowledged: stream "orders" had/, 'the server log too');
is(sql(q{SELECT count(*) FROM outbox_internal.parked}), '0', 'nothing was charged');

# Again, and the workers are killed at the same time: their successors know from the tables.
my $before = rewinds('plain');
$redis->kill9;
$node->stop('immediate');
$redis->restart;
$node->start;
ok(wait_until(sub { rewinds('plain') > $before }, 30), 'new workers notice it as well');
ok(wait_idle($node, 60), 'idle after workers and Redis were killed together');
Outbox::Ledger::check($node, 'workers killed as well', arrived($redis, 'orders'), duplicates => 1);

# Trimming, deleting, emptying a server that goes on running: its owner's doing.
$before = rewinds('plain');
$redis->command('XTRIM', 'orders', 'MAXLEN', 10);
new_sinks(4000);
sql(q{SELECT outbox.emit_text('seldom', 'k', 'counted', 'k 4')});
ok(wait_idle($node), 'idle after XTRIM');
$redis->command('DEL', 'orders');
$redis->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
sql(q{SELECT outbox.emit_text('seldom', 'k', 'counted', 'k 5')});
ok(wait_idle($node), 'idle after DEL');
$redis->command('FLUSHALL');
new_sinks(4100);
sql(q{SELECT outbox.emit_text('seldom', 'k', 'counted', 'k 6')});
ok(wait_idle($node), 'idle after FLUSHALL');
is(rewinds('plain'), $before, 'nothing was put back');
is_deeply(arrived($redis, 'seldom'), ['k 6'], 'nothing was sent again');
is($redis->command('EXISTS', 'orders'), 0, 'and what was deleted stays deleted');

# A server that says warn.
sql("ALTER SERVER $_ OPTIONS (ADD on_lost_writes 'warn')") foreach qw(plain quiet);
ok(wait_idle($node), 'idle');
$redis->kill9;
$redis->restart;
sql(q{SELECT outbox.emit_text('seldom', 'k', 'counted', 'k 7')});
ok(wait_for_value($node, q{SELECT count(*) FROM outbox.audit WHERE action = 'lost writes' AND route = 'quiet'}, 1, 30), 'with on_lost_writes = warn it is said');
ok(wait_idle($node), 'idle');
is(rewinds('plain'), $before, 'and nothing is put back');
is_deeply(arrived($redis, 'seldom'), ['k 7'], 'nor sent again');

# A replica that stopped following a while ago takes the place of its master.
sql(q{SELECT outbox.drop_route('plain')});
sql(q{SELECT outbox.drop_route('quiet')});
my $port = $old->{port};
$replica->command('REPLICAOF', '127.0.0.1', $port);
redis_route($node, $old, 'replicated', aggregate_types => q('{order,seldom}'), topic => q('{aggregate_type}'));
sql(q{SELECT outbox.emit_text('seldom', 'k', 'counted', 'k ' || i) FROM generate_series(1, 5) i});
ok(wait_until(sub { $replica->xlen('seldom') == 5 }, 30), 'the replica follows');
my $floor = sql('SELECT sum(n) FROM ledger');
$load = Outbox::Ledger::start_load($node, seconds => 300, rate => 40, events => 5, name => 'second');
ok(wait_until(sub { $replica->xlen('order') > 5000 }, 30), 'under load too');
$replica->command('REPLICAOF', 'NO', 'ONE');
my $kept = $replica->xlen('order');
ok(wait_until(sub { $old->xlen('order') > $kept + 500 }, 30), 'and falls behind');
my $first_of_old = { map { $_->{id} => 1 } @{ $old->entries('order') } };
my $lost = keys(%$first_of_old) - $kept;
$old->stop;
$replica->command('CONFIG', 'SET', 'port', $port);
$replica->{port} = $port;
$replica->forget;
ok(Outbox::Ledger::end_load($load), 'no session noticed anything');
ok(wait_until(sub { rewinds('replicated') >= 1 }, 60), 'the lane is put back');
ok(wait_idle($node, 60), 'idle after the replica took over');
cmp_ok(rewinds('replicated'), '>=', 1, 'the lane was put back');
isnt(sql(q{SELECT detail ->> 'survived' FROM outbox.audit WHERE route = 'replicated' AND action = 'rewind' ORDER BY at LIMIT 1}), '0-0', 'to what the replica had');
my @ids = map { $_->{id} } @{ $replica->entries('order') };
my %seen;
$seen{$_}++ foreach @ids;
is((scalar grep { !$seen{$_} } keys %$first_of_old), 0, "each of the events that the old server had, $lost of which it alone, is there");
is(scalar keys %seen, sql('SELECT sum(n) FROM ledger') - $floor, 'so is every other');
is($replica->xlen('seldom'), 5, 'what was old enough was not sent again');
my $repeats = @ids - keys %seen;
cmp_ok($repeats, '<', $kept, "nor was all of the rest: $repeats repeats of $kept");
my (%last, @disorder);
foreach my $payload (@{ arrived($replica, 'order') })
{
	my ($key, $n) = split / /, $payload;
	push @disorder, $payload if defined $last{$key} && $n > $last{$key} + 1;
	$last{$key} = $n if !defined $last{$key} || $n > $last{$key};
}
is_deeply(\@disorder, [], 'first occurrences are in order per key');
no_server_crashed($node);
done_testing();
