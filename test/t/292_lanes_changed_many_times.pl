# A lane that begins asks what earlier lanes of the route had delivered, for the destination may have lost it. What that
# costs does not grow with how many times the lanes were changed: not while the Redis has never lost anything, and not
# once all lanes have looked at what it lost. What it loses of all those times is sent again.
# matrix: E-5
use strict;
use warnings;

use List::Util qw(min);
use Outbox::Test;
use Test::More;

my $node = new_node(conf => "outbox.workers = 1\n");
my $redis = Outbox::Redis->start(conf => [ 'appendonly no', 'save ""' ]);
redis_route($node, $redis, 'r', topic => q('t'), lanes => 7);
my @keys = map { "k$_" } 1 .. 24;
my $done = 0;

sub sql { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub deliver { emit_counted($node, 't', \@keys, $done + 1, $done + 1); $done++; return wait_idle($node) }
# Looks into the indexes of what lanes have noted, when the worker has said what it has done.
sub looks { return value_at_rest($node, q{SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE schemaname = 'outbox_internal' AND relname LIKE 'progress\_%'}, 15) }
# By turns 8 and 7 lanes, each of which has delivered something.
sub change
{
	my $lanes = 15 - sql('SELECT lanes FROM outbox.route');
	sql("SELECT outbox.alter_route('r', lanes => $lanes)");
	wait_for_value($node, 'SELECT lanes FROM outbox.route', $lanes, 30) && deliver() or die 'the lanes are not changed';
	return;
}
sub looks_of_change { my $before = looks(); change(); return looks() - $before }
# Of three, that which others on a busy machine have drawn out least: what looks once a second looks more often then.
sub least_of_three { return min(map { looks_of_change() } 1 .. 3) }

deliver();
change();
my $first = looks_of_change();
change() foreach 1 .. 6;
my $last = least_of_three();
cmp_ok($last, '<', 2 * $first, "at the ninth change no more than at the second: $last looks, $first");

$redis->kill9;
$redis->restart;
ok(wait_until(sub { $redis->xlen('t') >= @keys * $done }, 60), 'the Redis has lost all of it, and has it again');
my %came;
my %seen;
push @{ $came{ $_->[0] } }, $_->[1] foreach grep { !$seen{"@$_"}++ } map { [ split / / ] } @{ $redis->column('t', 'payload') };
is(join(' ', map { join ',', @{ $came{$_} // [] } } @keys), join(' ', (join ',', 1 .. $done) x @keys), 'each key in order');
ok(wait_idle($node), 'idle');
change();
$last = least_of_three();
cmp_ok($last, '<', 4 * $first, "after that each change has to look no further than to the one before: $last looks");
no_server_crashed($node);
done_testing();
