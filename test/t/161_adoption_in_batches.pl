# A large dump is adopted in batches: the call does some, the keeper the rest, through crashes of both and of the server.
# Meanwhile the copy's own events wait for what came before them, and routes that were made in it work. Nothing is lost,
# nothing is sent twice, nothing overtakes.
# matrix: C5 C17 R14
use strict;
use warnings;

use Outbox::Faults;
use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $redis = Outbox::Redis->start;
my $node = new_node(conf => "max_worker_processes = 16\n");
redis_route($node, $redis, 'had', topic => q('had'));
redis_route($node, $redis, 'lacks', topic => q('lacks'), lanes => 4);
redis_route($node, $redis, 'goes', topic => q('goes'));
$node->safe_psql('postgres', "SELECT outbox.pause('$_', reason => 'to have a backlog')") foreach qw(lacks goes);
my $events = 6000;
$node->safe_psql('postgres', "SELECT count(outbox.emit('order', 'k' || i % 13, 'counted', jsonb_build_object('n', i))) FROM generate_series($_ * 1000 + 1, $_ * 1000 + 1000) i") foreach 0 .. 5;
ok(wait_until(sub { $redis->xlen('had') == $events }, 60), 'one route has had everything, another nothing');
$node->safe_psql('postgres', "SELECT outbox.pause('had', reason => 'progress is saved by then')");
ok(wait_for_value($node, q{SELECT pending FROM outbox.lag WHERE route = 'had'}, '0'), 'and has noted it');
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'dumped');
$node->stop;

my $copy = new_node(name => 'copy', extension => 0, conf => "max_worker_processes = 16\nrestart_after_crash = on\n");
sub sql { my ($sql) = @_; return $copy->safe_psql('copied', $sql) }
sub emit
{
	my ($from, $to) = @_;
	sql("SELECT outbox.emit('order', 'k$_', 'counted', jsonb_build_object('n', $_ + $events))") foreach $from .. $to;
	return;
}
sub adopting { return sql(q{SELECT coalesce((SELECT phase FROM outbox_internal.adoption), 'none')}) }

$copy->safe_psql('template1', 'CREATE DATABASE copied TEMPLATE template0');
$copy->command_ok([ 'pg_restore', '--exit-on-error', '-j4', '-d', $copy->connstr('copied'), $dump ], 'restored');
sql(q{SELECT outbox.drop_route('goes')});
sql(q{SELECT outbox.create_route('new', server => 'had', topic => 'new')});
sql(q{SELECT outbox.resume('lacks'); SELECT outbox.resume('had')});
like(($copy->psql('copied', "CALL outbox.seek('lacks', 'infinity', dry_run => false)"))[2], qr/came by a dump, and is not adopted/, 'a route of a dump is not moved before');
emit(1, 12);
$redis->command('DEL', qw(had lacks new));

# --- the call dies ---
Outbox::Faults::put('adopt.at_once', 2000);
Outbox::Faults::put('adopt.rows', 1000);
Outbox::Faults::arm('adopt.inserted', 'kill 2');
my $crashes = crash_restarts($copy);
my ($status) = eval { $copy->psql('copied', 'SELECT outbox.adopt()') };
ok(server_is_back($copy, $crashes), 'a call that crashes has done nothing');
is(sql(q{SELECT (SELECT count(*) FROM outbox_internal.adoption), (SELECT count(*) FROM outbox_internal.foreign_event), (SELECT count(*) FROM outbox_internal.lane WHERE home = outbox_internal.home())}), "0|$events|1", 'everything is as before');

# --- the call does some, and the keeper goes on ---
Outbox::Faults::arm('adopt.uncommitted', 'wait');
# A session has emitted before, and commits afterwards.
my $open = $copy->background_psql('copied');
$open->query_safe("SET client_min_messages = error; BEGIN; SELECT outbox.emit('order', 'k99', 'counted', jsonb_build_object('n', $events + 100))");
my ($ok, $sent, $told) = $copy->psql('copied', 'SELECT outbox.adopt()');
is("$ok $sent", '0 2000', 'the call moves some of them');
like($told, qr/NOTICE:.*2000 have been looked at so far/, 'and says that it goes on');
ok(wait_until(sub { Outbox::Faults::waiting('adopt.uncommitted') }), 'the keeper goes on');
like(sql(q{SELECT detail FROM outbox.doctor() WHERE "check" = 'adoption'}), qr/had not delivered is being moved into the log: [234]000 events are there/, 'doctor() says how far it is');
emit(13, 24);
ok(wait_until(sub { $redis->xlen('new') == 24 }), 'a route that was made in the copy works all the time');
is($redis->xlen('had') + $redis->xlen('lacks'), 0, 'those of the dump wait for the whole of it');
$open->query_safe('COMMIT');
$open->quit;
$crashes = crash_restarts($copy);
Outbox::Faults::arm('adopt.inserted', 'kill 2');
Outbox::Faults::release('adopt.uncommitted');
ok(wait_until(sub { Outbox::Faults::hits('adopt.inserted') == 2 }, 60), 'the keeper crashes in the middle of a batch');
ok(server_is_back($copy, $crashes), 'with the server');
ok(wait_until(sub { adopting() eq 'none' }, 60), 'and goes on');
emit(25, 36);
ok(wait_until(sub { $redis->xlen('lacks') >= $events + 37 && $redis->xlen('had') >= 37 && $redis->xlen('new') >= 37 }, 60), 'everything is delivered');
ok($copy->safe_psql('copied', "SELECT outbox.wait_until_idle('30 s')") eq 't', 'and nothing else');
my %last;
my $order = 1;
my %seen;
foreach my $entry (@{ $redis->entries('lacks') })
{
	my ($n) = $entry->{payload} =~ /(\d+)/;
	next if $seen{$n}++;
	$order = 0 if $n <= ($last{ $entry->{key} } // 0);
	$last{ $entry->{key} } = $n;
}
is(scalar(keys %seen), $events + 37, 'the routes that lacked it have got all of it');
ok($order, 'in order: first the original\'s, then the copy\'s');
foreach my $route (qw(had new))
{
	my %of = map { ($_->{payload} =~ /(\d+)/)[0] => 1 } @{ $redis->entries($route) };
	is(join(' ', sort { $a <=> $b } keys %of), join(' ', map { $_ + $events } 1 .. 36, 100), "$route gets what the copy emitted, and that alone");
}
is(sql(q{SELECT count(*) || ' ' || count(*) FILTER (WHERE xid < '503') FROM outbox_internal.log}), ($events + 37) . " $events", 'the log holds everything');
is(sql(q{SELECT count(*) FROM outbox_internal.foreign_event}), '0', 'and nothing waits');
is(sql(q{SELECT outbox.adopt()}), '0', 'adopted again: nothing to do');

# --- restored over an outbox that is in use ---
my (undef, undef, $errors) = $copy->psql('copied', q{SELECT outbox.emit('order', 'k1', 'counted', '{"n": 1}')}); # no warning any more
unlike($errors, qr/copy/, 'an adopted outbox is none');
IPC::Run::run([ 'pg_restore', '-a', '-d', $copy->connstr('copied'), $dump ], '2>', \$errors);
like($errors, qr/ERROR:  cannot restore into an outbox that is in use/, 'what is restored over an outbox in use does not take it over');
my $tables = 'identity|route|lane|parked|pause|side_lane|side_topic|replay|(?:progress|tick|outcome)_[0-9]+';
unlike(join(' ', grep { !/WARNING/ } split /\n/, sql(q{SELECT string_agg(relname, ' ') FROM pg_stat_user_tables WHERE false}) . $errors), qr/COPY failed for table "(?!(?:$tables)")/, 'only its events come in');
$redis->command('DEL', qw(had lacks new));
emit(37, 40);
is(sql(q{SELECT outbox.wait_until_idle('30 s')}), 't', 'which goes on working');
is($redis->xlen('lacks'), 4, 'and sends what is its own');
is(sql(q{SELECT status FROM outbox.doctor() WHERE "check" = 'foreign rows'}), 'warning', 'doctor() tells of the rest');
is(sql(q{SELECT outbox.adopt()}), $events, 'positions unknown: all of it is sent on purpose only');
is(sql(q{SELECT outbox.wait_until_idle('60 s')}), 't', 'and delivered');
is($redis->xlen('lacks'), 4 + $events, 'under its own ids');
done_testing();
