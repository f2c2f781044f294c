# status() of a delivered event has the topic that it went to, whatever template its route has now; NULL where nothing tells by which
# of two it was sent.
use strict;
use warnings;

use Outbox::Test;
use Test::More;

my $node = new_node();
my $redis = Outbox::Redis->start;
redis_route($node, $redis, 'r', topic => q('one.{aggregate_type}'));
sub sql { return $node->safe_psql('postgres', $_[0]) }
sub emit { my ($more) = @_; return sql("SELECT outbox.emit('a', 'k', 'x', '{}'$more)") }
sub told { my ($id) = @_; return sql("SELECT state, coalesce(topic, 'not known'), places FROM outbox.status('$id')") }
sub delivered { my ($id) = @_; return ok(wait_for_value($node, "SELECT delivered_at IS NOT NULL FROM outbox.status('$id')", 't', 60), 'delivered') }

my $first = emit('');
delivered($first);
my $own = emit(q(, topic => 'own'));
delivered($own);
my @before = map { told($_) } $first, $own;
like($before[0], qr/^delivered\|one\.a\|\{"one\.a": .*-/, 'it went by the template');
sql(q(SELECT outbox.alter_route('r', topic => 'two.{aggregate_type}')));
is(told($first), $before[0], 'there it went, when the template is another');
is(told($own), $before[1], 'one with a topic of its own likewise');
my $second = emit('');
delivered($second);
like(told($second), qr/^delivered\|two\.a\|\{"two\.a": /, 'a later one goes by the new template');
sql(q(SELECT outbox.alter_route('r', topic => 'three.{aggregate_type}')));
is(told($first), $before[0], 'after two changes, too');
like(told($second), qr/^delivered\|two\.a\|\{"two\.a": /, 'each went by its own');

sql(q(SELECT outbox.pause('r', reason => 'test')));
my $late = emit('');
sql(q(SELECT outbox.alter_route('r', topic => 'four.{aggregate_type}')));
is(sql("SELECT state, topic FROM outbox.status('$late')"), 'paused|four.a', 'what waits goes by the present one');
sql(q(SELECT outbox.resume('r')));
delivered($late);
is(told($late), 'delivered|not known|', 'of what was there before the change, and went after it, that is not known any more');
no_server_crashed($node);
done_testing();
