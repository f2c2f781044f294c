# A route that is dropped while its Redis has lost something, before that and after: drop_route() says that nobody sends
# again what it delivered, each line of the server log has its end, and a route that is made under the same name says what
# it does. What another route delivered to the same Redis is looked after as ever.
# matrix: E-5 R70
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
my $alone = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub drops { my ($route) = @_; return ($node->psql('postgres', "SELECT outbox.drop_route('$route')"))[2] }
sub said { my ($text, $from) = @_; return scalar(() = substr(slurp_file($node->logfile), $from // 0) =~ /$text/g) }
sub here { return length slurp_file($node->logfile) }
sub rewinds { return sql(q{SELECT count(*) FROM outbox.audit WHERE action IN ('rewind', 'lost writes')}) }
sub delivers { my ($topic, $from, $to) = @_; emit_counted($node, $topic, ['k'], $from, $to); return ok(wait_idle($node), "$topic: $from to $to delivered") }
sub there { my ($server, $topic) = @_; return by_key($server->column($topic, 'payload'))->{k} // '' }
my $unsent = qr/NOTICE:  what route "\w+" has delivered is not sent again if its destination loses it/;

redis_route($node, $redis, 'r', topic => q('r'), aggregate_types => q('{r}'));
sql(q{SELECT outbox.create_route('stays', 'r', '{stays}', topic => 'stays')});
delivers('stays', 1, 10);
delivers('r', 1, 10);
$redis->command('SAVE');
delivers('r', 11, 20);

# Dropped and made anew, at the same server: what the one before delivered is not its.
my $notice = drops('r');
like($notice, $unsent, 'drop_route() says what is not watched any more');
like($notice, qr/nobody asks destination "r" whether it still has that/, 'and since when');
sql(q{SELECT outbox.create_route('r', 'r', '{r}', topic => 'r')});
my $from = here();
$redis->kill9;
$redis->restart;
delivers('stays', 11, 20);
is(said('lacks what was acknowledged', $from), 0, 'what only a dropped route had delivered is nothing to look at twice');
is(rewinds(), 0, 'and nobody is put back');
is(there($redis, 'r') . ' | ' . there($redis, 'stays'), join(' ', 1 .. 10) . ' | ' . join(' ', 1 .. 20), 'as was said');
delivers('r', 21, 30);
$from = here();
$redis->kill9;
$redis->restart;
ok(wait_until(sub { there($redis, 'r') eq join(' ', 1 .. 10, 21 .. 30) }, 30), 'what the new one delivered comes again, and nothing else') || diag(there($redis, 'r'));
ok(wait_idle($node), 'idle');
is(said('route "r" sends again (?:all that it has delivered and the log still has|what it delivered after)', $from), 1, 'and that is what is said');
ok(wait_until(sub { said('destination "r" works again', $from) }, 30), 'the trouble has an end');
is(there($redis, 'stays'), join(' ', 1 .. 20), 'the other route too');

# A new route that is to send what the log has does.
like(drops('r'), $unsent, 'said again');
sql(q{SELECT outbox.create_route('r', 'r', '{r}', topic => 'again', start => 'earliest')});
ok(wait_until(sub { there($redis, 'again') eq join(' ', 1 .. 30) }, 30), 'a new route from the earliest sends all');
# One that has delivered nothing has nothing that could be lost.
sql(q{SELECT outbox.create_route('nothing', 'r', '{nothing}')});
unlike(drops('nothing'), qr/not sent again/, 'nothing is said of nothing');

# The only one at its server, dropped between the first look and the second.
redis_route($node, $alone, 'alone', topic => q('alone'), aggregate_types => q('{alone}'));
delivers('alone', 1, 10);
$from = here();
my $before = rewinds();
$alone->kill9;
$alone->restart;
ok(wait_until(sub { said('destination "alone" is in trouble: a Redis server answers that lacks what was acknowledged', $from) }, 30), 'it is looked at once more');
like(drops('alone'), qr/$unsent.*Destination "alone" lacks something just now/s, 'drop_route() says that it is at a bad moment');
ok(wait_until(sub { said('destination "alone" (?:is used by no route of this worker any more|works again)', $from) }, 30), 'and the log has the end of it');
is(rewinds(), $before, 'nobody was put back for it');

# Two at it, of which one is dropped at that moment: the other gets its own again, and no more.
redis_route($node, $alone, 'pair', topic => q('first'), aggregate_types => q('{first}'));
sql(q{SELECT outbox.create_route('second', 'pair', '{second}', topic => 'second')});
delivers($_, 1, 10) foreach qw(first second);
$from = here();
$alone->kill9;
$alone->restart;
ok(wait_until(sub { said('destination "pair" is in trouble: a Redis server answers that lacks', $from) }, 30), 'both have lost something');
like(drops('pair'), qr/lacks something just now/, 'the first is dropped');
ok(wait_until(sub { there($alone, 'second') eq join(' ', 1 .. 10) }, 30), 'the second gets its own again');
ok(wait_until(sub { said('destination "pair" (?:is used by no route of this worker any more|works again)', $from) }, 30), 'which is said');
is($alone->command('EXISTS', 'first'), 0, 'the first does not');
no_server_crashed($node);
done_testing();
