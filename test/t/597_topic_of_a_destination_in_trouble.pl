# A topic whose error becomes one of the destination's while it is tried (here a full Redis, before the stream of another type) has delivered
# nothing: the server's log says that it works again once it does, and not before.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'redis', topic => q('{aggregate_type}'));
sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub logged { return slurp_file($node->logfile) }
sub met
{
	my ($code) = @_;
	return ok(wait_for_value($node, q{SELECT error_code FROM outbox.lag WHERE topic = 'bad' AND error_code IS NOT NULL}, $code, 120), "the topic meets $code");
}

$redis->command('SET', 'bad', 'no stream');
sql(q{SELECT outbox.emit('bad', 'k', 'one', '{}')});
ok(wait_until(sub { logged() =~ /WARNING:  outbox: topic "bad" of route "redis" is in trouble/ }, 60), 'a topic is in trouble');
my $since = sql(q{SELECT error_since FROM outbox.lag WHERE topic = 'bad'});
my $began = time;
$redis->command('CONFIG', 'SET', 'maxmemory', 1);
met('OOM');
# For so long that an end would be told: trouble is over when all works for five seconds.
my $late = time + 8;
ok(wait_until(sub { time > $late }, 60), 'for a while');
is(sql(q{SELECT error_since FROM outbox.lag WHERE topic = 'bad'}), $since, 'its trouble goes on');
unlike(logged(), qr/topic "bad" of route "redis" works again/, 'and is not said to be over');
$redis->command('CONFIG', 'SET', 'maxmemory', 0);
met('WRONGTYPE');
my $lasted = time - $began;
$redis->command('DEL', 'bad');
ok(wait_until(sub { $redis->xlen('bad') == 1 }, 120), 'it delivers');
my $end = qr/LOG:  outbox: topic "bad" of route "redis" works again after ([\d.]+) s/;
ok(wait_until(sub { logged() =~ $end }, 60), 'then its end is told');
my @ends = logged() =~ /$end/g;
is(scalar @ends, 1, 'once');
cmp_ok($ends[0], '>=', $lasted - 1, 'with the whole length');
my @begins = logged() =~ /WARNING:  outbox: topic "bad" of route "redis" is in trouble/g;
is(scalar @begins, 1, 'and its beginning once');
$node->stop;
done_testing();
