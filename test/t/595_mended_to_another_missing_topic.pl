# A topic in trouble, because its name was a mistake, gets another name that is wrong, too: the server's log tells of that one, and no
# more of the former.
# matrix: A14
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('first.{aggregate_type}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub says { my ($like, $what) = @_; return ok(wait_until(sub { PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ $like }, 120), $what) }

$redis->command('SET', $_, 'no stream') foreach 'first.a', 'second.a';
sql(q(SELECT outbox.emit('a', 'k', 'x', '{}')));
says(qr/outbox: topic "first.a" of route "r" is in trouble/, 'the log tells of a topic in trouble');
sql(q(SELECT outbox.alter_route('r', topic => 'second.{aggregate_type}')));
says(qr/outbox: topic "second.a" of route "r" is in trouble/, 'and of that which is wrong in its stead');
says(qr/outbox: topic "first.a" of route "r" is not used by it any more/, 'the former is not used any more');
sql(q(SELECT outbox.alter_route('r', topic => 'third.{aggregate_type}')));
ok(wait_until(sub { $redis->xlen('third.a') == 1 }, 120), 'under a right one the event goes');
no_server_crashed($node);
done_testing();
