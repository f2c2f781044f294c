# A topic in trouble whose route is narrowed, so that it has no event for it any more: the server's log says that the topic is not used
# any more, and never that it works. Of one that the route may still use, and that nobody has tried since, it says neither.
# matrix: A14
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
sub logged { return slurp_file($node->logfile) }
sub said { my ($pattern, $what) = @_; return ok(wait_until(sub { logged() =~ $pattern }, 90), $what) || diag(logged()) }
sub unused { my ($route, $topic) = @_; return qr/LOG:  outbox: topic "$topic" of route "$route" is not used by it any more, and the trouble not followed further\n.*event=topic_unused route=$route topic="?$topic"?/ }
redis_route($node, $redis, 'types', topic => q('t.{aggregate_type}'), aggregate_types => q('{a,b}'));
my @routes = map { my ($name, %with) = @$_; $with{server} = q('types'); "SELECT outbox.create_route('$name', " . join(', ', map { "$_ => $with{$_}" } sort keys %with) . ')' } (
	[ 'events', topic => q('e.{event_type:lower}'), aggregate_types => q('{c}'), event_types => q('{One,Two}') ],
	[ 'shared', topic => q('s.{aggregate_type}'), aggregate_types => q('{d}'), event_types => q('{One,Two}') ],
	[ 'works', topic => q('w.{aggregate_type}'), aggregate_types => q('{e,f}') ]);
sql($_) foreach @routes;
my %topics = (types => 't.a', events => 'e.one', shared => 's.d', works => 'w.e');
$redis->command('SET', $_, 'no stream') foreach values %topics;
sql(q(SELECT outbox.emit(t, 'k', 'One', '{}') FROM unnest('{a,c,d,e}'::text[]) t));
said(qr/WARNING:  outbox: topic "$topics{$_}" of route "$_" is in trouble/, "$topics{$_} is in trouble") foreach sort keys %topics;

sql(q(SELECT outbox.alter_route('types', aggregate_types => '{b}')));
sql(q(SELECT outbox.alter_route('events', event_types => '{Two}')));
sql(q(SELECT outbox.alter_route('shared', event_types => '{Two}')));
said(unused($_ => $topics{$_}), "$topics{$_} is not used any more") foreach qw(types events);
$redis->command('DEL', 'w.e');
said(qr/LOG:  outbox: topic "w.e" of route "works" works again after/, 'another one works again');
sql(q(SELECT outbox.emit(t, 'k', 'Two', '{}') FROM unnest('{b,c}'::text[]) t));
ok(wait_until(sub { $redis->xlen('t.b') == 1 && $redis->xlen('e.two') == 1 }, 60), 'the narrowed routes go on');
unlike(logged(), qr/topic "(?:t.a|e.one|s.d)" of route "\w+" works again/, 'of none it is said that it works');
unlike(logged(), unused(shared => 's.d'), 'and of none that may be used that it is not');
$node->stop;
done_testing();
