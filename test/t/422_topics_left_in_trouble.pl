# matrix: A14
# A topic in trouble that its route names no more, or that was paused, is not said to work again in the server's log; one that
# does work is.
use strict;
use warnings;

use Outbox::Test;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
sub sql { return $node->safe_psql('postgres', @_) }
sub said { my ($pattern, $what) = @_; return ok(wait_until(sub { slurp_file($node->logfile) =~ $pattern }, 90), $what) }
redis_route($node, $redis, 'renamed', topic => q('old.{aggregate_type}'), aggregate_types => q('{a}'));
sql(q(SELECT outbox.create_route('held', server => 'renamed', topic => 'held.{aggregate_type}', aggregate_types => '{b}')));
sql(q(SELECT outbox.create_route('mended', server => 'renamed', topic => 'mended.{aggregate_type}', aggregate_types => '{c}')));
$redis->command('SET', $_, 'no stream') foreach qw(old.a held.b mended.c);
sql(q(SELECT outbox.emit(t, 'k', 'one', '{}') FROM unnest('{a,b,c}'::text[]) t));
said(qr/WARNING:  outbox: topic "$_" of route "\w+" is in trouble/, "$_ is in trouble") foreach qw(old.a held.b mended.c);
sql(q(SELECT outbox.alter_route('renamed', topic => 'new.{aggregate_type}')));
sql(q(SELECT outbox.pause(route => 'held', topic => 'held.b', reason => 'we look')));
$redis->command('DEL', 'mended.c');
said(qr/LOG:  outbox: topic "mended.c" of route "mended" works again after/, 'one works again');
said(qr/LOG:  outbox: topic "old.a" of route "renamed" is not used by it any more, and the trouble not followed further\n.*event=topic_unused route=renamed topic="?old.a"?/,
	'one is not used any more');
is($redis->xlen('new.a'), 1, 'its event went to the other');
unlike(slurp_file($node->logfile), qr/topic "(?:old.a|held.b)" of route "\w+" works again/, 'of neither it is said that it works');
$node->stop;
done_testing();
